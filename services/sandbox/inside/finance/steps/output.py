"""Run the steps of a program, and show their results: as lines of JSON, one for each step, and as tables."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.values import (
    Group,
    Line,
    Note,
    Period,
    Point,
    describe_class,
    show_day,
)
from fathom.services.sandbox.inside.finance.steps.wording import describe_result, translate

# Members, and days of a count, that a line of output lists; the rest is counted under "more".
MOST_SHOWN = 40
# Series whose courses can be told apart in one chart; of a larger group the values alone are shown.
MOST_COURSES = 6
# Title, frame and units by column.
ShownTable = tuple[str, pd.DataFrame, dict[str, str]]


def show(number: int, value: Any) -> None:
    """Print a step's result as one line of JSON: its number, kind (point, group, line or period), values and days.

    Days are ISO texts, missing values null. Results that depend on a convention have it as ``convention`` and
    ``convention_zh``, those whose window is longer than their data say so as ``gaps`` and ``gaps_zh``. A line has its
    first, last, lowest and highest value in the window.
    """
    print(json.dumps({"step": number} | to_json(value), ensure_ascii=False, allow_nan=False))


def run_step(number: int, what: str, call: Callable[[], Any], language: str = "en") -> Any:
    """Print in words what a step computes, then its result or its error, each as a line of JSON; return the result.

    The result has its words in a language, "en" or "zh". A step that fails leaves the others and returns None, by which
    a later step that uses it fails in turn.
    """
    print(json.dumps({"computes": number, "what": what}, ensure_ascii=False))
    try:
        value = call()
        shown = to_json(value)
        found = shown | describe_result(shown, language)
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError) as error:
        value, found = None, {"error": str(error)}
    print(json.dumps({"step": number} | found, ensure_ascii=False, allow_nan=False))
    return value


def show_tables(
    show_table: Callable[..., None],
    results: Mapping[str, Any],
    read_courses: Callable[[], Sequence[Any]] = list,
    language: str = "en",
) -> None:
    """Show results of steps, by what each computes, as tables: each series or group of series one, all values one.

    A result may be a function that gives it. Where no result is a series, the courses that the values were taken from
    (lines, cut to their windows) have a table behind that. ``show_table`` is the session's function of that name; a
    table that is too large for it is left out, which is said on standard error.
    """
    is_zh, results = language == "zh", {what: find_result(one) for what, one in results.items()}
    tables = [*tabulate_lines(results), *tabulate_values(results, is_zh)]
    if not any(map(list_lines, results.values())) and any(one is not None for one in results.values()):
        tables += tabulate_courses(read_courses)
    for title, table, units in tables:
        try:
            show_table(table, title, units)
        except ValueError as error:
            print(f"no table of {title}: {error}", file=sys.stderr)


def find_result(value: Any) -> Any:
    """Return a result, or what the function in its place gives; None where that fails, as its step has."""
    try:
        return value() if callable(value) else value
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError):
        return None


def list_lines(value: Any) -> list[Line]:
    """Return a line, or the lines of a group of nothing else; [] for any other value."""
    members = list(value.members.values()) if isinstance(value, Group) else [value]
    return members if all(isinstance(one, Line) for one in members) else []


def tabulate_lines(results: Mapping[str, Any]) -> Iterator[ShownTable]:
    """Yield a table for each result that is a line or a group of lines."""
    for what, value in results.items():
        if lines := [one for one in list_lines(value) if len(one.window)]:
            yield (what, *join_lines(lines))


def tabulate_values(results: Mapping[str, Any], is_zh: bool) -> Iterator[ShownTable]:
    """Yield one table with a row for each value of all results, if there are several."""
    found = {
        what: value.members if isinstance(value, Group) else {"": Point(value) if is_number(value) else value}
        for what, value in results.items()
    }
    rows = [(what, name, one) for what, of in found.items() for name, one in of.items() if isinstance(one, Point)]
    if len(rows) < 2:
        return
    step, name, value, unit, day = (
        translate(f"column {one}", is_zh) for one in ("step", "name", "value", "unit", "day")
    )
    steps, units = list(dict.fromkeys(what for what, _, _ in rows)), {one.unit for _, _, one in rows}
    columns: dict[str, list[Any]] = {
        step: [what for what, _, _ in rows] if len(steps) > 1 else [],
        name: [translate(one, is_zh) for _, one, _ in rows] if any(one for _, one, _ in rows) else [],
        value: [to_number(one.value) for _, _, one in rows],
        unit: [translate(one.unit, is_zh) for _, _, one in rows] if len(units) > 1 else [],
        day: [to_day(one.day) for _, _, one in rows],
    }
    # Of the highest days of a series the names are the days.
    kept = {key: of for key, of in columns.items() if any(one is not None for one in of)}
    kept = {key: of for key, of in kept.items() if key != day or of != kept.get(name)}
    title = steps[0] if len(steps) == 1 else translate("results", is_zh)
    yield title, pd.DataFrame(kept), {value: next(iter(units))} if len(units) == 1 and units != {""} else {}


def is_number(value: Any) -> bool:
    """Return whether a result is a plain number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def tabulate_courses(read_courses: Callable[[], Sequence[Any]]) -> Iterator[ShownTable]:
    """Yield the table of the courses; none for none, for too many, or where a window has no data."""
    try:
        lines = [line for one in read_courses() for line in list_lines(one) if len(line.window)]
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError):
        # The step that needs the course has failed by the same error, and has said so.
        return
    if 0 < len({line.name for line in lines}) <= MOST_COURSES:
        table, units = join_lines(lines)
        names = ", ".join(map(str, table.columns[1:]))
        yield f"{names}, {to_day(table['date'].min())} – {to_day(table['date'].max())}", table, units


