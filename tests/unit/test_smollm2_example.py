"""Test what the SmolLM2 example says of its stages: intervals and paired differences that can be checked by hand."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

MEASURE = run_path(str(Path(__file__).parents[2] / "examples" / "smollm2_search_r1" / "measure.py"))


def rows(*em: float) -> list[dict[str, object]]:
    return [
        {"id": str(place), "em": value, "sub_em": value, "f1": value, "searches": 1} for place, value in enumerate(em)
    ]


def test_interval_of_a_share() -> None:
    assert MEASURE["wilson"](0, 10) == pytest.approx((0.0, 0.278), abs=1e-3)
    assert MEASURE["wilson"](5, 10) == pytest.approx((0.237, 0.763), abs=1e-3)
    assert MEASURE["summarise_stage"](rows(1, 0, 0, 0))["em"] == 0.25


def test_stages_are_compared_question_by_question() -> None:
    found = MEASURE["compare_stages"](rows(0, 0, 0, 0, 0, 0, 1), rows(1, 1, 1, 1, 1, 1, 1))
    assert (found["won"], found["lost"]) == (6, 0)
    assert found["p"] == pytest.approx(2 / 2**6, abs=1e-3)
    assert MEASURE["compare_stages"](rows(1, 0), rows(1, 0)) == {"em": 0.0, "won": 0, "lost": 0, "p": 1.0}
