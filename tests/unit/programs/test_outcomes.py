"""Test what is read of the steps that a cell has printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.domain.programs.outcomes import find_move, list_cells, read_outcomes
from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram
from fathom.domain.tool_results import Step


def make_cell(*results: Any) -> Step:
    """Return a cell that printed some lines."""
    body = "\n".join(["a line of its own", *map(json.dumps, results), '{"step": "no number"}'])
    return Step("python", {}, {"status": "ok", "material": 4}, body)


def test_values_and_errors_are_read_by_the_number_of_the_step() -> None:
    value = {"step": 1, "said": ["4.0%"], "conventions": ["of month ends"], "value": 4.0}
    found = read_outcomes([make_cell(value, {"step": 2, "error": "has no day"}), make_cell({"step": 3, "value": None})])
    assert list(found) == [1, 2, 3]
    assert (found[1].texts, found[1].conventions, found[1].error) == (["4.0%"], {"of month ends": " [4]"}, "")
    assert found[2].error == "has no day"
    assert [one.is_empty for one in found.values()] == [False, False, True]


@pytest.mark.parametrize(
    ("value", "premise", "indicator", "went"),
    [
        (0.2, "fall", "close", "rise"),
        (-0.2, "rise", "close", "fall"),
        (0.2, "rise", "close", ""),
        (0.2, "", "close", ""),
        (0.0, "fall", "close", ""),
        # The more units of a currency a euro has, the less that currency is worth.
        (0.2, "fall", "eur_rate", ""),
    ],
)
def test_a_move_against_the_premise_is_found(value: float, premise: str, indicator: str, went: str) -> None:
    program = ResolvedProgram(steps=("f.ret(s1)",), series=(ProgramSeries("s1", indicator=indicator),))
    assert find_move(program, read_outcomes([make_cell({"step": 1, "value": value})]), {premise} - {""}) == went


def test_a_value_of_an_own_table_rests_on_its_cells() -> None:
    series = ProgramSeries("s1", variable="sheet_1", column="Rent", cells="B2:B9")
    whole = ResolvedProgram(steps=("f.value(s1)",), series=(series,))
    known = {"step": 1, "rows": {"Rent": {"of": 8, "at": [[2, 2]]}}}
    assert list_cells(whole, read_outcomes([make_cell(known)]).values()) == ["B4"]
    assert list_cells(whole, read_outcomes([make_cell({"step": 1})]).values()) == ["B2:B9"]
