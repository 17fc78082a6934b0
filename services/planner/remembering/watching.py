"""A question that names nothing to look at, and means the user's watch-list."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import ENTITY, ReadText, SlotKind
from fathom.services.planner.reader import IMPLIED


@cache
def load_wording() -> dict[str, dict[str, object]]:
    """Return the words of this package by language."""
    text = resources.files("fathom.services.planner.remembering").joinpath("wording.yaml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, object]] = yaml.safe_load(text)
    return loaded


def name_watched(question: str, read: ReadText | None, watched: str) -> str:
    """Return the question with the entities of a watch-list; "" where it names its own, or needs none.

    The words that name the list give way to its entities; a price or a computation of nothing in particular gets them.
    """
    # Ids are names that datafetch reads in both languages.
    names = ", ".join(watched.split(","))
    for words in load_wording().values():
        for name in words["watch_list"]:  # type: ignore[attr-defined]
            start = question.lower().find(name)
            if start >= 0:
                return f"{question[:start]}{names}{question[start + len(name) :]}"
    # Without a reading nobody knows whether the question names something.
    if read is None or read.of(ENTITY) or not needs_name(read):
        return ""
    return str(load_wording()[language_of(question)]["of"]).format(question=question, names=names)


def needs_name(read: ReadText) -> bool:
    """Return whether a question asks for a price, or a computation on one, of something that it does not name."""
    # Unemployment or a rate belongs to an economy that the data assume; only a price needs a name.
    indicators = [slot.value for slot in read.slots if slot.kind is SlotKind.INDICATOR]
    has_unknown = any(slot.kind is SlotKind.UNKNOWN for slot in read.slots)
    if has_unknown:
        # An unknown word may be the name of something that has no data.
        return False
    return all(value == IMPLIED for value in indicators) and bool(indicators or any(s.is_measure for s in read.slots))
