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
    table = load_table("phrases")
    if isinstance(node, ast.Name):
        return names.get(node.id, f"({node.id.lstrip('_')})")
    if isinstance(node, ast.UnaryOp):
        return f"−{describe_node(node.operand, names, is_zh)}"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return describe_constant(node.value if isinstance(node, ast.Constant) else "", is_zh)
    name = node.func.attr
    parts = [describe_node(one, names, is_zh) for one in node.args]
    if name == "period":
        return describe_period(node, is_zh)
    if name in ENDS and node.args and is_period(node.args[0]):
        return describe_edge(node.args[0], name, is_zh)
    if name in EDGES and has_open_end(node):
        name = "within"
    template = str(table["functions"].get(name, [f"{name}({{*}})"] * 2)[is_zh])
    return fill_template(template, parts, is_zh)


def is_period(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "period"


def describe_edge(period: ast.expr, name: str, is_zh: bool) -> str:
    """Return the first or the last day of a period; its words where that side is open."""
    sides = period.args if isinstance(period, ast.Call) else []
    days = [one.value for one in sides if isinstance(one, ast.Constant)]
    day = days[ENDS[name]] if len(days) == len(ENDS) else None
    return str(day) if day else describe_node(period, {}, is_zh)


def has_open_end(node: ast.Call) -> bool:
    """Return whether the second argument is a period that says itself from or until when it is."""
    period = node.args[1] if len(node.args) > 1 else None
    return isinstance(period, ast.Call) and any(
        isinstance(one, ast.Constant) and one.value is None for one in period.args
    )


def describe_constant(value: object, is_zh: bool) -> str:
    """Return a number or a word of the language of programs as a reader writes it."""
    if isinstance(value, float):
        return f"{value:g}"
    words = load_table("phrases")["words"].get(value)
    return str(words[is_zh]) if words else str(value)


def describe_period(node: ast.Call, is_zh: bool) -> str:
    """Return a period by its days, a single one or an open end as such."""
    days = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
    first, last = [*days, None, None][:2]
    if first == last:
        return str(first)
    if first is None or last is None:
        known, side = (last, "to") if first is None else (first, "from")
        words = {"to": ("up to {0}", "截至{0}"), "from": ("since {0}", "{0}以来")}[side]
        return words[is_zh].format(known)
    return str(load_table("phrases")["functions"]["period"][is_zh]).format(first, last)


def fill_template(template: str, parts: Sequence[str], is_zh: bool) -> str:
    """Return a template with its arguments; optional parts whose argument is not there are left out."""

    def choose(match: re.Match[str]) -> str:
        return match[1] if int(match[2]) < len(parts) and parts[int(match[2])] else ""

    text = OPTIONAL.sub(choose, template)
    text = text.replace("{*}", ("、" if is_zh else ", ").join(parts))
    return re.sub(r"\{(\d)\}", lambda match: parts[int(match[1])] if int(match[1]) < len(parts) else "…", text)


def name_unit(unit: str, is_zh: bool) -> str:
    """Return a unit as it stands behind a number: "%" at once, others after a blank; bases of indices are left out."""
    words = load_table("phrases")["words"].get(unit)
    text = str(words[is_zh]) if words else unit.strip()
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
    return (
        f"{show_number(float(value), str(point.get('unit', '')))}{name_unit(str(point.get('unit', '')), is_zh)}{dated}"
    )


def show_number(value: float, unit: str) -> str:
    """Return a number with as many decimals as its size is worth."""
    if value == int(value) and abs(value) < 1e12 and unit in ("", "days", "months"):
        return f"{int(value):,}"
    size = abs(value)
    places = 2 if size >= 10 else 4 if size >= 0.1 else 6
    if unit in ("%", "percentage points"):
        places = 2
    return f"{value:,.{places}f}"


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
    if not days or len(days) > MOST_DAYS or point.get("more"):
        return ""
    return f": {', '.join(days)}" if not is_zh else f"：{'、'.join(days)}"
