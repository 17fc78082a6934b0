"""Paragraphs that several answers share, such as conventions and dates of the data, said once."""

from __future__ import annotations

import re
from collections.abc import Sequence

CITATIONS = re.compile(r"(?:\s*\[\d+\])+")


def share_paragraphs(answers: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return what several answers begin with, the answers without what several say, and what they say behind that.

    Of a shared paragraph one stays, with the citations of all. A list has the values of its own question, and is never
    shared.
    """
    said: dict[str, list[str]] = {}
    split = [answer.split("\n\n") for answer in answers]
    for paragraph in (paragraph for paragraphs in split for paragraph in paragraphs):
        said.setdefault(CITATIONS.sub("", paragraph), []).append(paragraph)
    once: dict[str, str] = {}
    for key, texts in said.items():
        if len(texts) > 1 and key and not key.startswith(("- ", "{{")):
            cited = "".join(dict.fromkeys(run for text in texts for run in CITATIONS.findall(text)))
            once[key] = CITATIONS.sub(cited, texts[0])
    parts = ["\n\n".join(one for one in paragraphs if CITATIONS.sub("", one) not in once) for paragraphs in split]
    first = {CITATIONS.sub("", paragraphs[0]) for paragraphs in split}
    return [once[key] for key in once if key in first], parts, [once[key] for key in once if key not in first]
