"""Columns of a user's own tables, which programs may name beside the series of the bundled ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.domain.frames import MONTHS
from fathom.domain.periods.period import DAY
from fathom.domain.programs.language import WHOLE_TABLE
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.catalog.text import BRACKETS
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.catalogue import Entry
from fathom.services.datafetch.programs.linking import EXACT, Floats, Linker, Vectors
from fathom.services.datafetch.query.units import parse_unit
from fathom.services.datafetch.warehouse.database import SeriesFacts

# Columns of one question; each has a few names, which are compared with every name of the question.
MOST_COLUMNS = 64
# Fewer rows have no sum that a table would show; and how far a sum of rounded values may be from a rounded one.
LEAST_PARTS, ROUNDING = 2, 1e-3
# Months of the periods of tables, the longest first.
PERIODS = (12, 6, 3, 1)
# All are compared with the words of a question.
MOST_NAMES = 8
# A unit of two parts behind a name, of which one is short: "Price USD/t", but not "Net profit/loss".
SHORT, LONG = r"[^\W\d_][\w²³]{0,2}", r"[^\W\d_][\w²³]*"
UNIT_END = re.compile(rf"\s((?:{SHORT}/{LONG}|{LONG}/{SHORT}))$")
# A unit behind the last comma: "Passing rent, EUR thousand".
COMMA_END = re.compile(r"[,，]\s*([^,，\d]+)$")
MOST_UNIT_WORDS = 4
JOINTS = re.compile(r"[_.\-/]+")


Values = NDArray[np.float64]


@dataclass(frozen=True)
class OwnMeaning:
    """Knowledge of a column beside its name; the fields are those of ``OwnSeries``."""

    unit: str = ""
    names: tuple[str, ...] = ()
    label: str = ""
    kind: str = ""
    is_amount: bool = False
    months: int = 0
    is_state: bool = False
    is_of_file: bool = False


@dataclass(frozen=True)
class OwnSeries:
    """A column of numbers of an imported sheet, its unit, its sheet's title, and the first and last day with rows.

    Where its meaning was applied, ``names`` are what questions call what it measures, ``label`` says of whom,
    ``kind`` what such labels are called ("Plant"), ``is_amount`` that the values of a period are added up, and
    ``is_state`` that the last one holds. ``months`` are those of the period that each value is of, 0 if not known.
    With ``is_of_file`` no column says what is measured: the labels of an income statement are all that is said.
    ``is_total`` marks a row that adds up those above it, and the ones below that.
    """

    sheet_id: str
    column: str
    unit: str
    title: str
    first: date
    last: date
    names: tuple[str, ...] = ()
    label: str = ""
    kind: str = ""
    is_amount: bool = False
    months: int = 0
    is_state: bool = False
    is_of_file: bool = False
    is_total: bool = False


def list_own_series(
    sheet_id: str, title: str, table: pa.Table, meanings: Mapping[str, OwnMeaning] | None = None
) -> list[OwnSeries]:
    """Return the columns of numbers of a table with exactly one column of dates, else none."""
    dates = [field.name for field in table.schema if is_day(field.type)]
    # With a begin and an end, say, it would be open on which day a value counts.
    if len(dates) != 1:
        return []
    # The last day decides what "the last three months" are.
    days = table[dates[0]].cast(pa.date32(), safe=False).drop_null()
    if not len(days):
        return []
    totals = find_totals(table, meanings or {})
    said = int((table.schema.field(dates[0]).metadata or {}).get(MONTHS.encode(), 0))
    ends, spaced = pc.min_max(days).as_py(), find_spacing(pc.unique(days).to_pylist()) if meanings else 0
    found = []
    for name in (field.name for field in table.schema if is_number(field.type)):
        meant = (meanings or {}).get(name, OwnMeaning())
        unit = meant.unit or read_unit(name)
        more = (
            meant.names,
            meant.label,
            meant.kind,
            meant.is_amount,
            meant.months or said or spaced,
            meant.is_state,
            meant.is_of_file,
            name in totals,
        )
        found.append(OwnSeries(sheet_id, name, unit, title, ends["min"], ends["max"], *more))
    return found


def find_totals(table: pa.Table, meanings: Mapping[str, OwnMeaning]) -> frozenset[str]:
    """Return the columns of things that are no things of a list: the sum of those before, and what stands behind it."""
    measures: dict[tuple[str, int], list[str]] = {}
    for name in table.column_names:
        if (meant := meanings.get(name)) and meant.label and meant.names:
            measures.setdefault((meant.names[0], meant.months), []).append(name)
    found: list[str] = []
    for names in measures.values():
        values = np.array([table[name].to_numpy(zero_copy_only=False).astype(float) for name in names])
        first = next((at for at in range(LEAST_PARTS, len(names)) if adds_up(values[:at], values[at])), len(names))
        found += names[first:]
    return frozenset(found)


def adds_up(parts: Values, whole: Values) -> bool:
    """Return whether a row is the sum of others on all days on which it has a value, but for their rounding."""
    is_there = ~np.isnan(whole)
    sums, size = np.nansum(parts, axis=0), np.nansum(np.abs(parts), axis=0)
    is_near = np.abs(sums - whole)[is_there] <= ROUNDING * size[is_there]
    return bool(is_near.any() and is_near.all() and size[is_there].all())


def find_spacing(days: Sequence[date]) -> int:
    """Return the months of the periods on whose last days values are dated: 12, 6, 3 or 1; 0 for other days."""
    if any((day + DAY).day != 1 for day in days):
        return 0
    places = [12 * day.year + day.month for day in days]
    # Of a few months of one year nobody knows whether they are all of a kind.
    steps = [later - earlier for earlier, later in pairwise(sorted(places))]
    return next((months for months in PERIODS if months in steps and all(place % months == 0 for place in places)), 0)


def is_day(kind: Any) -> bool:
    """Return whether a type is one of days."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_number(kind: Any) -> bool:
    """Return whether a type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def read_unit(column: str) -> str:
    """Return what stands in the brackets of a column's name, or at its end: "Revenue (million EUR)", "Price USD/t"."""
    found, end = BRACKETS.search(column), find_unit_end(column)
    return found[0][1:-1].strip() if found else end[1].strip() if end else ""


