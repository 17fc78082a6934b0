"""Tables and charts of what a calculation gave: its results, and the course that its values are taken from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from fathom.domain.programs.origins import find_ranking, list_courses
from fathom.services.policy.reference.calculation import Calculation
from fathom.services.policy.reference.conversation import Call, is_chart
from fathom.services.policy.reference.reading import Sheet, list_columns, load_table, say

# Functions that put what they are given in order.
RANKING = frozenset({"rank", "top", "bottom", "item"})
# Values by name are compared by bars from this number on; fewer have courses that can be told apart.
MANY = 7
# Changes by month of ten years; more of them are a line.
MOST_BARS = 120


class ShownCalculation(Calculation):
    """A calculation whose answer shows tables and a chart of the results."""

    @cached_property
    def tables(self) -> list[Sheet]:
        """Return the tables that the cell of the steps has shown."""
        cells = [step for step in self.conversation.of("python") if step.is_ok and not is_chart(step)]
        return [sheet for step in cells for sheet in step.head.get("sheets", ())]

    @property
    def placed_sheets(self) -> Sequence[Sheet]:
        """Return the tables for the answer: those of results, of a single value its course, or else the inputs."""
        values = [sheet for sheet in self.tables if not is_dated(sheet)]
        return (self.tables if self._has_series else values or self.tables) or self.used_sheets

    @property
    def _has_series(self) -> bool:
        """Return whether a step gave a series, or several."""
        return any(is_series(one) for one, _ in self.values.values())

    def _write_output(self) -> list[str]:
        """Return the line of the cell that shows the results of all steps as tables."""
        results = ", ".join(f"{said!r}: {text}" for said, text in self._list_results())
        courses = ", ".join(dict.fromkeys(chain.from_iterable(map(list_courses, self.program.steps))))
        language = "zh" if self.is_zh else "en"
        return [f"f.show_tables(show_table, {{{results}}}, lambda: [{courses}], {language!r})"]

    def _list_results(self) -> Iterator[tuple[str, str]]:
        """Yield the title and the expression of what each step shows: its value, or all that it is the best of."""
        for number, said in list_distinct(self.labels):
            ranked = find_ranking(self.program.steps[number - 1])
            yield (say("ranked", self.is_zh, said), f"lambda: {ranked}") if ranked else (said, f"_{number}")

    def draw(self) -> Call | None:
        """Return the cell that draws the results, or the course of the measure that gave them."""
        chart = self._choose_chart() if self.values and not any(map(is_chart, self.conversation.steps)) else None
        if chart is None:
            return None
        sheet, kind, title = chart
        language = "zh" if self.is_zh else "en"
        code = f"finance.chart({sheet['variable']}, {kind!r}, {title!r}, language={language!r})"
        return Call("python", {"code": code})

    def _choose_chart(self) -> tuple[Sheet, str, str] | None:
        """Return table, kind and title of the chart, "" for the chart's own title; None for none."""
        names = {name for functions in self.program.functions for name in functions}
        dated = next((sheet for sheet in self.tables if is_dated(sheet)), None)
        if self._has_series and dated is not None:
            is_short = dated["rows"] <= MOST_BARS and len({str(one.get("unit")) for one in list_columns(dated)}) == 1
            return dated, "columns" if is_short and names & {"moves", "steps"} else "levels", str(dated["title"])
        values = next((sheet for sheet in self.tables if not is_dated(sheet)), None)
        # Values in several units have a column for these, and no common axis.
        if values is not None and self._is_compared(values, names):
            return values, "columns", str(values["title"])
        return (dated, self._choose_kind(dated), "") if dated is not None else None

    def _is_compared(self, values: Sheet, names: set[str]) -> bool:
        """Return whether the values of a table are of one step, in one unit, and by names that are no days."""
        if len(self.program.steps) == 1 and find_ranking(self.program.steps[0]):
            return True
        groups = [one for one, _ in self.values.values() if one.get("kind") == "group"]
        members = [one for group in groups for one in group.get("members", ())]
        is_one = len(self.values) == len(groups) == 1 and len({one.get("unit") for one in members}) == 1
        is_named = any(one.get("key") != one.get("day") for one in members)
        return is_one and is_named and (bool(names & RANKING) or values["rows"] >= MANY)

    def _choose_kind(self, course: Sheet) -> str:
        """Return how the course of the values is drawn: by the first measure that has a chart of its own."""
        kinds, columns = load_table("phrases")["charts"], list_columns(course)
        asked = [name for functions in self.program.functions for name in functions]
        kind = next((str(kinds[name]) for name in asked if name in kinds), "levels")
        kind = "rebased" if kind == "scatter" and len(columns) != 2 else kind
        # A rate is never based on one of its values.
        has_rates = any(str(one.get("unit", "")).startswith("%") for one in columns)
        return "levels" if kind == "rebased" and has_rates else kind


def list_distinct(labels: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of each step, with the number before a text that an earlier step has."""
    for number, text in labels.items():
        yield number, text if text not in [labels[one] for one in range(1, number)] else f"({number}) {text}"


def is_series(result: Mapping[str, Any]) -> bool:
    """Return whether the result of a step is a series or a group of series."""
    return result.get("kind") == "line" or any(map(is_series, result.get("members", ())))


def is_dated(sheet: Sheet) -> bool:
    """Return whether a table has a date in the first column of each row."""
    columns = sheet.get("columns", ())
    return bool(columns) and str(columns[0].get("type", "")).startswith(("time", "date"))
