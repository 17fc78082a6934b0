"""Run the steps of a program, and show their results as lines of JSON, one for each step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

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
from fathom.services.sandbox.inside.finance.steps.wording import describe_result

# Members, and days of a count, that a line of output lists; the rest is counted under "more".
MOST_SHOWN = 40


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
