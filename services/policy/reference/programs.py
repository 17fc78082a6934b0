"""The program that the data tool makes of a question: the series it needs, its cell, and the results of its steps."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from fathom.services.policy.reference.conversation import Step, parse_object
from fathom.services.policy.reference.reading import Reading, load_table
from fathom.services.policy.reference.tables import Sheet, list_columns

# Each step by itself, so that one that fails leaves the others; a later step of a failed one fails by name.
HEAD = """import json
f = finance.steps


def run(number, what, call):
    \"\"\"Compute a step and print what it is, and its result or its error, each as a line of JSON.\"\"\"
    print(json.dumps({"computes": number, "what": what}, ensure_ascii=False))
    try:
        value = call()
        f.show(number, value)
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError) as error:
        print(json.dumps({"step": number, "error": str(error)}, ensure_ascii=False))
        return None
    return value


"""
# Functions that only say which value of a series is meant, and those of single values, which have no course to draw.
LOOKING_UP = frozenset({"at", "last", "within", "period", "start", "end"})
SINGLE = frozenset({"at", "start", "end", "period", "minus", "plus", "over", "times", "pct", "share"})


@dataclass(frozen=True)
class Series:
    """A series of a program by its name in the steps, with the question's words for it."""

    name: str
    entity: str
    indicator: str
    words: str
    variable: str = ""
    column: str = ""
    dates: str = ""

    @property
    def label(self) -> str:
        """Return the question's words on one line; the name where there are none."""
        return " ".join(self.words.split())[:80] or self.name


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
    """The steps of a calculation, the series that they need, and what keeps it from being computed."""

    kind: str
    steps: tuple[str, ...]
    series: tuple[Series, ...]
    missing: tuple[Mapping[str, str], ...]
    confidence: float
    link_confidence: float
    words: tuple[str, ...] = ()
    assumptions: tuple[Mapping[str, Any], ...] = ()
    least: float = field(default_factory=lambda: float(load_table("phrases")["confidence"]))
    certain: float = field(default_factory=lambda: float(load_table("phrases")["certain"]))

    def leaves_out(self, reading: Reading, question: str) -> bool:
        """Return whether the question has a name, a period or a number that no step uses.

        The words of the question are read without the learned reader, whose programs may lack a part of it. An economy
        is no series, and a number in words may count what is named beside it.
        """
        used, counts = [words.casefold() for words in self.words], ("1", str(len(reading.entities)))
        named = [
            text.casefold()
            for kind, text, value in reading.mentions
            if (kind == "entity" and value in reading.entities)
            or kind == "period"
            or (kind == "parameter" and value.split(" ")[0] not in counts and any(map(str.isdigit, text)))
        ]
        if any(cuts_name(one.words, reading.texts("unknown"), question) for one in self.series):
            return True
        return any(not any(text in words or words in text for words in used) for text in named)

    @property
    def lookup(self) -> Series | None:
        """Return the series of which the program only looks a value up; None for any calculation."""
        names = {name for code in self.steps for name in list_functions(code)}
        return self.series[0] if len(self.steps) == len(self.series) == 1 and names <= LOOKING_UP else None

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
    def queries(self) -> list[dict[str, Any]]:
        """Return the typed queries that bring its series, one per indicator of entities, one for the economy's."""
        groups: dict[str, list[Series]] = {}
        for one in self.series:
            if one.variable:
                continue
            # The economy's indicators have one entity, everything else one indicator of several.
            key = one.entity if one.entity in load_table("phrases")["economies"] else one.indicator
            groups.setdefault(key, []).append(one)
        names = (
            {"entities": [one.entity for one in group], "indicators": [one.indicator for one in group]}
            for group in groups.values()
        )
        return [{key: list(dict.fromkeys(values)) for key, values in one.items()} for one in names]

    def find_columns(self, sheets: Sequence[Sheet]) -> dict[str, tuple[str, str]]:
        """Return table and column of each series that the tables have, by its name."""
        columns = {
            (column.get("entity"), column.get("indicator")): (str(sheet["variable"]), str(column["name"]))
            for sheet in sheets
            for column in list_columns(sheet)
        }
        found = {
            one.name: (one.variable, one.column) if one.variable else columns.get((one.entity, one.indicator))
            for one in self.series
        }
        return {name: place for name, place in found.items() if place is not None}

    def write_cell(self, sheets: Sequence[Sheet], labels: Sequence[str]) -> str:
        """Return the cell that computes all steps from tables that have all series; a label says what each step is."""
        columns, named = self.find_columns(sheets), {one.name: one.label for one in self.series}
        lines = [f"{name} = f.line({table}, {one!r}, {named[name]!r})" for name, (table, one) in columns.items()]
        steps = enumerate(zip(labels, self.steps, strict=True), 1)
        lines += [f"_{number} = run({number}, {label!r}, lambda: {code})" for number, (label, code) in steps]
        return HEAD + "\n".join(lines) + "\n"

    def write_chart(self, sheets: Sequence[Sheet], is_zh: bool) -> str:
        """Return the cell that draws the series of the first table; "" where nothing has a course to be drawn."""
        places = [*self.find_columns(sheets).values()]
        names = [name for code in self.steps for name in list_functions(code)]
        if not places or {*names} <= SINGLE:
            return ""
        kinds, table = load_table("phrases")["charts"], places[0][0]
        drawn = list(dict.fromkeys(column for variable, column in places if variable == table))
        kind = next((kinds[name] for name in names if name in kinds), "levels")
        kind = "rebased" if kind == "scatter" and len(drawn) != 2 else kind
        days = sorted({day for code in self.steps for day in list_days(code)})
        start, end = (days[0], days[-1]) if len(days) > 1 else (None, None)
        dates = next((one.dates for one in self.series if one.variable == table), "") or "date"
        data, language = f"{table}[{json.dumps([dates, *drawn], ensure_ascii=False)}]", "zh" if is_zh else "en"
        return f"finance.chart({data}, {kind!r}, '', {start!r}, {end!r}, language={language!r})"


