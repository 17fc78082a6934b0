"""Words for the steps of a program and for their results, in English and Chinese."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.services.policy.reference.reading import load_table

EDGES, ENDS = ("after", "before"), {"start": 0, "end": 1}
# More days are a table's matter.
MOST_DAYS = 12
OPTIONAL = re.compile(r"\[([^\]]*?\{(\d)\}[^\]]*?)\]")


def describe_step(code: str, names: Mapping[str, str], is_zh: bool) -> str:
    """Return what a step computes in words, such as "highest value of the VIX, 2014-01-01 to 2018-12-31"."""
    return describe_node(ast.parse(code, mode="eval").body, names, is_zh)


def describe_node(node: ast.expr, names: Mapping[str, str], is_zh: bool) -> str:
    """Return the words of one expression: a call by its template, a name by what it stands for, a constant as it is."""
    if isinstance(node, ast.Name):
        return names.get(node.id, f"({node.id.lstrip('_')})")
    if isinstance(node, ast.UnaryOp):
        return f"−{describe_node(node.operand, names, is_zh)}"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return describe_constant(node.value if isinstance(node, ast.Constant) else "", is_zh)
    name, days, periods = node.func.attr, read_period(node), [*map(read_period, node.args), None, None]
    if days is not None:
        return describe_period(*days, is_zh)
    if name in ENDS and periods[0] is not None:
        return periods[0][ENDS[name]] or describe_period(*periods[0], is_zh)
    # A period without an end says itself from or until when it is.
    name = "within" if name in EDGES and None in (periods[1] or ()) else name
    template = load_table("phrases")["functions"].get(name, [f"{name}({{*}})"] * 2)[is_zh]
    return fill_template(template, [describe_node(one, names, is_zh) for one in node.args], is_zh)


def read_period(node: ast.expr) -> tuple[str | None, str | None] | None:
    """Return the first and the last day of a period, None for an open end; None for any other expression."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "period"):
        return None
    days = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
    first, last = [*(str(day) if day else None for day in days), None, None][:2]
    return first, last


def describe_period(first: str | None, last: str | None, is_zh: bool) -> str:
    """Return a period by its days, a single one or an open end as such."""
    if first == last:
        return str(first)
    name = "since" if last is None else "until" if first is None else "period"
    return str(load_table("phrases")["functions"][name][is_zh]).format(first, last)


def describe_constant(value: object, is_zh: bool) -> str:
    """Return a number or a word of the language of programs as a reader writes it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(load_table("phrases")["words"].get(value, [value] * 2)[is_zh])


def fill_template(template: str, parts: Sequence[str], is_zh: bool) -> str:
    """Return a template with its arguments; optional parts whose argument is not there are left out."""

    def choose(match: re.Match[str]) -> str:
        return match[1] if int(match[2]) < len(parts) and parts[int(match[2])] else ""

    text = OPTIONAL.sub(choose, template)
    text = text.replace("{*}", ("、" if is_zh else ", ").join(parts))
    return re.sub(r"\{(\d)\}", lambda match: parts[int(match[1])] if int(match[1]) < len(parts) else "…", text)


def name_unit(unit: str, is_zh: bool) -> str:
    """Return a unit as it stands behind a number: "%" at once, others after a blank; bases of indices are left out."""
    text = str(load_table("phrases")["words"].get(unit, [unit.strip()] * 2)[is_zh])
    if not text or "=" in text or text in ("index", "points"):
        return ""
    return "%" if text.startswith("%") else f" {text}"


def show_point(point: Mapping[str, Any], is_zh: bool) -> str:
    """Return value, unit and days of a point."""
    value = point.get("value")
    days = [str(point[name]) for name in ("first_day", "day") if point.get(name)]
    dated = f" ({' – '.join(dict.fromkeys(days))})" if days else ""
    if value is None:
        return f"{load_table('phrases')['words']['none'][is_zh]}{dated}"
    unit = str(point.get("unit", ""))
    return f"{show_number(float(value), unit)}{name_unit(unit, is_zh)}{dated}"


def show_number(value: float, unit: str) -> str:
    """Return a number with as many decimals as its size is worth."""
    if value == int(value) and abs(value) < 1e12 and unit in ("", "days", "months"):
        return f"{int(value):,}"
    is_short = abs(value) >= 10 or unit in ("%", "percentage points")
    return f"{value:,.{2 if is_short else 4 if abs(value) >= 0.1 else 6}f}"


def show_result(printed: Mapping[str, Any], is_zh: bool) -> Iterator[str]:
    """Yield the result of a step: one text for a point, one per member of a group, the marks of a line."""
    words = load_table("phrases")["words"]
    if printed.get("kind") == "group":
        for one in printed.get("members", ()):
            text, name = "; ".join(show_result(one, is_zh)), str(one.get("key", ""))
            yield text if name in text else f"{words[name][is_zh] if name in words else name}: {text}"
        if printed.get("more"):
            yield str(words["more"][is_zh]).format(printed["more"])
        if not printed.get("members"):
            yield str(words["none"][is_zh])
    elif printed.get("kind") == "line":
        marks = (("first", "first"), ("last", "last"), ("max", "highest"), ("min", "lowest"))
        shown = [(words[name][is_zh], {"unit": printed.get("unit"), **printed[key]}) for key, name in marks]
        yield "; ".join(f"{name} {show_point(point, is_zh)}" for name, point in shown)
    elif printed.get("kind") == "period":
        yield " – ".join(str(printed[name]) for name in ("start", "end") if printed.get(name))
    else:
        yield show_point(printed, is_zh) + list_days(printed, is_zh)


def list_days(point: Mapping[str, Any], is_zh: bool) -> str:
    """Return the days on which a condition holds, where they are few enough to be read."""
    days = [str(day) for day in point.get("days", ())]
    is_short = 0 < len(days) <= MOST_DAYS and not point.get("more")
    return "" if not is_short else f"：{'、'.join(days)}" if is_zh else f": {', '.join(days)}"