def strip_unit(column: str) -> str:
    """Return the name of a column without brackets and without the unit at its end."""
    bare = BRACKETS.sub("", column).strip()
    end = find_unit_end(bare)
    return bare[: end.start()].strip() if end else bare


def find_unit_end(column: str) -> re.Match[str] | None:
    """Return the unit at the end of a column's name: of two parts, or behind a comma with the word of a unit."""
    if end := UNIT_END.search(column):
        return end
    end = COMMA_END.search(column)
    words = end[1].split() if end else []
    return end if len(words) <= MOST_UNIT_WORDS and any(map(parse_unit, words)) else None


def list_names(column: str) -> Iterator[str]:
    """Yield what a column may be called: its name, the same without its unit, and with blanks for joints."""
    yield column
    bare = strip_unit(column)
    yield from (name for name in (bare, JOINTS.sub(" ", bare).strip()) if name)


class OwnLinker:
    """Compares words with the columns of own tables, then with the bundled series. Read-only, hence thread-safe."""

    def __init__(
        self,
        own: Sequence[OwnSeries],
        bundled: Linker,
        queries: QueryVectors,
        compared: Sequence[OwnSeries] | None = None,
    ) -> None:
        """Index the names of the columns that are compared, whose ids are own1, own2 and so on.

        They are the first ``MOST_COLUMNS`` of all, unless others were chosen.
        """
        self._sheets = {one.sheet_id for one in own}
        chosen = own[:MOST_COLUMNS] if compared is None else compared
        self.own = {f"{WHOLE_TABLE}{number}": one for number, one in enumerate(chosen, 1)}
        entries = [make_own_entry(ident, one) for ident, one in self.own.items()]
        names = [name for entry in entries for name in entry.names]
        # As queries and not as passages: their vectors are held between questions.
        titles = np.stack(queries.encode([entry.text for entry in entries]))
        self._linker = Linker(entries, Vectors(titles, np.stack(queries.encode(names))))
        self._bundled = bundled
        self.titles = titles
        self.entries = (*entries, *bundled.entries)
        self.meta = np.concatenate([self._linker.meta, bundled.meta])

    def compare(self, text: str, vector: Floats) -> Floats:
        """Return the features of words as ``Linker.compare`` does, those of own columns first."""
        return np.concatenate([self._linker.compare(text, vector), self._bundled.compare(text, vector)])

    def find_exact(self, features: Floats) -> str | None:
        """Return the id of the own column that is called exactly as some words, of which these are the features."""
        exact = np.flatnonzero(features[: len(self.own), EXACT])
        return self.entries[int(exact[0])].id if len(exact) else None

    @property
    def has_single_table(self) -> bool:
        """Return whether all own columns are of one sheet."""
        return len(self._sheets) == 1


def make_own_entry(ident: str, own: OwnSeries) -> Entry:
    """Return the entry of a column."""
    facts = SeriesFacts(own.unit, Frequency.DAILY, own.title, "upload", own.first, own.last, False)
    # A measure that several things have is none of them alone.
    names = [f"{own.label} {name}" for name in own.names] if own.label else own.names
    # In an income statement the label is the measure.
    alone = [own.label] if own.is_of_file and own.label else []
    called = tuple(dict.fromkeys([*alone, *list_names(own.column), *names]))[:MOST_NAMES]
    return Entry(ident, own.sheet_id, own.column, own.column, "", called, facts)