@dataclass(frozen=True)
class Outcome:
    """The result of a step as it was printed, and the number to cite."""

    number: int
    printed: Mapping[str, Any]
    material: int

    @property
    def error(self) -> str:
        return str(self.printed.get("error", ""))


def read_program(step: Step) -> Program | None:
    """Return the program that a result of the data tool carries; None for none."""
    found = step.head.get("program")
    if not isinstance(found, Mapping):
        return None
    fields = ("name", "entity", "indicator", "words", "variable", "column", "dates")
    return Program(
        str(found.get("kind", "")),
        tuple(map(str, found.get("steps", ()))),
        tuple(Series(*(str(one.get(name, "")) for name in fields)) for one in found.get("series", ())),
        tuple(found.get("missing", ())),
        float(found.get("confidence", 0.0)),
        float(found.get("link_confidence", 0.0)),
        tuple(map(str, found.get("words", ()))),
        tuple(found.get("assumptions", ())),
    )


def read_outcomes(steps: Sequence[Step]) -> Iterator[Outcome]:
    """Yield what the steps of programs gave, in their order."""
    for step in steps:
        for line in step.body.splitlines() if step.is_ok else ():
            printed = parse_object(line)
            if printed and isinstance(printed.get("step"), int):
                yield Outcome(printed["step"], printed, step.material)


def cuts_name(words: str, unknown: Sequence[str], question: str) -> bool:
    """Return whether unread words stand right before a series' words, one of them a proper name: "UK gilt 10y"."""
    before = question[: question.find(words)].split() if words in question else []
    run = takewhile(lambda word: word in unknown, reversed(before))
    return any(char.isupper() for word in run for char in word)


def list_functions(code: str) -> list[str]:
    """Return the functions that a step calls."""
    nodes = ast.walk(ast.parse(code, mode="eval"))
    return [node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]


def list_days(code: str) -> list[str]:
    """Return the ISO days that a step names."""
    nodes = ast.walk(ast.parse(code, mode="eval"))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if len(text) == 10 and text[4] == text[7] == "-"]
