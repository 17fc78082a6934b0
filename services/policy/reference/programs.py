"""The program that the data tool makes of a question: the series it needs, its cell, and the results of its steps."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from fathom.services.policy.reference.cells import list_columns
from fathom.services.policy.reference.conversation import Step, parse_object
from fathom.services.policy.reference.reading import Reading, load_table

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
Sheet = Mapping[str, Any]
# Functions that only say which value of a series is meant.
LOOKING_UP = frozenset({"at", "last", "within", "period", "start", "end"})


@dataclass(frozen=True)
class Series:
    """A series of a program by its name in the steps, with the question's words for it.

    A column of the user's own table has its variable, its name and that of the column of dates instead of ids.
    """

    name: str
    entity: str
    indicator: str
    words: str
    variable: str = ""
    column: str = ""
    dates: str = ""


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

    def leaves_out(self, reading: Reading, question: str) -> bool:
        """Return whether the question has a name, a period or a number that no step uses.

        The words of the question are read without the learned reader, whose programs may lack a part of it. An economy
        is no series, and a number in words may count what is named beside it.
        """
        known = load_table("measures")["no_series"]
        used = [words.casefold() for words in self.words]
        named = [
            text.casefold()
            for kind, text, value in reading.mentions
            if (kind == "entity" and value not in known)
            or kind == "period"
            or (kind == "parameter" and not reading.spans(text, *value.partition(" ")[::2]))
        ]
        is_cut = any(self._cuts_name(reading.texts("unknown"), one.words, question) for one in self.series)
        return is_cut or any(not any(text in words or words in text for words in used) for text in named)

    def _cuts_name(self, unknown: Sequence[str], words: str, question: str) -> bool:
        """Return whether unread words stand right before a series' words, one of them a proper name: "UK gilt 10y"."""
        before = question[: question.find(words)].split() if words in question else []
        run = takewhile(lambda word: word in unknown, reversed(before))
        return any(char.isupper() for word in run for char in word)

    @property
    def lookup(self) -> Series | None:
        """Return the series of which the program only looks a value up; None for any calculation."""
        names = {name for code in self.steps for name in list_functions(code)}
        return self.series[0] if len(self.steps) == len(self.series) == 1 and names <= LOOKING_UP else None

    @property
    def is_sure(self) -> bool:
        """Return whether it is likely enough what the question asks for."""
        table = load_table("phrases")
        least: tuple[float, float] = (table["confidence"], table["link_confidence"])
        return self.confidence >= least[0] and self.link_confidence >= least[1]

    @property
    def is_certain(self) -> bool:
        """Return whether nothing need be said of how the question was read."""
        least: float = load_table("phrases")["certain"]
        return self.confidence >= least

    @property
    def is_computable(self) -> bool:
        """Return whether it is a calculation of which nothing is missing."""
        return self.is_sure and self.kind == "calculation" and bool(self.steps and self.series) and not self.missing

    @property
    def queries(self) -> list[dict[str, Any]]:
        """Return the typed queries that bring its series, one per indicator of entities, one for the economy's."""
        wanted: dict[str, dict[str, list[str]]] = {}
        for one in self.series:
            if one.variable:
                continue
            # The economy's indicators have one entity, everything else one indicator of several.
            key = one.entity if one.entity in load_table("measures")["no_series"] else one.indicator
            found = wanted.setdefault(key, {"entities": [], "indicators": []})
            found["entities"] += [one.entity] if one.entity not in found["entities"] else []
            found["indicators"] += [one.indicator] if one.indicator not in found["indicators"] else []
        return [dict(one) for one in wanted.values()]

    def find_columns(self, sheets: Sequence[Sheet]) -> dict[str, tuple[str, str]]:
        """Return table and column of each series that the tables have, by its name."""
        columns = {
            (str(column.get("entity")), str(column.get("indicator"))): (str(sheet["variable"]), str(column["name"]))
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
        columns = self.find_columns(sheets)
        named = {one.name: one.words for one in self.series}
        lines = [
            f"{name} = f.line({variable}, {column!r}, {shorten(named[name], name)!r})"
            for name, (variable, column) in columns.items()
        ]
        named_steps = enumerate(zip(labels, self.steps, strict=True), 1)
        steps = [f"_{number} = run({number}, {label!r}, lambda: {code})" for number, (label, code) in named_steps]
        return HEAD + "\n".join([*lines, *steps]) + "\n"


def shorten(words: str, name: str) -> str:
    """Return the words for a series as a label; its name where there are none."""
    return " ".join(words.split())[:80] or name


@dataclass(frozen=True)
class Outcome:
    """What a step gave: the printed result, and the number to cite."""

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
    series = [one for one in found.get("series", ()) if isinstance(one, Mapping)]
    fields = ("name", "entity", "indicator", "words", "variable", "column", "dates")
    return Program(
        str(found.get("kind", "")),
        tuple(map(str, found.get("steps", ()))),
        tuple(Series(*(str(one.get(name, "")) for name in fields)) for one in series),
        tuple(one for one in found.get("missing", ()) if isinstance(one, Mapping)),
        float(found.get("confidence", 0.0)),
        float(found.get("link_confidence", 0.0)),
        tuple(map(str, found.get("words", ()))),
        tuple(one for one in found.get("assumptions", ()) if isinstance(one, Mapping)),
    )


def read_outcomes(steps: Sequence[Step]) -> list[Outcome]:
    """Return what the steps of programs gave, in their order."""
    return list(iter_outcomes(steps))


def iter_outcomes(steps: Sequence[Step]) -> Iterator[Outcome]:
    for step in steps:
        for line in step.body.splitlines() if step.is_ok else ():
            printed = parse_object(line)
            if printed and isinstance(printed.get("step"), int):
                yield Outcome(printed["step"], printed, step.material)


def write_program_chart(program: Program, sheets: Sequence[Sheet], is_zh: bool) -> str:
    """Return the cell that draws the series of a program; "" where nothing has a course to be drawn.

    Series of one table are drawn together; a calculation at single days has no chart.
    """
    columns = program.find_columns(sheets)
    tables = list(dict.fromkeys(variable for variable, _ in columns.values()))
    days = sorted({day for code in program.steps for day in list_days(code)})
    names = [name for code in program.steps for name in list_functions(code)]
    if not tables or {*names} <= {"at", "start", "end", "period", "minus", "plus", "over", "times", "pct", "share"}:
        return ""
    kinds = load_table("phrases")["charts"]
    kind = next((kinds[name] for name in names if name in kinds), "levels")
    drawn = list(dict.fromkeys(column for variable, column in columns.values() if variable == tables[0]))
    if kind == "scatter" and len(drawn) != 2:
        kind = "rebased"
    start, end = (days[0], days[-1]) if len(days) > 1 else ("", "")
    dates = next((one.dates for one in program.series if one.variable == tables[0]), "") or "date"
    data = f"{tables[0]}[{json.dumps([dates, *drawn], ensure_ascii=False)}]"
    language = "zh" if is_zh else "en"
    return f"finance.chart({data}, {kind!r}, '', {start or None!r}, {end or None!r}, language={language!r})"


def list_functions(code: str) -> list[str]:
    """Return the functions that a step calls."""
    nodes = ast.walk(ast.parse(code, mode="eval"))
    return [node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]


def list_days(code: str) -> list[str]:
    """Return the ISO days that a step names."""
    nodes = ast.walk(ast.parse(code, mode="eval"))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if len(text) == 10 and text[4] == text[7] == "-"]
