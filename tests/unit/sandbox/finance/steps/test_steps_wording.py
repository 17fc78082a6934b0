"""Words for the results of steps, and steps that fail by themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.steps.wording import WORDS, describe_result
from tests.unit.sandbox.finance.series import make_daily


@pytest.mark.parametrize(
    ("printed", "english"),
    [
        ({"kind": "point", "value": 36.07, "unit": "points", "day": "2018-12-24"}, "36.07 (2018-12-24)"),
        ({"kind": "point", "value": -37.55401, "unit": "%", "first_day": "2021-11-29", "day": "2022-01-27"},
         "-37.55% (2021-11-29 – 2022-01-27)"),
        ({"kind": "point", "value": 28385.6, "unit": "billion USD", "day": "2021-12-31"},
         "28,385.60 billion USD (2021-12-31)"),
        ({"kind": "point", "value": 3.14281, "unit": "percentage points"}, "3.14 percentage points"),
        ({"kind": "point", "value": None, "unit": "%"}, "no such value"),
        ({"kind": "point", "value": 2.0, "unit": "", "days": ["2018-01-31", "2018-03-31"]},
         "2: 2018-01-31, 2018-03-31"),
        ({"kind": "point", "value": 0.000123, "unit": ""}, "0.000123"),
    ],
)  # fmt: skip
def test_a_point_is_told_with_unit_and_days(printed: dict[str, Any], english: str) -> None:
    assert describe_result(printed, "en")["said"] == [english]


def test_a_group_is_told_member_by_member() -> None:
    members = [{"key": "AMD", "kind": "point", "value": -91.08, "unit": "%"}]
    printed = {"kind": "group", "members": members, "more": 3}
    assert describe_result(printed, "en")["said"] == ["AMD: -91.08%", "… 3 more"]
    assert describe_result({"kind": "group", "members": []}, "zh")["said"] == ["没有这样的值"]


def test_members_that_were_computed_alike_say_so_once() -> None:
    one, other = ({"key": key, "kind": "point", "convention": key} for key in "ab")
    assert describe_result({"kind": "group", "members": [one, other]}, "en")["conventions"] == ["a: a", "b: b"]
    assert describe_result({"kind": "group", "members": [one, one]}, "en")["conventions"] == ["a"]


def test_a_step_that_fails_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    line = make_daily([1, 2, 3])
    failed = steps.run_step(1, "x on a day", lambda: steps.at(line, steps.period("2031-01-01", "2031-01-01")))
    steps.run_step(2, "return from it", lambda: steps.pct(failed, 1))
    steps.run_step(3, "涨跌幅", lambda: steps.ret(line), "zh")
    said = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert failed is None
    assert [one.get("what") for one in said[::2]] == ["x on a day", "return from it", "涨跌幅"]
    assert all(one["error"] for one in said[1:4:2])
    assert said[5]["said"] == ["200.00% (2020-03-02 – 2020-03-04)"]
    assert said[5]["conventions"][0].startswith("简单收益率")


def test_no_words_compare_with_whole_tables() -> None:
    texts = [text for texts in WORDS.values() for text in texts]
    assert [text for text in texts if any(one.is_superlative for one in find_relations(text))] == []
