"""Text of a completed question: slots replaced in an earlier one, or added in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.planner.model.slots import ENTITY, Kinds, ReadText, Slot

# Names that belong together stand this close: "Apple and Microsoft", 苹果、微软和谷歌.
RUN_CHARS = 12
END = re.compile(r"[?？。.!！\s]*$")
PAIR = re.compile(r"\bto\b|\bper\b|\bagainst\b|\bvs\b|\bversus\b|/|兑|对", re.IGNORECASE)


def join_names(names: Sequence[str], chinese: bool) -> str:
    """Return names as one phrase: "A, B and C"."""
    if len(names) < 2:
        return "".join(names)
    first = ("、" if chinese else ", ").join(names[:-1])
    return f"{first}{'和' if chinese else ' and '}{names[-1]}"


def list_run(text: ReadText, kinds: Kinds) -> list[Slot]:
    """Return the first slots of some kinds that stand together."""
    run: list[Slot] = []
    for slot in sorted((slot for slot in text.slots if slot.kind in kinds), key=lambda slot: slot.start):
        if not run or slot.start - run[-1].end <= RUN_CHARS:
            run.append(slot)
    return run


def replace_slots(text: ReadText, kinds: Kinds, words: str, chinese: bool) -> ReadText:
    """Return the text with the first run of slots of some kinds replaced, or with the words added in brackets."""
    run = list_run(text, kinds)
    if not run:
        return ReadText(add_in_brackets(text.text, [words], chinese), text.slots)
    return replace_span(text, run[0].start, run[-1].end, words)


def replace_second(text: ReadText, words: str) -> ReadText | None:
    """Return the text with the second name of a pair replaced, as in "euro to dollar"; None without a pair."""
    run = list_run(text, ENTITY)
    if len(run) != 2 or not PAIR.search(text.text, run[0].start, run[1].start):
        return None
    return replace_span(text, run[1].start, run[1].end, words)


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
