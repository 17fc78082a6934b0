"""Resolution of ``[n]`` citations in plain answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# [1], [1, 2] and [1][2]; not a Markdown link "[1](url)" and not a footnote "[^1]".
CITATION = re.compile(r"\[(\d{1,3}(?:\s*[,，]\s*\d{1,3})*)\](?!\()")
FENCE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


@dataclass(frozen=True)
class ResolvedCitations:
    """Markdown in which every citation resolves."""

    markdown: str
    cited: tuple[int, ...]
    unresolved: tuple[int, ...]


def resolve_citations(markdown: str, known: Iterable[int]) -> ResolvedCitations:
    """Split grouped citations and remove those of unknown material; code is left unchanged."""
    if "[" not in markdown:
        return ResolvedCitations(markdown, (), ())
    numbers = set(known)
    cited: list[int] = []
    unresolved: list[int] = []

    def replace(match: re.Match[str]) -> str:
        kept = []
        for text in re.split(r"[,，]", match.group(1)):
            number = int(text)
            (cited if number in numbers else unresolved).append(number)
            if number in numbers:
                kept.append(f"[{number}]")
        return "".join(kept)

    # Odd parts are code, where ``x[1]`` is an index.
    parts = FENCE.split(markdown)
    checked = "".join(part if index % 2 else CITATION.sub(replace, part) for index, part in enumerate(parts))
    return ResolvedCitations(checked, tuple(sorted(set(cited))), tuple(sorted(set(unresolved))))
