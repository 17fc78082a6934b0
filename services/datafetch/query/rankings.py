"""Members that a ranking leaves out: those without the figure at all, and those without a value in its period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.services.datafetch.query.gaps import find_nearest
from fathom.services.datafetch.query.model import Missing, Query
from fathom.services.datafetch.query.planner import Measure, Part, pluralise
from fathom.services.datafetch.query.result import find_empty, list_column_names

# Members that are named of those that are left out.
MOST_NAMED = 5


@dataclass(frozen=True)
class LeftOut:
    """Missing items for what a ranking leaves out; ``is_most`` where that is more than half of its members."""

    missing: tuple[Missing, ...] = ()
    is_most: bool = False


def group_absent(missing: Sequence[Missing], query: Query, count: int) -> list[Missing]:
    """Return the missing items of a plan, those of members of its kind without a figure as one for each figure.

    ``count`` is the number of members. Without a kind nothing changes.
    """
    # Where companies of other tables are loaded, thousands of them have no prices.
    absent: dict[str, list[Missing]] = {}
    for item in missing if query.kind else ():
        if item.reason == "NO_MATCH":
            absent.setdefault(item.aspect, []).append(item)
    several = {aspect: items for aspect, items in absent.items() if len(items) > 1}
    rest = [item for item in missing if item.reason != "NO_MATCH" or item.aspect not in several]
    kind = pluralise(query.kind)
    return rest + [
        Missing(
            kind,
            "NO_MATCH",
            f"{len(items):,} of {count:,} {kind} are not ranked, for instance {items[0].subject}: {items[0].detail}",
            aspect,
            nearest=tuple(item.subject for item in items[:MOST_NAMED]),
        )
        for aspect, items in several.items()
    ]


def find_left_out(table: Any, part: Part, query: Query) -> LeftOut:
    """Return which members of a ranking by a statistic have no value in its period."""
    found = [one for measure in part.measures if (one := _find_valueless(table, part, measure, query))]
    return LeftOut(tuple(item for item, _ in found), any(is_most for _, is_most in found))


def _find_valueless(table: Any, part: Part, measure: Measure, query: Query) -> tuple[Missing, bool] | None:
    ranked = [entity for entity in part.entities if (entity.id, measure.spec.id) in part.cells]
    columns = [list_column_names(f"{entity.id}.", measure, query, "summary")[0][0] for entity in ranked]
    values = [table.column(name) for name in columns]
    empty = [find_empty(column).to_pylist() for column in values]
    out = [entity for entity, cells in zip(ranked, empty, strict=True) if all(cells)]
    if not out:
        return None
    # Of a derived figure the first input stands for all: what is asked is where the data end.
    leaf = (measure.inputs or (measure.spec.id,))[0]
    facts = [part.facts[entity.id, leaf][1] for entity in out]
    first, last = min(fact.first for fact in facts), max(fact.last for fact in facts)
    names = ", ".join(entity.name for entity in out[:MOST_NAMED]) + (", …" if len(out) > MOST_NAMED else "")
    # Where the period lies between first and last day, as of a currency that was suspended, these days explain nothing.
    nearest = find_nearest(query, first, last)
    span = f"has values from {first} to {last} only" if nearest else "has no value in this period"
    detail = f"{measure.spec.name} of {len(out):,} of {len(ranked):,} {pluralise(query.kind)} ({names}) {span}"
    # The best of a few is no answer to a question for the best of all; the best of most is one, with a note.
    is_most = 2 * len(out) > len(ranked)
    if is_most:
        detail += "; an order of the others would be taken for one of all"
    period = f"{query.start or ''}..{query.end or ''}"
    return Missing(pluralise(query.kind), "NO_DATA_IN_PERIOD", detail, measure.spec.id, period, nearest), is_most
