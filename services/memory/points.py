"""Bullet points that stand for an old answer: its first sentences with numbers, else its first sentence."""

from __future__ import annotations

import re

SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
MARKUP = re.compile(r"\{\{[^}]*\}\}|\[\d+\]|[*_`#>|]")
MAX_POINTS, MAX_CHARS = 3, 200


def points(answer: str) -> list[str]:
    """At most three sentences without markup, citations and references; those with numbers first."""
    sentences = [part.strip(" -•") for part in SENTENCE.split(MARKUP.sub("", answer))]
    sentences = [part for part in sentences if len(part) > 1]
    chosen = [part for part in sentences if any(c.isdigit() for c in part)][:MAX_POINTS] or sentences[:1]
    return [part if len(part) <= MAX_CHARS else part[: MAX_CHARS - 1] + "…" for part in chosen]