def join_lines(lines: Sequence[Line]) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the windows of lines as columns of one table with a column of dates, and their units."""
    columns: dict[str, tuple[Line, Any]] = {}
    for line in lines:
        name, number = line.name, 2
        while name in columns and columns[name][0].values is not line.values:
            name, number = f"{line.name} ({number})", number + 1
        # Two windows of one series are parts of one column.
        cut = columns[name][1].combine_first(line.window) if name in columns else line.window
        columns[name] = (line, cut)
    joined = pd.concat({name: cut for name, (_, cut) in columns.items()}, axis=1).sort_index()
    units = {name: line.unit for name, (line, _) in columns.items() if line.unit}
    return joined.rename_axis("date").reset_index(), units


def to_json(value: Any) -> dict[str, Any]:
    """Return a result as JSON objects."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = Point(float(value))
    if isinstance(value, Point):
        return describe_point(value)
    if isinstance(value, Line):
        return describe_line(value)
    if isinstance(value, Period):
        return {"kind": "period", "start": to_day(value.start), "end": to_day(value.end)}
    if not isinstance(value, Group):
        raise InvalidArgument("value", f"must be a point, group, line, period or number, not {describe_class(value)}")
    names = list(value.members)
    members = [{"key": name} | to_json(value.members[name]) for name in names[:MOST_SHOWN]]
    rest = {"more": len(names) - MOST_SHOWN} if len(names) > MOST_SHOWN else {}
    return {"kind": "group", "count": len(names), "members": members} | rest


def describe_point(point: Point) -> dict[str, Any]:
    """Return a point as a JSON object."""
    found: dict[str, Any] = {
        "kind": "point",
        "name": point.name,
        "value": to_number(point.value),
        "unit": point.unit,
        "day": to_day(point.day),
        "first_day": to_day(point.first),
    }
    if point.value is not None and point.unit:
        # With the unit behind it a number says its scale and that it is a difference, also to whom reads only this.
        found["text"] = f"{point.value:.10g} {point.unit}"
    if point.of is not None:
        found["of"] = point.of
    if point.days:
        found["days"] = [to_day(day) for day in point.days[:MOST_SHOWN]]
        found |= {"more": len(point.days) - MOST_SHOWN} if len(point.days) > MOST_SHOWN else {}
    if point.rows:
        found["rows"] = {column: {"of": count, "at": join_places(at)} for column, (count, at) in point.rows.items()}
    return found | describe_notes(point.notes)


def join_places(places: Sequence[int]) -> list[list[int]]:
    """Return places as runs of their first and last one."""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return runs


def describe_line(line: Line) -> dict[str, Any]:
    """Return the window of a line as a JSON object, with its ends, extremes and number of values."""
    cut = line.window
    found: dict[str, Any] = {"kind": "line", "name": line.name, "unit": line.unit, "count": len(cut)}
    days = [cut.index[0], cut.index[-1], cut.idxmin(), cut.idxmax()] if len(cut) else [None] * 4
    for name, day in zip(("first", "last", "min", "max"), days, strict=True):
        found[name] = {"value": None if day is None else to_number(cut[day]), "day": to_day(day)}
    return found | {"start": to_day(line.start), "end": to_day(line.end)} | describe_notes(line.notes)


def describe_notes(notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return the conventions of a result, and the data that its window lacks, in both languages; {} for none."""
    found: dict[str, Any] = {}
    if stated := [one for one in notes if not one.is_gap]:
        found["convention"] = "; ".join(one.english for one in stated)
        found["convention_zh"] = "；".join(one.chinese for one in stated)
    if gaps := [one for one in notes if one.is_gap]:
        found["gaps"], found["gaps_zh"] = [one.english for one in gaps], [one.chinese for one in gaps]
    return found


def to_day(day: Any) -> str | None:
    """Return a day as an ISO text, None for none."""
    return show_day(day) or None


def to_number(value: Any) -> float | None:
    """Return a float, None for a missing one."""
    return None if value is None or not math.isfinite(value) else float(value)
