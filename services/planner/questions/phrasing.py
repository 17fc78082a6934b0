"""Text of a completed question: slots replaced in an earlier one, or added in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.planner.model.slots import ReadText

END = re.compile(r"[?？。.!！\s]*$")


def join_names(names: Sequence[str], chinese: bool) -> str:
    """Return names as one phrase: "A, B and C"."""
    if len(names) < 2:
        return "".join(names)
    first = ("、" if chinese else ", ").join(names[:-1])
    return f"{first}{'和' if chinese else ' and '}{names[-1]}"


def replace_span(text: ReadText, start: int, end: int, words: str) -> ReadText:
    """Return the text with other words from ``start`` to ``end`` and without the slots there."""
    moved = len(words) - (end - start)
    others = tuple(
        slot if slot.end <= start else replace(slot, start=slot.start + moved, end=slot.end + moved)
        for slot in text.slots
        if slot.end <= start or slot.start >= end
    )
    return ReadText(text.text[:start] + words + text.text[end:], others)


def add_in_brackets(text: str, parts: Sequence[str], chinese: bool) -> str:
    """Return the text with the parts in brackets before its closing mark."""
    if not parts:
        return text
    end = END.search(text)
    place = end.start() if end else len(text)
    body, mark = text[:place], text[place:].strip()
    if chinese:
        return f"{body}（{'，'.join(parts)}）{mark or '？'}"
    return f"{body} ({', '.join(parts)}){mark or '?'}"
