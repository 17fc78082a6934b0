"""Names that the data do not know, found among the unknown words of a text by their place and spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fathom.domain.text.months import MONTHS
from fathom.domain.text.scripts import HAN, HAN_CHARACTER
from fathom.services.planner.model.slots import ENTITY, TOPIC, UNKNOWN, ReadText, Slot, SlotKind
from fathom.services.planner.questions.references import ADD, COMPARED, REMOVE, compile_kind, find_references

CAPITALISED = re.compile(r"[A-Z][\w&.-]*(?: (?:& )?[A-Z][\w&.-]*)*")
HAN_NAME = re.compile(rf"[{HAN}]{{2,8}}")
BETWEEN = re.compile(r"[和与及、]")
# Names in a list stand this close.
GAP_CHARS = 2
# A Chinese follow-up with one of these is about what it names: 福特呢, 换成福特.
ELLIPTIC = re.compile("呢|换成|改成|改为")


def promote_names(text: ReadText, known: Sequence[Slot] = (), is_follow_up: bool = False) -> ReadText:
    """Return the text with unknown names as entities; ``known`` are names of earlier turns."""
    found = [*find_known(text, known), *find_capitalised(text)]
    values = {slot.text.casefold(): slot.value for slot in known}
    if not any(slot.kind in ENTITY for slot in text.slots):
        found += find_chinese(text, is_follow_up)
    taken = [(one.start, one.end) for one in find_references(text)] if is_follow_up else []
    found = [span for span in found if not any(span[0] < end and start < span[1] for start, end in taken)]
    names: list[Slot] = []
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if not any(start < slot.end and slot.start < end for slot in names):
            words = text.text[start:end]
            value = values.get(words.casefold(), words.casefold())
            names.append(Slot(SlotKind.ENTITY, words, value, start, end))
    others = [slot for slot in text.slots if not any(slot.start < one.end and one.start < slot.end for one in names)]
    return replace(text, slots=tuple(sorted([*others, *names], key=lambda slot: slot.start)))


def find_known(text: ReadText, known: Sequence[Slot]) -> Iterator[tuple[int, int]]:
    """Yield the places of names of earlier turns that belong to no known entity."""
    for name in known:
        for match in re.finditer(re.escape(name.text), text.text, re.IGNORECASE):
            if not any(
                slot.kind in ENTITY and slot.start < match.end() and match.start() < slot.end for slot in text.slots
            ):
                yield match.span()


def find_capitalised(text: ReadText) -> Iterator[tuple[int, int]]:
    """Yield the capitalised words of the unknown ones; of those that begin a text only what reads like a subject."""
    for slot in merge_neighbours(text):
        for match in CAPITALISED.finditer(mask_operators(slot.text)):
            start, end = slot.start + match.start(), slot.start + match.end()
            word = match.group().removesuffix("'s")
            if word.lower() in MONTHS or (start == 0 and not is_subject(text, end)):
                continue
            yield start, end


def is_subject(text: ReadText, end: int) -> bool:
    """Return whether a possessive, a number, a known slot or the end follows the first word of a text."""
    if re.match(r"'s\b|\s*[?.!]?$|\s*[,-]?\s*-?\d", text.text[end:]):
        return True
    place = end + len(text.text[end:]) - len(text.text[end:].lstrip())
    return any(slot.start == place and slot.kind not in UNKNOWN for slot in text.slots)


def find_chinese(text: ReadText, is_follow_up: bool) -> Iterator[tuple[int, int]]:
    """Yield the first Chinese names of a text that measures something of one, or of a follow-up that is a name."""
    slots = [slot for slot in merge_neighbours(text) if HAN_CHARACTER.search(slot.text)]
    if is_follow_up:
        markers = (ELLIPTIC, *(compile_kind(kind) for kind in (ADD, REMOVE, COMPARED)))
        if not any(pattern.search(text.text) for pattern in markers):
            return
    else:
        topics = [slot for slot in text.slots if slot.kind in TOPIC]
        needs_name = bool(topics) and all(slot.is_measure for slot in topics)
        slots = [slot for slot in slots if needs_name or slot.start == 0]
    last = None
    for slot in slots:
        # After the first run of names other unknown words follow.
        if last is not None and slot.start - last > GAP_CHARS:
            return
        last = slot.end
        for match in HAN_NAME.finditer(BETWEEN.sub("，", mask_operators(slot.text))):
            yield slot.start + match.start(), slot.start + match.end()


def mask_operators(text: str) -> str:
    """Return the text with the words that add or remove a name replaced by as many commas."""
    for kind in (ADD, REMOVE):
        text = compile_kind(kind).sub(lambda match: "，" * len(match.group()), text)
    return text


def merge_neighbours(text: ReadText) -> list[Slot]:
    """Return the unknown slots, those next to each other as one."""
    merged: list[Slot] = []
    for slot in sorted((one for one in text.slots if one.kind in UNKNOWN), key=lambda one: one.start):
        last = merged[-1] if merged else None
        if last is not None and text.text[last.end : slot.start] in ("", " "):
            words = text.text[last.start : slot.end]
            merged[-1] = Slot(SlotKind.UNKNOWN, words, "", last.start, slot.end)
        else:
            merged.append(slot)
    return merged
