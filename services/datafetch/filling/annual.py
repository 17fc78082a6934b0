"""Choice of annual figures from a vendor's statement rows: one concept per thing and year, each with its vintages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fathom.services.datafetch.sources.vocabulary import Concept

# Reports of a whole year: of US companies, of foreign ones, and of Canadian ones; with amendments.
ANNUAL_FORMS = ("10-K", "20-F", "40-F")
# Fiscal years of 52 or 53 weeks, as retailers have them.
SHORTEST_YEAR, LONGEST_YEAR = 350, 380
# How the vendor writes units, and how the tables do.
UNITS: Mapping[str, str] = {"USD/shares": "USD per share"}


@dataclass(frozen=True)
class Figure:
    """A figure of a fiscal year that ends on ``day``, as it was published on the day ``published``."""

    indicator: str
    day: date
    value: float
    unit: str
    published: date
    concept: str
    form: str
    accession: str


def choose_annual(rows: Iterable[Mapping[str, Any]], concepts: Sequence[Concept]) -> list[Figure]:
    """Return the annual figures of ``concepts``, by indicator, day and publication; restated ones have one each.

    ``rows`` have the columns of ``Kind.STATEMENTS``. Of the fields of one concept the first that a year has is taken.
    """
    annual = [row for row in rows if is_annual(row)]
    figures: list[Figure] = []
    for concept in concepts:
        taken: set[date] = set()
        for name in concept.fields:
            bare = name.rpartition(":")[2]
            own = [row for row in annual if row["concept"] == bare and row["end"] not in taken]
            figures += list_vintages(concept.id, own)
            taken |= {row["end"] for row in own}
    return sorted(figures, key=lambda one: (one.indicator, one.day, one.published))


def is_annual(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a figure of a whole year, or of its end, in a report of a whole year."""
    if row["value"] is None or not str(row["form"]).startswith(ANNUAL_FORMS):
        return False
    return row["start"] is None or SHORTEST_YEAR <= (row["end"] - row["start"]).days <= LONGEST_YEAR


def list_vintages(indicator: str, rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return one figure for each day and each value that it was given, with the day on which that became known."""
    figures: list[Figure] = []
    for row in sorted(rows, key=lambda row: (row["end"], row["unit"], row["filed"])):
        unit = UNITS.get(row["unit"], row["unit"])
        last = figures[-1] if figures else None
        # Every report repeats the years before; only another value is news.
        if last and (last.day, last.unit, last.value) == (row["end"], unit, row["value"]):
            continue
        figures.append(
            Figure(
                indicator, row["end"], row["value"], unit, row["filed"], row["concept"], row["form"], row["accession"]
            )
        )
    return figures
