"""A program as calls of tools: the queries that bring its series, and the cell that computes and shows all steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from fathom.domain.programs.origins import find_ranking, list_courses
from fathom.domain.programs.reading import ECONOMIES
from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram
from fathom.domain.tool_results import Sheet, list_columns

# Title of the table of all values that a step gives the best of, in English and Chinese.
RANKED = ("All by size, for: {0}", "全部排序：{0}")
HEAD = ("def compute(f=finance.steps):", '    """Compute each step of the question and print what it gave."""')


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
