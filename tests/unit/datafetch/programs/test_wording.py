"""Words for the steps of programs."""

from __future__ import annotations

import re
from datetime import date

import pytest

from fathom.services.datafetch.programs.wording import describe_step, describe_steps, load_phrases
from fathom.services.planner.answering.verification.comparison.relations import find_relations
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
    known = load_phrases()["functions"]
    functions = {name for name in steps.__all__ if name[0].islower()} - {
        "line",
        "rows",
        "show",
        "show_tables",
        "run_step",
    }
    assert functions <= {*known}
    assert all(len(texts) == 2 for texts in known.values())


def test_all_steps_are_named_by_the_words_of_their_series() -> None:
    assert describe_steps(["f.ret(s1)", "f.last(cpi)"], {"s1": "the  VIX\n", "cpi": ""}) == [
        ("return of the VIX", "the VIX的涨跌幅"),
        ("last value of cpi", "cpi的最新值"),
    ]


def test_a_step_whose_period_goes_beyond_the_data_says_where_they_end() -> None:
    steps = ["f.mean(f.within(s1, f.period('2021-11-29', '2026-11-29')))", "f.last(s1)"]
    (english, chinese), (plain, _) = describe_steps(steps, {"s1": "gold"}, date(2022, 12, 28))
    assert english.endswith("2021-11-29 to 2026-11-29 (the data end on 2022-12-28)")
    assert chinese.endswith("（数据截至2022-12-28）")
    assert plain == "last value of gold"


def test_no_words_compare_with_whole_tables() -> None:
    texts = [text for part in ("functions", "words") for texts in load_phrases()[part].values() for text in texts]
    assert [text for text in texts if any(one.is_superlative for one in find_relations(text))] == []


def test_templates_name_only_arguments_by_number() -> None:
    texts = [text for texts in load_phrases()["functions"].values() for text in texts]
    assert all(re.fullmatch(r"\d|\*", field) for text in texts for field in re.findall(r"\{(.*?)\}", text))


def test_a_large_group_is_named_by_some_of_its_members() -> None:
    names = {f"s{number}": name for number, name in enumerate("ABCDEFG", 1)}
    code = f"f.rank(f.ret(f.each({', '.join(names)})))"
    ((english, chinese),) = describe_steps([code], names)
    assert "A, B, C, D, 3 more" in english
    assert "A、B、C、D、另3个" in chinese
