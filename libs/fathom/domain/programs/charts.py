"""The tables and the chart of a calculation: its results, and the course that its values are taken from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fathom.domain.programs.origins import find_ranking
from fathom.domain.programs.outcomes import Outcome, is_series
from fathom.domain.programs.resolved import ResolvedProgram
from fathom.domain.tool_results import Sheet, is_dated, list_columns

# Functions that put what they are given in order.
RANKING = frozenset({"rank", "top", "bottom", "item"})
# Values by name are compared by bars from this number on; fewer have courses that can be told apart.
MANY = 7
# Changes by month of ten years; more of them are a line.
MOST_BARS = 120
LEVELS, REBASED, SCATTER, COLUMNS = "levels", "rebased", "scatter", "columns"
# What a chart shows of a step, by its function; levels where none of these is asked.
KINDS = {
    "drawdown": "drawdown", "recovery": "drawdown", "vol": "volatility", "beta": SCATTER, "corr": SCATTER,
    **dict.fromkeys(("ret", "rise", "cagr", "grow", "sharpe", "sortino"), REBASED), "crossover": LEVELS,
}  # fmt: skip


def choose_tables(values: Mapping[int, Outcome], tables: Sequence[Sheet]) -> Sequence[Sheet]:
    """Return the tables of a cell that an answer shows: those of results, of a single value its course."""
    if any(is_series(one.result) for one in values.values()):
        return tables
    return [sheet for sheet in tables if not is_dated(sheet)] or tables


def write_chart(
    program: ResolvedProgram, values: Mapping[int, Outcome], tables: Sequence[Sheet], *, is_zh: bool
) -> str:
    """Return the cell that draws the results, or the course of the measure that gave them; "" for none."""
    names = [name for functions in program.functions for name in functions]
    dated = next((sheet for sheet in tables if is_dated(sheet)), None)
    shown = next((sheet for sheet in tables if not is_dated(sheet)), None)
    if dated is not None and any(is_series(one.result) for one in values.values()):
        is_short = dated["rows"] <= MOST_BARS and len({str(one.get("unit")) for one in list_columns(dated)}) == 1
        kind = COLUMNS if is_short and {"moves", "steps"} & {*names} else LEVELS
        sheet, title = dated, str(dated["title"])
    # Values in several units have a column for these, and no common axis.
    elif shown is not None and is_compared(program, values, shown, names):
        sheet, kind, title = shown, COLUMNS, str(shown["title"])
    elif dated is not None:
        # The chart has a title of its own.
        sheet, kind, title = dated, choose_kind(dated, names), ""
    else:
        return ""
    return f"finance.chart({sheet['variable']}, {kind!r}, {title!r}, language={'zh' if is_zh else 'en'!r})"


def is_compared(program: ResolvedProgram, values: Mapping[int, Outcome], shown: Sheet, names: Collection[str]) -> bool:
    """Return whether the values of a table are of one step, in one unit, and by names that are no days."""
    if len(program.steps) == 1 and find_ranking(program.steps[0]):
        return True
    groups = [one.result for one in values.values() if one.result.get("kind") == "group"]
    members = [one for group in groups for one in group.get("members", ())]
    is_one = len(values) == len(groups) == 1 and len({one.get("unit") for one in members}) == 1
    is_named = any(one.get("key") != one.get("day") for one in members)
    return is_one and is_named and (bool(RANKING & {*names}) or shown["rows"] >= MANY)


def choose_kind(course: Sheet, names: Sequence[str]) -> str:
    """Return how the course of the values is drawn: by the first measure that has a chart of its own."""
    columns = list_columns(course)
    kind = next((KINDS[name] for name in names if name in KINDS), LEVELS)
    kind = REBASED if kind == SCATTER and len(columns) != 2 else kind
    # A rate is never based on one of its values.
    has_rates = any(str(one.get("unit", "")).startswith("%") for one in columns)
    return LEVELS if kind == REBASED and has_rates else kind
