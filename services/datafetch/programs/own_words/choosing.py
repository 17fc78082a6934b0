"""The columns of a user's tables that one question is compared with, where they have more than that takes."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.datafetch.programs.own import MOST_COLUMNS, OwnSeries
from fathom.services.datafetch.programs.own_words.naming import split_terms


def choose_columns(own: Sequence[OwnSeries], questions: Sequence[str], most: int = MOST_COLUMNS) -> list[OwnSeries]:
    """Return the columns in their order, of more than ``most`` those with most words of some questions.

    The columns of one measure stay together: the highest of some of them may be none of the highest of all.
    """
    if len(own) <= most:
        return list(own)
    asked = {term for text in questions for term in split_terms(text)}
    blocks: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(own):
        blocks.setdefault((one.sheet_id, one.names[0] if one.label and one.names else one.column), []).append(place)

    def count_shared(places: Sequence[int]) -> int:
        return max(len(asked & list_all_terms(own[place])) for place in places)

    chosen: list[int] = []
    for places in sorted(blocks.values(), key=lambda places: -count_shared(places)):
        if len(chosen) + len(places) <= most:
            chosen += places
    return [own[place] for place in sorted(chosen)]


def list_all_terms(one: OwnSeries) -> set[str]:
    """Return the words of all names of a column, with those of its table."""
    return {term for text in (one.column, one.label, one.kind, one.title, *one.names) for term in split_terms(text)}
