"""Values of steps: lines (series with a window), points (values with a day), groups of either, periods."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import index_by_date, is_rate, read_day, read_series, unit_of

# Number of values of a column, and the places of some of them.
Rows = tuple[int, tuple[int, ...]]
CONVENTIONS = MappingProxyType(json.loads(Path(__file__).with_name("conventions.json").read_text("utf-8")))
# Code of pandas, and the word in Chinese. Weeks end on Friday: a week's last close belongs to it on any market.
EVERY = MappingProxyType(
    {"day": ("D", "日"), "week": ("W-FRI", "周"), "month": ("M", "月"), "quarter": ("Q", "季"), "year": ("Y", "年")}
)
# Largest median gap in days of a daily series: a weekend lies between two values at most.
DAILY = 4
# Gap in days up to which a series has closes to count a return from the one before the window: weeks, with a holiday.
WEEKLY = 10
# Gaps in days above which values stand for a month, a quarter, a year rather than for their day.
MONTHLY, QUARTERLY, ANNUAL = 20, 60, 200
# A day without a value counts from the last one before it if that is no older: the longest closings of a market.
MOST_CLOSED_DAYS = 10
# Unit of a difference of values in %.
POINTS = "percentage points"


class Note(NamedTuple):
    """Sentence in English and Chinese of how a result was computed; ``is_gap`` of data that a window lacks."""

    english: str
    chinese: str
    is_gap: bool = False


@dataclass(frozen=True)
class Period:
    """A period with its first and last day, None for an open side.

    ``is_edge`` marks the first or last day of a longer period: the value of such a day may be an earlier one.
    """

    start: Any = None
    end: Any = None
    is_edge: bool = False

    @property
    def is_day(self) -> bool:
        """Return whether the period is a single day."""
        return self.start is not None and self.start == self.end


@dataclass(frozen=True, eq=False)
class Point:
    """A value with its day, ``first`` the other day of a change; value and day are None for what never happened."""

    value: float | None
    day: Any = None
    unit: str = ""
    name: str = ""
    first: Any = None
    notes: tuple[Note, ...] = ()
    # Of a count: of how many values, and the days that were counted.
    of: int | None = None
    days: tuple[Any, ...] = ()
    # By column how many values it has, and on which of them, counted from 0 as they stand in the sheet, this one rests.
    rows: Mapping[str, Rows] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Group:
    """Lines, points or periods by name; each function of one line works on every member."""

    members: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Line:
    """A series with a window.

    ``values`` are the whole history by day, so that a return can count from before the window. ``kind`` is "price",
    "level", "rate" (values in %, which have differences and no returns) or "move" (changes, alike). ``is_day`` says
    that the window starts on one day, whose value is the base of a return. ``known`` is set for values selected by a
    condition: the first and last day on which the condition was seen, so that a window without values is no error.
    ``rows`` are the places of the column's values in its sheet, by day; None for derived values, and where nobody asks.
    """

    values: Any
    name: str
    unit: str = ""
    kind: str = "level"
    start: Any = None
    end: Any = None
    is_day: bool = False
    indicator: str = ""
    notes: tuple[Note, ...] = ()
    known: tuple[Any, Any] | None = None
    rows: Any = None

    @property
    def has_returns(self) -> bool:
        """Return whether a percent change of the values has a meaning."""
        return self.kind in ("price", "level")

    @property
    def window(self) -> Any:
        """Return the values in the window; refuse one without values unless a condition has emptied it."""
        self.check_window()
        return self.values.loc[self.start : self.end]

    def check_window(self) -> None:
        """Raise ``InvalidArgument`` with the days that there are for a window without values."""
        ends = self.known or ((self.values.index[0], self.values.index[-1]) if len(self.values) else None)
        if ends is None:
            raise InvalidArgument("line", f"{self.name} has no values")
        is_outside = (self.start is not None and self.start > ends[1]) or (self.end is not None and self.end < ends[0])
        if is_outside or (self.known is None and self.values.loc[self.start : self.end].empty):
            wanted = f"from {show_day(self.start) or 'its begin'} to {show_day(self.end) or 'its end'}"
            raise InvalidArgument(
                "line", f"{self.name} has no value {wanted}; it has values from {ends[0].date()} to {ends[1].date()}"
            )

    def take_held(self) -> tuple[Any, Note]:
        """Return the values of the window led by the one from which a return counts, and the note about that one."""
        cut = self.window
        if cut.empty:
            raise InvalidArgument("line", f"{self.name} has no value in the window on which the condition held")
        found, base = cut, "first"
        if self.start is not None and self.has_returns:
            before = self.values[self.values.index < self.start]
            if self.is_day:
                base = "day" if cut.index[0] == self.start else base
                if base == "first" and len(before) and (self.start - before.index[-1]).days <= MOST_CLOSED_DAYS:
                    found, base = pd.concat([before[-1:], cut]), "day"
            elif self.kind == "price" and measure_gap(self.values) <= WEEKLY:
                # What begins much later counts from its first value, as the notes of the window say.
                if before.empty and not self.begins_late:
                    day = f"{self.values.index[0].date()}, not before the start, {self.start.date()}"
                    raise InvalidArgument("line", f"{self.name} begins on {day}")
                found, base = pd.concat([before[-1:], cut]), "first" if before.empty else "before"
        if len(found) < 2:
            raise InvalidArgument("line", f"{self.name} has the single value of {found.index[0].date()} in the window")
        return found, write_note(f"base {base}", day=found.index[0].date())

    @property
    def begins_late(self) -> bool:
        """Return whether the window begins so long before the values that it is no matter of holidays."""
        # What stands for a month or a year may be dated anywhere in it.
        slack = max(MOST_CLOSED_DAYS, measure_gap(self.values) * 1.1)
        return self.start is not None and (self.values.index[0] - self.start).days > slack

    def get_frame(self, values: Any = None) -> Any:
        """Return the values as a sheet that carries unit and indicator, as the other measures take it."""
        frame = pd.DataFrame({self.name: self.values if values is None else values})
        unit = self.unit if self.kind == "rate" or self.has_returns else "%"
        frame.attrs = {"units": {self.name: unit}, "indicators": {self.name: self.indicator}}
        return frame

    def make_point(self, value: Any, day: Any = None, **fields: Any) -> Point:
        """Return a point of this line; a missing or infinite value becomes None."""
        number = None if value is None or not math.isfinite(value) else float(value)
        notes = self.notes + fields.pop("notes", ())
        rows = {} if self.rows is None or number is None else self.find_rows(day, fields.get("first"))
        return Point(number, day, **({"unit": self.unit, "name": self.name, "notes": notes, "rows": rows} | fields))

    def find_rows(self, day: Any, first: Any) -> dict[str, Rows]:
        """Return the places of the values of one or two days, without a day those of the window."""
        days = self.window.index if day is None else [one for one in (first, day) if one is not None]
        places = (int(self.rows[one]) for one in dict.fromkeys(days) if one in self.rows.index)
        return {self.rows.name: (len(self.rows), tuple(places))}

    def derive(self, values: Any, **fields: Any) -> Line:
        """Return the line with other values; the infinite ones of a division by 0 are left out.

        Raise ``InvalidArgument`` where the line is too short to give any, unless a condition has selected them.
        """
        found = values.replace([np.inf, -np.inf], np.nan).dropna()
        if found.empty and self.known is None and "known" not in fields:
            days = [show_day(day) for day in self.values.index]
            ends = f"{len(days)} values from {days[0]} to {days[-1]}, too few" if days else "no values"
            raise InvalidArgument("line", f"{self.name} has {ends} for this step")
        return replace(self, **{"values": found, "rows": None} | fields)

    def pick(self, cut: Any, day: Any) -> Point:
        """Return the value of a day of the window."""
        return self.make_point(cut[day], day)


# How statistical offices abbreviate what values are counted in, and the adjustment that is no part of the unit.
SCALES = {"Bil. of ": "billion ", "Mil. of ": "million ", "Thous. of ": "thousand "}
SEASONAL = re.compile(r"\s*\((?:SA|NSA|SAAR)\)\s*$")
DOLLARS = re.compile(r"(?<![A-Za-z])(?:U\.S\. )?\$(?![A-Za-z\d])")


def check_column(frame: Any, column: str) -> None:
    """Raise ``InvalidArgument`` for a column that a table lacks."""
    if column not in frame:
        raise InvalidArgument("column", f"{column!r} is none of {', '.join(map(str, frame.columns))}")


def line(sheet: Any, column: str, name: str = "", has_rows: bool = False) -> Line:
    """Return a column of a sheet as a line named ``name`` (default: the column's name), with the sheet's unit.

    With ``has_rows`` results say on which of the column's values they rest.
    Values in % and other shares are rates, values of every day prices, all others levels. Raise ``InvalidArgument``
    for a column that the sheet lacks.
    """
    frame = read_series(sheet, "sheet")
    check_column(frame, column)
    values = frame[column].dropna()
    values.attrs = {}
    is_daily = len(values) > 1 and measure_gap(values) <= DAILY
    kind = "rate" if is_rate(frame, column) else "price" if is_daily else "level"
    indicator = str(frame.attrs.get("indicators", {}).get(column, ""))
    rows = number_rows(sheet, column) if has_rows else None
    unit = spell_unit(unit_of(frame, column))
    return Line(values.rename(None), name or column, unit, kind, indicator=indicator, rows=rows)


def number_rows(sheet: Any, column: str) -> Any:
    """Return the places of a column's values among them, by day: files have any order, and lines that of the days."""
    dated = index_by_date(sheet, "sheet")[column].dropna()
    return pd.Series(range(len(dated)), dated.index, name=column)


def spell_unit(unit: str) -> str:
    """Return a unit as readers write it: "Bil. of $ (SA)" is "billion USD", "% (NSA)" is "%"."""
    words = SEASONAL.sub("", unit).strip()
    for short, long in SCALES.items():
        words = words.replace(short, long)
    return DOLLARS.sub("USD", words)


def period(start: Any, end: Any) -> Period:
    """Return the period of two ISO texts ("2020", "2020-03", "2020-03-23"), each None for an open side.

    An end that is a year or a month is its last day. Raise ``InvalidArgument`` for no date, or an end before the start.
    """
    first, last = read_day(start, "start"), read_day(end, "end", is_end=True)
    if first is not None and last is not None and first > last:
        raise InvalidArgument("start", f"{first.date()} is after the end, {last.date()}")
    return Period(first, last)


def each(*items: Any) -> Group:
    """Return a group of lines, points or numbers by name; the members of given groups join it."""
    found: dict[str, Any] = {}
    for item in items:
        if isinstance(item, Group):
            found |= item.members
        else:
            name = describe(item)
            one = Point(read_number(item, "items"), name=name) if isinstance(item, (int, float)) else item
            found[f"{name} ({len(found) + 1})" if name in found else name] = one
    if not found:
        raise InvalidArgument("items", "must be at least one line or point")
    return Group(found)


def map_members(function: Callable[..., Any]) -> Callable[..., Any]:
    """Apply a function of lines and points to the members of groups; two groups are taken member by member.

    Arguments that must be lines are checked by name.
    """
    parameters = list(inspect.signature(function).parameters.items())

    @wraps(function)
    def call(*args: Any) -> Any:
        groups = [one for one in args if isinstance(one, Group)]
        if groups:
            return map_groups(call, args, groups)
        for (name, parameter), given in zip(parameters, args, strict=False):
            if parameter.annotation == "Line" and not isinstance(given, Line):
                raise InvalidArgument(name, f"must be a line, not {describe_class(given)}")
        return function(*args)

    return call


def map_groups(call: Callable[..., Any], args: tuple[Any, ...], groups: list[Group]) -> Group:
    """Return the results of a function by member; refuse groups of different size."""
    sizes = [len(one.members) for one in groups]
    if len(set(sizes)) > 1:
        raise InvalidArgument("group", f"groups of different size, {' and '.join(map(str, sizes))} members")
    columns = [list(one.members.values()) if isinstance(one, Group) else [one] * sizes[0] for one in args]
    rows = zip(*columns, strict=True)
    return Group({name: call(*row) for name, row in zip(groups[0].members, rows, strict=True)})


def join_rows(*points: Any) -> dict[str, Rows]:
    """Return the places of the values that some points rest on; none where one of them does not name them."""
    known = [one.rows for one in points if isinstance(one, Point)]
    found: dict[str, Rows] = {}
    for column, (count, places) in (item for rows in known for item in rows.items()):
        found[column] = count, tuple(dict.fromkeys((*found.get(column, (count, ()))[1], *places)))
    return found if all(known) else {}


def describe(value: Any) -> str:
    """Return the name of a value, or the number itself."""
    return str(getattr(value, "name", None) or (f"{value:g}" if isinstance(value, (int, float)) else ""))


def describe_class(value: Any) -> str:
    """Return what a value is, in words of messages."""
    return "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__.lower()}"


def show_day(day: Any) -> str:
    """Return a day as an ISO text, "" for none."""
    return "" if day is None or pd.isna(day) else str(day.date())


def write_note(name: str, **values: Any) -> Note:
    """Return a convention in both languages; a value in ``values`` is one for both, or the pair of its texts."""
    texts = [{key: one[side] if isinstance(one, tuple) else one for key, one in values.items()} for side in (0, 1)]
    english, chinese = (CONVENTIONS[name][side].format(**texts[side]) for side in (0, 1))
    return Note(english, chinese)


def note_gaps(line: Line) -> Line:
    """Return the line with notes on a window that begins before its values do, or ends behind them.

    What stands for a month or a year may be dated anywhere in it, so a gap is longer than the step of the values. Notes
    on an earlier window, of which this one is a part, do not hold any more.
    """
    if line.known is not None or not len(line.values):
        return line
    first, last = line.values.index[0], line.values.index[-1]
    slack = max(MOST_CLOSED_DAYS, measure_gap(line.values) * 1.1)
    found = []
    if line.start is not None and line.begins_late:
        found.append(write_note("data begin", line=line.name, day=first.date(), start=line.start.date()))
    if line.end is not None and (line.end - last).days > slack:
        found.append(write_note("data end", line=line.name, day=last.date(), end=line.end.date()))
    gaps = tuple(one._replace(is_gap=True) for one in found)
    return replace(line, notes=(*(one for one in line.notes if not one.is_gap), *gaps))


def measure_gap(values: Any) -> float:
    """Return the median days between values; 1 where there is only one."""
    if len(values) < 2:
        return 1.0
    return float(np.median(np.diff(values.index.to_numpy()) / np.timedelta64(1, "D")))


def name_step(gap: float) -> str:
    """Return whether values so many days apart stand for a month, a quarter or a year."""
    return "month" if gap < QUARTERLY else "quarter" if gap < ANNUAL else "year"


def aggregate(values: Any, freq: str, how: str = "last") -> Any:
    """Return one value a period, dated by the last day with a value in it."""
    groups = values.groupby(values.index.to_period(EVERY[freq][0]), sort=True)
    found = getattr(groups, how)()
    return found.set_axis(pd.DatetimeIndex(groups.tail(1).index))


def read_number(value: Any, name: str) -> float:
    """Return a number or the value of a point; refuse a point without a value, naming the argument."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if not isinstance(value, Point):
        raise InvalidArgument(name, f"must be a number or a point, not {describe_class(value)}")
    if value.value is None:
        raise InvalidArgument(name, f"{value.name or 'the point'} has no value")
    return value.value


def read_count(value: Any, name: str) -> int:
    """Return a whole number from 1 on; raise ``InvalidArgument`` naming the argument."""
    found = read_number(value, name)
    if found < 1 or found != int(found):
        raise InvalidArgument(name, f"must be a whole number, at least 1, not {found:g}")
    return int(found)
