"""Steps of programs in words, in English and Chinese: the phrase of each function with its arguments.

Periods are shown by the days that they were read as, and series by the question's words for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

import yaml

# Of the words for one series.
MOST_CHARS = 80
# Members of a group that are named; the result names those that it is of.
MOST_MEMBERS = 4
EDGES, ENDS = ("after", "before"), {"start": 0, "end": 1}
OPTIONAL = re.compile(r"\[([^\]]*?\{(\d)\}[^\]]*?)\]")


@cache
def load_phrases() -> Mapping[str, Any]:
    """Return the phrases of functions, and the words for constants."""
    text = resources.files("fathom.services.datafetch.programs.wording").joinpath("phrases.yaml").read_text("utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def describe_steps(steps: Sequence[str], series: Mapping[str, str], last: date | None = None) -> list[tuple[str, str]]:
    """Return what each step computes, in English and in Chinese; ``series`` are the question's words by name.

    A step whose period goes beyond ``last``, the last day of the data, says so.
    """
    names = {name: " ".join(words.split())[:MOST_CHARS] or name for name, words in series.items()}
    texts = [[describe_step(code, names, is_zh) for is_zh in (False, True)] for code in steps]
    for code, both in zip(steps, texts, strict=True):
        periods = [read_period(one) for one in ast.walk(ast.parse(code)) if isinstance(one, ast.expr)]
        if last is not None and any(one is not None and (one[1] or "") > last.isoformat() for one in periods):
            said = load_phrases()["functions"]["ended"]
            # The days of the words lie beyond those of the value.
            both[:] = [str(said[is_zh]).format(text, last) for is_zh, text in enumerate(both)]
    return [(english, chinese) for english, chinese in texts]


def describe_step(code: str, names: Mapping[str, str], is_zh: bool) -> str:
    """Return what a step computes in words, such as "maximum of VIX, 2014-01-01 to 2018-12-31"."""
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
    template = load_phrases()["functions"].get(name, [f"{name}({{*}})"] * 2)[is_zh]
    parts = [describe_node(one, names, is_zh) for one in node.args]
    if name == "each" and len(parts) > MOST_MEMBERS:
        more = str(load_phrases()["functions"]["more_members"][is_zh]).format(len(parts) - MOST_MEMBERS)
        parts = [*parts[:MOST_MEMBERS], more]
    return fill_template(template, parts, is_zh)


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
    return str(load_phrases()["functions"][name][is_zh]).format(first, last)


def describe_constant(value: object, is_zh: bool) -> str:
    """Return a number or a word of the language of programs as a reader writes it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(load_phrases()["words"].get(value, [value] * 2)[is_zh])


def fill_template(template: str, parts: Sequence[str], is_zh: bool) -> str:
    """Return a template with its arguments; optional parts whose argument is not there are left out."""

    def choose(match: re.Match[str]) -> str:
        return match[1] if int(match[2]) < len(parts) and parts[int(match[2])] else ""

    text = OPTIONAL.sub(choose, template)
    text = text.replace("{*}", ("、" if is_zh else ", ").join(parts))
    return re.sub(r"\{(\d)\}", lambda match: parts[int(match[1])] if int(match[1]) < len(parts) else "…", text)
