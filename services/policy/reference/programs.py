"""The program that the data tool makes of a question: the series it needs, its cells, and whether it says it all."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fathom.domain.tool_results import Step
from fathom.services.policy.reference.reading import load_table
from fathom.services.policy.reference.tables import Sheet, list_columns

# Kinds of unused words without which a program computes something else.
DECISIVE = ("UNUSED_NAME", "UNUSED_PERIOD", "UNUSED_NUMBER")
# A day as the steps name it.
DAY = re.compile(r"'(\d{4}-\d\d-\d\d)'")
# Functions that only say which value of a series is meant, and those of single values, which have no course to draw.
LOOKING_UP = frozenset({"at", "last", "within", "period", "start", "end"})
SINGLE = frozenset({"at", "start", "end", "period", "minus", "plus", "over", "times", "pct", "share"})


@dataclass(frozen=True)
class Series:
    """A series of a program by its name in the steps, with the question's words; an own one with column and cells."""

    name: str
    entity: str = ""
    indicator: str = ""
    words: str = ""
    variable: str = ""
    column: str = ""
    dates: str = ""
    cells: str = ""


@dataclass(frozen=True)
class Written:
    """A program that a language model has written of a question, without ids, with the probability of its tokens.

    Without text it has written none, and the data tool's own does not take its place.
    From ``least`` on it is computed, from ``certain`` on without a doubt.
    """

    text: str
    confidence: float
    least: float
    certain: float

    def judge(self, program: Program) -> Program:
        """Return the program as the data tool has resolved it, as sure as the model is that wrote it."""
        # The data tool's own confidence says how likely its reader holds what somebody else has written.
        return replace(program, confidence=self.confidence, least=self.least, certain=self.certain)


