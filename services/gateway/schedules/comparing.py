"""Differences between two answers: figures that their code printed, and cells of their tables. No model is asked."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain import frames
from fathom.services.gateway.reports.report import list_material
from fathom.services.gateway.tables import to_json_value

# A number that stands by itself: "sheet_1" and the days of "2020-01-02" are parts of names.
NUMBER = re.compile(r"(?<![\w.\-/:])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w\-/:]|\.\d)")
WORD = re.compile(r"\w+")
# Members that number or order things and are no figures themselves.
ORDINALS = frozenset({"step", "computes", "count", "more"})
MAX_FIGURES, MAX_CELLS = 60, 20
# Rows that are compared cell by cell; of larger tables only the sizes are.
MAX_ROWS = 20_000
MAX_NAME_CHARS = 160
# Deeper members are no figures of a result.
MAX_DEPTH = 16
LARGEST = 1e300


@dataclass(frozen=True)
class Figure:
    """A figure by name, in both answers; None where one has none."""

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Cell:
    """A cell of a table, as it was and as it is; rows are named by their first column."""

    row: str
    column: str
    before: Any
    after: Any


@dataclass(frozen=True)
class TablePair:
    """A table in both answers: rows by their first column, and the first cells that differ."""

    title: str
    added: int
    removed: int
    changed: int
    """Cells of rows that both have."""
    cells: tuple[Cell, ...]
    is_whole: bool
    """True when all rows were compared."""


def compare_code(before: trajectory.Trajectory, after: trajectory.Trajectory) -> tuple[list[Figure], int]:
    """Return the figures that differ in what the code of two runs printed, and how many figures were compared."""
    found, compared = [], 0
    for earlier, later in pair_cells(list_cells(before), list_cells(after)):
        old, new = (dict(read_figures(print_of(cell))) for cell in (earlier, later))
        compared += len(new)
        for name in dict.fromkeys([*new, *old]):
            if old.get(name) != new.get(name):
                found.append(Figure(name[:MAX_NAME_CHARS], old.get(name), new.get(name)))
    return found, compared


def list_cells(run: trajectory.Trajectory) -> list[trajectory.CodeRecord]:
    """Return the code of a run that succeeded."""
    return [item.code for item in list_material(run) if item.HasField("code") and item.code.ok]


def pair_cells(
    before: Sequence[trajectory.CodeRecord], after: Sequence[trajectory.CodeRecord]
) -> Iterator[tuple[trajectory.CodeRecord | None, trajectory.CodeRecord | None]]:
    """Yield cells that do the same: of equal source, then those of most words in common, the others in their order."""
    # Cells are often written again word for word, and stand in another order where one was added before them.
    earlier, unpaired = list(before), []
    for cell in after:
        same = next((one for one in earlier if one.code == cell.code), None)
        if same is None:
            unpaired.append(cell)
        else:
            earlier.remove(same)
            yield same, cell
    # Mostly a date was changed. By their places alone, a cell that was added would shift all that follow it.
    for old, new in pair_alike(earlier, unpaired):
        earlier.remove(old)
        unpaired.remove(new)
        yield old, new
    yield from zip_longest(earlier, unpaired)


def pair_alike(
    before: Sequence[trajectory.CodeRecord], after: Sequence[trajectory.CodeRecord]
) -> list[tuple[trajectory.CodeRecord, trajectory.CodeRecord]]:
    """Return the cells that have words in common, those with most of them first, each in one pair."""
    words = [[Counter(WORD.findall(cell.code)) for cell in cells] for cells in (before, after)]
    ranked = sorted(
        (-measure_likeness(old, new), abs(place - other), place, other)
        for place, old in enumerate(words[0])
        for other, new in enumerate(words[1])
    )
    taken: tuple[set[int], set[int]] = (set(), set())
    pairs = []
    for likeness, _, place, other in ranked:
        if likeness and place not in taken[0] and other not in taken[1]:
            taken[0].add(place)
            taken[1].add(other)
            pairs.append((before[place], after[other]))
    return pairs


def measure_likeness(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of the words of two texts that both have (Dice's coefficient), 0 to 1."""
    return 2 * (one & other).total() / max(1, one.total() + other.total())


