"""Outcomes of the steps of a program, as their cell prints them: values in words, errors, and what they rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fathom.domain.programs.resolved import ResolvedProgram
from fathom.domain.text.addresses import choose_cells
from fathom.domain.tool_results import Step, list_objects

# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})
# The indicator that falls when its entity gains.
INVERSE = "eur_rate"


@dataclass(frozen=True)
class Outcome:
    """The result of one step, or its error, and the material that it is cited by."""

    result: Mapping[str, Any]
    material: int

    @property
    def citation(self) -> str:
        """Return the citation, "" for none."""
        return f" [{self.material}]" if self.material else ""

    @property
    def error(self) -> str:
        """Return why there is no value; "" for a value."""
        return str(self.result.get("error", ""))

    @property
    def texts(self) -> list[str]:
        """Return the value in words, or those of a group."""
        return [str(text) for text in self.result.get("said", ())]

    @property
    def conventions(self) -> dict[str, str]:
        """Return the conventions of the calculation with their citation."""
        return {str(text): self.citation for text in self.result.get("conventions", ())}

    @property
    def is_empty(self) -> bool:
        """Return whether no value meets the condition of the step."""
        return self.result.get("value", 0) is None or self.result.get("members") == []


def read_outcomes(steps: Iterable[Step]) -> dict[int, Outcome]:
    """Return what cells printed of the steps of a program, by the number of the step."""
    return {
        one["step"]: Outcome(one, step.material)
        for step in steps
        for one in list_objects(step.body)
        if isinstance(one.get("step"), int)
    }


def is_series(result: Mapping[str, Any]) -> bool:
    """Return whether the result of a step is a series or a group of series."""
    return result.get("kind") == "line" or any(map(is_series, result.get("members", ())))


def find_move(program: ResolvedProgram, values: Mapping[int, Outcome], premises: Collection[str]) -> str:
    """Return "rise" or "fall", whichever the values show against the premise of the question; "" for neither."""
    firsts = {number: {*one[:1]} for number, one in enumerate(program.functions, 1)}
    moves = [one.result.get("value") for number, one in values.items() if firsts[number] & MOVES]
    went = {"rise" if move > 0 else "fall" for move in moves if isinstance(move, int | float) and move}
    # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
    is_inverse = any(one.indicator == INVERSE for one in program.series)
    return went.pop() if len(went) == 1 and {*premises} - went and not is_inverse else ""


def list_cells(program: ResolvedProgram, values: Iterable[Outcome]) -> list[str]:
    """Return the cells of the user's tables on which values rest, of each series all where that is unknown."""
    columns: dict[str, tuple[int, set[int]]] = {}
    for one in values:
        for column, count, places in list_rows(one.result):
            columns.setdefault(column, (count, set()))[1].update(places)
    texts = [
        choose_cells(one.cells, sorted(columns[one.column][1]), columns[one.column][0]) or one.cells
        if one.column in columns
        else one.cells
        for one in program.series
        # Of several things that were compared the answer rests on those that it names.
        if one.cells and (not columns or one.column in columns)
    ]
    return list(dict.fromkeys(texts))


def list_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the columns that a result of the steps rests on, with the number of their values and the places of those.

    Those of the members of a group are included.
    """
    for column, found in result.get("rows", {}).items():
        yield column, found["of"], [place for first, last in found["at"] for place in range(first, last + 1)]
    for one in result.get("members", ()):
        yield from list_rows(one)
