"""Words for steps and results of programs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.policy.reference.phrasing import describe_step, show_result
from fathom.services.policy.reference.reading import load_table
from fathom.services.sandbox.inside.finance import steps

NAMES = {"s1": "VIX", "s2": "S&P 500"}


@pytest.mark.parametrize(
    ("code", "english", "chinese"),
    [
        (
            "f.maximum(f.within(s1, f.period('2014-01-01', '2018-12-31')))",
            "maximum of VIX, 2014-01-01 to 2018-12-31",
            "VIX（2014-01-01至2018-12-31）的峰值",
        ),
        ("f.at(s1, f.period('2018-12-24', '2018-12-24'))", "VIX, 2018-12-24", "VIX（2018-12-24）"),
        ("f.count_if(f.moves(s2, 'day'), 'below', -3)", "number of values of change of S&P 500 in % by day < −3",
         "S&P 500每日涨跌幅<−3的次数"),
        ("f.after(s1, f.period('2009-01-01', None))", "VIX, since 2009-01-01", "VIX（2009-01-01以来）"),
        (
            "f.between(s1, f.end(f.period('2019-01-01', '2019-12-31')), f.period('2021-03-05', '2021-03-05'))",
            "VIX from 2019-12-31 to 2021-03-05",
            "VIX（2019-12-31至2021-03-05）",
        ),
        ("f.after(s1, _1)", "VIX from (1) on", "VIX（(1)之后）"),
        ("f.corr(s1, s2, 'day')", "correlation of VIX and S&P 500", "VIX与S&P 500的相关系数"),
        ("f.pct(_1, _2)", "change from (1) to (2) in %", "(1)到(2)的变化率"),
        ("f.top(s1)", "top values of VIX", "VIX中居前的值"),
    ],
)  # fmt: skip
def test_a_step_is_described_in_both_languages(code: str, english: str, chinese: str) -> None:
    assert describe_step(code, NAMES, is_zh=False) == english
    assert describe_step(code, NAMES, is_zh=True) == chinese


def test_every_function_of_programs_has_words_in_both_languages() -> None:
    known = load_table("phrases")["functions"]
    functions = {name for name in steps.__all__ if name[0].islower()} - {"line", "show"}
    assert functions <= {*known}
    assert all(len(texts) == 2 for texts in known.values())


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
    assert list(show_result(printed, is_zh=False)) == [english]


def test_a_group_is_told_member_by_member() -> None:
    members = [{"key": "AMD", "kind": "point", "value": -91.08, "unit": "%"}]
    printed = {"kind": "group", "members": members, "more": 3}
    assert list(show_result(printed, is_zh=False)) == ["AMD: -91.08%", "… 3 more"]
    assert list(show_result({"kind": "group", "members": []}, is_zh=True)) == ["没有这样的值"]


def test_no_words_compare_with_whole_tables() -> None:
    texts = [
        text for part in ("functions", "words") for texts in load_table("phrases")[part].values() for text in texts
    ]
    assert [text for text in texts if any(one.is_superlative for one in find_relations(text))] == []


def test_templates_name_only_arguments_by_number() -> None:
    texts = [text for texts in load_table("phrases")["functions"].values() for text in texts]
    assert all(re.fullmatch(r"\d|\*", field) for text in texts for field in re.findall(r"\{(.*?)\}", text))