def print_of(cell: trajectory.CodeRecord | None) -> str:
    """Return what a cell printed and gave; "" for none."""
    return "" if cell is None else f"{cell.stdout}\n{cell.result}"


def read_figures(text: str) -> Iterator[tuple[str, float]]:
    """Yield the figures of a printed text with their names: members of JSON lines, numbers behind the words of others.

    A line of JSON with ``computes`` and ``what`` names the step that follows, as those of ``finance.steps`` do.
    """
    known: dict[str, int] = {}
    steps: dict[Any, str] = {}
    for line in text.splitlines():
        record = parse_object(line)
        if record is None:
            named = read_line(line)
        elif "what" in record and "computes" in record:
            steps[record["computes"]] = str(record["what"])
            continue
        else:
            named = read_members(record, (steps.get(record.get("step"), ""),))
        for name, value in named:
            # The same words again are another figure.
            known[name] = known.get(name, 0) + 1
            yield name if known[name] == 1 else f"{name} ({known[name]})", value


def parse_object(line: str) -> dict[str, Any] | None:
    """Return the object of a line of JSON; None for another line."""
    # Most lines are none, and the reading of a long one is what costs time.
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_line(line: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line, each named by the words of the whole line and its place among several."""
    numbers = NUMBER.findall(line)
    name = " ".join(NUMBER.sub(" ", line).split())
    for place, number in enumerate(numbers, 1):
        value = float(number.replace(",", ""))
        if math.isfinite(value):
            yield name if len(numbers) == 1 else f"{name} #{place}".strip(), value


def read_members(member: Any, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a JSON value, named by the way that leads to them."""
    if isinstance(member, bool) or len(path) > MAX_DEPTH:
        return
    if isinstance(member, int | float):
        # Neither infinities nor integers beyond them are figures.
        if abs(member) < LARGEST:
            yield " · ".join(part for part in path if part), float(member)
    elif isinstance(member, dict):
        own = (*path, str(member["key"])) if "key" in member else path
        for name, value in member.items():
            if name not in ORDINALS:
                yield from read_members(value, own if name == "value" else (*own, name))
    elif isinstance(member, list):
        for place, value in enumerate(member, 1):
            is_named = isinstance(value, dict) and "key" in value
            # Members that have a name stay the same ones in another order.
            yield from read_members(value, path if is_named else (*path, str(place)))


def compare_tables(title: str, before: bytes, after: bytes) -> TablePair:
    """Return how two tables of the same columns differ; both as Arrow streams. Raises ``CorruptData``."""
    old, new = frames.read_table(before, title), frames.read_table(after, title)
    if max(old.num_rows, new.num_rows) > MAX_ROWS or not new.num_columns:
        added = new.num_rows - old.num_rows
        return TablePair(title, max(0, added), max(0, -added), 0, (), is_whole=False)
    earlier, later = list_rows(old), list_rows(new)
    cells = [
        Cell(row, column, earlier[row][column], value)
        for row, values in later.items()
        if row in earlier
        for column, value in values.items()
        if column in earlier[row] and earlier[row][column] != value
    ]
    added, removed = len(later.keys() - earlier.keys()), len(earlier.keys() - later.keys())
    return TablePair(title, added, removed, len(cells), tuple(cells[:MAX_CELLS]), is_whole=True)


def list_rows(table: Any) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by their first column, as they are shown; rows of one name are numbered."""
    # As a reader sees them: a day and its midnight are one, and a missing value is equal to itself.
    # Kept in the table's order, so that what is listed first is what stands first.
    columns = [[to_json_value(value) for value in column.to_pylist()] for column in table.columns]
    found: dict[str, dict[str, Any]] = {}
    times: dict[str, int] = {}
    for values in zip(*columns, strict=True):
        name = str(values[0])
        times[name] = times.get(name, 0) + 1
        row = name if times[name] == 1 else f"{name} ({times[name]})"
        found[row] = dict(zip(table.column_names[1:], values[1:], strict=True))
    return found
