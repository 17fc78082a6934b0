"""The program of a question travels in the head of a result and comes back as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram

PRICES = ProgramSeries("s1", "Alpha", "AAA", "close_adj")
OWN = ProgramSeries("s2", "mine", variable="sheet_1", column="x", dates="day")
MADE = ResolvedProgram(
    "calculation", ("f.maximum(f.within(s1, f.period('2019-01-01', None)))", "f.mean(s2)"), (("a", "b"), ("c", "d")),
    (PRICES, OWN), confidence=0.9, link_confidence=0.8, words=("Alpha", "mine"),
)  # fmt: skip


def test_it_comes_back_as_it_was_and_its_series_have_no_empty_fields() -> None:
    sent = json.loads(json.dumps(MADE.to_json()))
    assert sent["series"][1] == {"name": "s2", "words": "mine", "variable": "sheet_1", "column": "x", "dates": "day"}
    back = ResolvedProgram.from_json(sent)
    assert back is not None
    assert back.to_json() | {"labels": ()} == MADE.to_json() | {"labels": ()}
    assert (back.series, back.functions) == ((PRICES, OWN), [["maximum", "within", "period"], ["mean"]])


@pytest.mark.parametrize("found", [None, "text", ["list"]])
def test_another_form_is_no_program(found: object) -> None:
    assert ResolvedProgram.from_json(found) is None


def test_what_is_missing_or_left_out_keeps_it_from_being_whole() -> None:
    assert MADE.is_computable
    assert not MADE.leaves_out
    sent = MADE.to_json()
    lacking = ResolvedProgram.from_json({**sent, "missing": [{"words": "Gamma", "reason": "UNKNOWN_SERIES"}]})
    partial = ResolvedProgram.from_json({**sent, "unused": [{"words": "Beta", "reason": "UNUSED_NAME"}]})
    assert lacking is not None
    assert not lacking.is_computable
    assert partial is not None
    assert partial.leaves_out


@pytest.mark.parametrize(
    ("step", "is_lookup"),
    [("f.at(s1, f.period('2019', '2019'))", True), ("f.maximum(f.within(s1, f.period('2019', '2019')))", False)],
)
def test_a_single_value_of_a_series_is_only_looked_up(step: str, is_lookup: bool) -> None:
    assert replace(MADE, steps=(step,), series=(PRICES,)).is_lookup is is_lookup
    assert not replace(MADE, steps=(step,)).is_lookup, "of two series it takes both"
