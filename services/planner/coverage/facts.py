"""Facts that the material of an answer offers: entities, indicators, dates, densities, measures, numbers, labels."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from statistics import median
from typing import Any

from fathom.core.errors import InvalidField
from fathom.services.planner.answering.parsing import Reference, parse
from fathom.services.planner.answering.rendering.missing import read_facts
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Evidence, Source
from fathom.services.planner.coverage.cells import CellFacts, close_over, read_cell
from fathom.services.planner.coverage.reading import QuestionReader
from fathom.services.planner.model.episode import Answer, Episode, Material, MaterialKind, ToolResult
from fathom.services.planner.tools.arguments import read_arguments
from fathom.services.planner.tools.data import Data
from fathom.services.planner.tools.figures import is_drawing

# Longest and shortest median distance in days of the dates of a density.
GAPS = (("daily", 1, 4), ("weekly", 5, 10), ("monthly", 26, 33), ("quarterly", 85, 97), ("annual", 350, 380))
# Labels of one material; a cell may print a whole table.
MAX_LABELS = 400
YEARS = range(1800, 2200)
YEAR_COLUMNS = frozenset({"year", "fiscal_year", "年", "年份", "年度"})


@dataclass(frozen=True)
class Facts:
    """Facts that one used material offers. ``first`` and ``last`` are None for material without dates of its own."""

    number: int
    kind: MaterialKind
    entities: frozenset[str] = frozenset()
    indicators: frozenset[str] = frozenset()
    first: date | None = None
    last: date | None = None
    days: frozenset[date] = frozenset()
    step: int = 0
    """Median distance of the dates in days; 0 when there are fewer than two."""
    frequencies: frozenset[str] = frozenset()
    measures: frozenset[str] = frozenset()
    has_unread_names: bool = False
    """True when datafetch did not say in time which measures its names stand for."""
    orders: frozenset[str] = frozenset()
    """Measures that the order of a table answers: "rank", and "max" or "min" by its direction."""
    numbers: frozenset[float] = frozenset()
    labels: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    units: frozenset[str] = frozenset()
    rows: int = 0
    has_figure: bool = False
    text: str = ""
    """All text of a document, and all that a cell printed, casefolded."""


@dataclass(frozen=True)
class Used:
    """Facts of all material that an answer uses, and what was looked for in vain."""

    facts: tuple[Facts, ...] = ()
    markdown: str = ""
    has_table: bool = False
    has_figure: bool = False
    lacks: tuple[str, ...] = ()
    """Names of missing items."""
    measures: frozenset[str] = frozenset()
    """Measures that the answer's words name."""
    alike: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Indicators that are like an asked one, by the words for it."""
    claims: frozenset[str] = field(default_factory=frozenset)
    """Arguments of the calls that brought the used sheets, as texts."""

    def of(self, *kinds: MaterialKind) -> list[Facts]:
        return [facts for facts in self.facts if facts.kind in kinds]


async def gather_facts(answer: Answer, episode: Episode, evidence: Evidence, reader: QuestionReader) -> Used:
    """Return the facts of the material that an answer cites or shows, and of the sheets that its cells read.

    An answer without any citation is taken to use all material.
    """
    material = [*episode.material, *answer.material]
    shown = {event.name for event in parse(answer.markdown) if isinstance(event, Reference)}
    used = {item.number for item in material if item.number in answer.cited or is_shown(item, shown)}
    found = {item.number for item in material if item.kind is not MaterialKind.MISSING}
    used = used & found or found
    # A table that a cell computed stands for its cell.
    used |= {item.computed_by or item.number for item in material if item.number in used}
    cells = {item.number: read_cell(item.item.code) for item in material if item.kind is MaterialKind.CODE}
    chain, loads = close_over(cells, [number for number in used if number in cells])
    by_variable = {item.variable: item.number for item in material if item.variable}
    used |= {*chain, *(by_variable[name] for name in loads if name in by_variable)}
    chosen = [item for item in material if item.number in used]
    sources = await evidence.gather(chosen)
    orders = find_orders(episode)
    described = [
        replace(describe(item, source, cells), orders=orders.get(item.number, frozenset()))
        for item, source in zip(chosen, sources, strict=True)
    ]
    *facts, spoken = await asyncio.gather(
        *(add_measures(item, reader) for item in described),
        add_measures(Facts(0, MaterialKind.CODE, labels=(answer.markdown,)), reader),
    )
    return Used(
        tuple(facts),
        answer.markdown,
        any(item.variable in shown for item in material if item.variable) or "\n|" in f"\n{answer.markdown}",
        any(item.has_figure for item in facts),
        list_lacks(material),
        spoken.measures,
        claims=frozenset(
            text for step in episode.steps for result in step.results for text in list_claims(result, used)
        ),
    )


def list_lacks(material: Sequence[Material]) -> tuple[str, ...]:
    """Return the subjects and aspects of missing items, except of words that a reading did not understand.

    Those, such as "more", are words of one wording of a call; they do not show that a source lacks anything. Nor do the
    words of an item's explanation.
    """
    missing = [read_facts(item) for item in material if item.kind is MaterialKind.MISSING and not is_unread(item)]
    named = (str(facts[name]) for facts in missing for name in ("subject", "aspect") if facts[name])
    return tuple(dict.fromkeys(named))


def is_unread(item: Material) -> bool:
    """Return whether a missing item only says that words of a call were not understood."""
    return read_facts(item)["reason"] == "NOT_UNDERSTOOD"


async def add_measures(facts: Facts, reader: QuestionReader) -> Facts:
    """Return the facts of a table or cell with the measures that its names stand for."""
    if facts.kind is MaterialKind.PASSAGE:
        return facts
    found = await reader.read_measures(facts.labels)
    return replace(facts, measures=facts.measures | (found or frozenset()), has_unread_names=found is None)


def is_shown(item: Material, names: set[str]) -> bool:
    """Return whether a table or figure of the material stands in the answer."""
    figures = {figure.id for figure in item.item.figures} if item.kind is MaterialKind.CODE else set()
    return item.variable in names or bool(figures & names)


def list_claims(result: ToolResult, used: set[int]) -> list[str]:
    """Return the arguments of a data call that brought a used sheet, except those that it reported as missing."""
    if not any(item.number in used and item.kind is MaterialKind.SHEET for item in result.material):
        return []
    try:
        arguments = read_arguments(result.call)
    except InvalidField:
        return []
    return [json.dumps(value, ensure_ascii=False) for name, value in arguments.items() if name != "intent"]


def find_orders(episode: Episode) -> dict[int, frozenset[str]]:
    """Return what the order of each ranked table answers, by the table's number.

    The first rows by descending order hold the greatest value, by ascending order the least; all rows hold both.
    """
    found: dict[int, frozenset[str]] = {}
    for result in (result for step in episode.steps for result in step.results if result.call.name == Data.name):
        try:
            arguments = read_arguments(result.call)
        except InvalidField:
            continue
        if not arguments.get("order_by"):
            continue
        first = "max" if arguments.get("descending") else "min"
        held = {"rank", first} if arguments.get("limit") else {"rank", "max", "min"}
        found |= {item.number: frozenset(held) for item in result.material if item.kind is MaterialKind.SHEET}
    return found


def describe(item: Material, source: Source, cells: Mapping[int, CellFacts]) -> Facts:
    """Return the facts of one material."""
    if item.kind is MaterialKind.SHEET:
        return describe_sheet(item, source)
    if item.kind is MaterialKind.CODE:
        return describe_cell(item, source, cells[item.number])
    document = item.item
    return Facts(
        item.number, item.kind, entities=frozenset(document.entities), labels=(document.title,),
        moments=source.moments, text=source.text.casefold(),
    )  # fmt: skip


def describe_sheet(item: Material, source: Source) -> Facts:
    """Return the facts of a table: columns, dates, and the texts of its cells."""
    columns = item.item.columns
    days = {day for series in source.series for day in series.days or () if day != date.min}
    # A table by year may have no dates but a column of years.
    dated = [series for series in source.series if series.name.casefold() in YEAR_COLUMNS and series.days is None]
    days |= {date(int(value), 12, 31) for series in dated for value in series.values if int(value) in YEARS}
    if not days:
        days = {moment.first for moment in source.moments if moment.first and moment.first == moment.last}
    texts = [line.text for line in source.lines[:MAX_LABELS]]
    named = [text for column in columns for text in (column.name, column.indicator, column.formula) if text]
    step = measure_step(days)
    return Facts(
        item.number,
        item.kind,
        frozenset([*(column.entity for column in columns if column.entity), *texts]),
        frozenset(name for column in columns for name in (column.indicator, *column.inputs) if name),
        min(days, default=None),
        max(days, default=None),
        frozenset(days),
        step,
        find_frequencies(step),
        labels=(item.item.title, *named, *texts)[:MAX_LABELS],
        units=frozenset(column.unit for column in columns if column.unit),
        rows=item.item.rows,
        text=source.about.text.casefold(),
    )


def describe_cell(item: Material, source: Source, code: CellFacts) -> Facts:
    """Return the facts of an executed cell: what its code names and what it printed."""
    record: Any = item.item
    printed = [line.text for line in source.lines]
    days = {moment.first for line in source.lines for moment in line.moments if moment.first == moment.last}
    return Facts(
        item.number,
        item.kind,
        frequencies=code.frequencies | find_frequencies(measure_step({day for day in days if day})),
        measures=code.measures if record.ok else frozenset(),
        numbers=code.numbers,
        labels=(*code.labels, *map(strip_numbers, printed))[:MAX_LABELS],
        moments=source.moments,
        rows=len(printed),
        has_figure=any(map(is_drawing, record.figures)),
        text="\n".join([record.code, *printed]).casefold(),
    )


def strip_numbers(text: str) -> str:
    """Return the words of a printed line."""
    return " ".join(re.findall(r"[^\W\d]+(?:_[^\W\d]+)*", text))[:200]


def measure_step(days: Sequence[date] | set[date]) -> int:
    """Return the median distance of dates in days; 0 for fewer than two."""
    ordered = sorted(set(days))
    return round(median((later - earlier).days for earlier, later in pairwise(ordered))) if len(ordered) > 1 else 0


def find_frequencies(step: int) -> frozenset[str]:
    """Return the density whose dates lie so far apart, if there is one."""
    return frozenset(name for name, least, most in GAPS if least <= step <= most)
