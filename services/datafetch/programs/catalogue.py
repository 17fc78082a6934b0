"""The series that a program can name: what they are called, what they count, and how often."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.warehouse.database import SeriesFacts, Warehouse

# The economy whose statistics are asked for without its name.
HOME = "US"
# Names of all series together; each takes a vector of 1.5 KB, and every mention is compared with all.
MOST_NAMES = 20_000
# Names of an entity and of an indicator that are joined, where an entity has several series.
JOINED = 3
# What units and titles say of a series; the order is that of the network's weights.
FREQUENCIES = ("daily", "monthly", "quarterly", "annual")
UNIT_MARKS = (
    "(SA)", "(NSA)", "SAAR", "%", "Index", "Bil. of $", "Chn", "Thous", "per EUR", "USD", "Mil", "Hours", "=100",
    "$ per", "Spot",
)  # fmt: skip
TITLE_MARKS = (
    "real", "discontinued", "per capita", "manufacturing", "private", "total", "all employees", "treasury", "rate",
    "case-shiller", "exports", "imports", "government", "consumption", "chain",
)  # fmt: skip
META_WIDTH, UNITS_AT, TITLES_AT, ENDED_AT, ANY_AT = 40, 4, 20, 36, 37
# Series that end before this year were discontinued when the examples were written.
CURRENT_SINCE = 2020
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A series of the tables, with its names, the first one its title; ``id`` is what programs call it."""

    id: str
    entity: str
    indicator: str
    title: str
    name_zh: str
    names: tuple[str, ...]
    facts: SeriesFacts

    @property
    def text(self) -> str:
        """Return what it is and what it counts."""
        return f"{self.title} {self.name_zh} ({self.facts.unit}, {self.facts.frequency})"

    @property
    def meta(self) -> NDArray[np.float32]:
        """Return what its unit, title and dates say, as 0 or 1."""
        out = np.zeros(META_WIDTH, dtype=np.float32)
        title = self.title.lower()
        out[: len(FREQUENCIES)] = [self.facts.frequency == one for one in FREQUENCIES]
        marks = [mark in self.facts.unit or mark in self.title for mark in UNIT_MARKS]
        out[UNITS_AT : UNITS_AT + len(marks)] = marks
        out[TITLES_AT : TITLES_AT + len(TITLE_MARKS)] = [mark in title for mark in TITLE_MARKS]
        out[ENDED_AT], out[ANY_AT] = self.facts.last.year < CURRENT_SINCE, 1
        return out


def list_entries(layer: Layer, warehouse: Warehouse) -> list[Entry]:
    """Return the series of the tables; those beyond the greatest number of names are left out and logged."""
    series: dict[tuple[str, str], SeriesFacts] = {}
    for indicator, found in warehouse.stored.items():
        if layer.indicators[indicator].text:
            continue
        for stored in found:
            for entity, facts in stored.members.items():
                series.setdefault((entity, indicator), facts)
    counts: dict[str, int] = {}
    for entity, _ in series:
        counts[entity] = counts.get(entity, 0) + 1
    entries, names = list[Entry](), 0
    for (entity, indicator), facts in series.items():
        entry = make_entry(layer, entity, indicator, facts, counts[entity] == 1)
        names += len(entry.names) + 1
        if names > MOST_NAMES:
            LOG.warning("programs name %d of %d series: their names are too many", len(entries), len(series))
            break
        entries.append(entry)
    return entries


def make_entry(layer: Layer, entity: str, indicator: str, facts: SeriesFacts, is_only: bool) -> Entry:
    """Return the entry of a series; ``is_only``: it is the only one of its entity."""
    measure = layer.indicators[indicator]
    who = layer.entities.get(entity) or EntitySpec(id=entity, name=entity, kind="other")
    if entity == HOME:
        ident, title, name_zh = indicator, facts.title or measure.name, measure.name_zh
        names = [title, name_zh, indicator, *measure.synonyms, measure.name]
    elif is_only:
        ident, title, name_zh = entity, who.name, who.name_zh
        names = [title, name_zh, entity, *who.aliases, *who.former_names]
    else:
        ident = f"{entity}.{indicator}"
        title, name_zh = f"{who.name} {measure.name}", f"{who.name_zh}{measure.name_zh}"
        names = [title, name_zh, *join_names(who, measure)]
        # The name alone asks for it.
        names += [who.name, who.name_zh, entity, *who.aliases] if measure.default else []
    return Entry(ident, entity, indicator, title, name_zh, tuple(dict.fromkeys(filter(None, [*names, ident]))), facts)


def join_names(who: EntitySpec, measure: IndicatorSpec) -> Iterator[str]:
    """Yield names of an entity with names of an indicator."""
    for name in [who.name, who.id, *who.aliases][:JOINED]:
        for measured in [measure.name, *measure.synonyms][:JOINED]:
            yield f"{name} {measured}"