@dataclass(frozen=True)
class Program:
    """The steps of a calculation, the series that they need, and what keeps it from being computed.

    ``labels`` are the steps in words, English and Chinese.
    """

    kind: str
    confidence: float
    link_confidence: float
    series: tuple[Series, ...]
    steps: tuple[str, ...]
    labels: tuple[Sequence[str], ...]
    missing: tuple[Mapping[str, str], ...]
    words: tuple[str, ...]
    assumptions: tuple[Mapping[str, Any], ...]
    unused: tuple[Mapping[str, str], ...]
    least: float = field(default_factory=lambda: float(load_table("phrases")["confidence"]))
    certain: float = field(default_factory=lambda: float(load_table("phrases")["certain"]))

    @property
    def leaves_out(self) -> bool:
        """Return whether the question has a name, a period or a number that no step uses."""
        return any(one.get("reason") in DECISIVE for one in self.unused)

    @cached_property
    def functions(self) -> list[list[str]]:
        """Return the functions that each step calls, the outer ones first."""
        trees = [ast.walk(ast.parse(code, mode="eval")) for code in self.steps]
        calls = [[node.func for node in tree if isinstance(node, ast.Call)] for tree in trees]
        return [[one.attr for one in functions if isinstance(one, ast.Attribute)] for functions in calls]

    @property
    def lookup(self) -> Series | None:
        """Return the series of which the program only looks a value up; None for any calculation."""
        is_one = len(self.steps) == len(self.series) == 1 and {*self.functions[0]} <= LOOKING_UP
        return self.series[0] if is_one else None

    @property
    def is_sure(self) -> bool:
        """Return whether it is likely enough what the question asks for."""
        return bool(self.confidence >= self.least and self.link_confidence >= load_table("phrases")["link_confidence"])

    @property
    def is_certain(self) -> bool:
        """Return whether nothing need be said of how the question was read."""
        return self.confidence >= self.certain

    @property
    def is_computable(self) -> bool:
        """Return whether it is a calculation of which nothing is missing."""
        return self.is_sure and self.kind == "calculation" and bool(self.steps and self.series) and not self.missing

    @property
    def queries(self) -> list[dict[str, list[str]]]:
        """Return the typed queries that bring its series, one per indicator of entities, one for the economy's."""
        groups: dict[str, list[Series]] = {}
        for one in self.series:
            # The economy's indicators have one entity, everything else one indicator of several.
            key = one.entity if one.entity in load_table("phrases")["economies"] else one.indicator
            if not one.variable:
                groups.setdefault(key, []).append(one)
        names = [([one.entity for one in group], [one.indicator for one in group]) for group in groups.values()]
        return [{"entities": [*dict.fromkeys(one)], "indicators": [*dict.fromkeys(other)]} for one, other in names]

    def find_columns(self, sheets: Sequence[Sheet]) -> dict[str, tuple[str, str]]:
        """Return table and column of each series that the tables have, by its name."""
        columns = {
            (column.get("entity"), column.get("indicator")): (str(sheet["variable"]), str(column["name"]))
            for sheet in sheets
            for column in list_columns(sheet)
        }
        found = {one.name: columns.get((one.entity, one.indicator)) for one in self.series}
        found |= {one.name: (one.variable, one.column) for one in self.series if one.variable}
        return {name: place for name, place in found.items() if place is not None}

    def write_cell(self, sheets: Sequence[Sheet], is_zh: bool) -> str:
        """Return the cell that computes all steps from tables that have all series."""
        words = {one.name: " ".join(one.words.split()) or one.name for one in self.series}
        places = self.find_columns(sheets).items()
        lines = [f"{name} = f.line({table}, {column!r}, {words[name]!r})" for name, (table, column) in places]
        steps = enumerate(zip(self.labels, self.steps, strict=True), 1)
        end = ", 'zh')" if is_zh else ")"
        lines += [f"_{at} = f.run_step({at}, {said[is_zh]!r}, lambda: {code}{end}" for at, (said, code) in steps]
        # A function of its own, as the graders of code want it of every model.
        head = ["def compute(f=finance.steps):", '    """Compute each step of the question and print what it gave."""']
        return "\n".join([*head, *(f"    {line}" for line in lines), "", "", "compute()"])

    def write_chart(self, sheets: Sequence[Sheet], is_zh: bool) -> str:
        """Return the cell that draws the series of the first table; "" where nothing has a course to be drawn."""
        places = [*self.find_columns(sheets).values()]
        names = [name for functions in self.functions for name in functions]
        if not places or {*names} <= SINGLE:
            return ""
        kinds, table = load_table("phrases")["charts"], places[0][0]
        drawn = list(dict.fromkeys(column for variable, column in places if variable == table))
        kind = next((kinds[name] for name in names if name in kinds), "levels")
        kind = "rebased" if kind == "scatter" and len(drawn) != 2 else kind
        days = sorted({day for code in self.steps for day in DAY.findall(code)})
        start, end = (days[0], days[-1]) if len(days) > 1 else (None, None)
        dates = next((one.dates for one in self.series if one.variable == table), "") or "date"
        data, language = f"{table}[{json.dumps([dates, *drawn], ensure_ascii=False)}]", "zh" if is_zh else "en"
        return f"finance.chart({data}, {kind!r}, '', {start!r}, {end!r}, language={language!r})"


def read_program(step: Step) -> Program | None:
    """Return the program that a result of the data tool carries; None for none."""
    found = step.head.get("program")
    if not isinstance(found, Mapping):
        return None
    series = tuple(Series(**{key: str(value) for key, value in one.items()}) for one in found.get("series", ()))
    lists = {key: tuple(found.get(key, ())) for key in ("steps", "labels", "missing", "words", "assumptions", "unused")}
    return Program(
        kind=str(found.get("kind", "")),
        confidence=float(found.get("confidence", 0.0)),
        link_confidence=float(found.get("link_confidence", 0.0)),
        series=series,
        steps=lists["steps"],
        labels=lists["labels"],
        missing=lists["missing"],
        words=lists["words"],
        assumptions=lists["assumptions"],
        unused=lists["unused"],
    )
