"""Search sub-questions per period."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.planner.workflow.periods import MAX_PERIODS, split_periods

TODAY = date(2024, 5, 6)


def each(form: str, *periods: object) -> list[str]:
    return [form.format(period) for period in periods]


CASES = [
    ("Apple news 2020-2023", each("Apple news {}", 2020, 2021, 2022, 2023)),
    ("Apple news from 2020 to 2023", each("Apple news {}", 2020, 2021, 2022, 2023)),
    ("Apple between 2020 and 2022 in China", each("Apple {} in China", 2020, 2021, 2022)),
    ("reports on Tesla, 2019 through 2020", each("reports on Tesla, {}", 2019, 2020)),
    ("Fed policy 2021 – 2022", each("Fed policy {}", 2021, 2022)),
    ("Fed policy since 2021", each("Fed policy {}", 2021, 2022, 2023, 2024)),
    ("2020Q1 to 2020Q4 Apple guidance", each("{} Apple guidance", "2020Q1", "2020Q2", "2020Q3", "2020Q4")),
    ("oil demand from 2019Q4 through 2020Q2", each("oil demand {}", "2019Q4", "2020Q1", "2020Q2")),
    ("views on gold 2020 Q3 to Q4", each("views on gold {}", "2020Q3", "2020Q4")),
    ("each quarter of 2022 oil", each("{} oil", "2022Q1", "2022Q2", "2022Q3", "2022Q4")),
    ("analyst views on Tesla in the last three years", each("analyst views on Tesla {}", 2021, 2022, 2023)),
    ("ratings over the past 2 years", each("ratings {}", 2022, 2023)),
    ("previous five years of policy", each("{} of policy", 2019, 2020, 2021, 2022, 2023)),
    ("last 4 quarters Apple guidance", each("{} Apple guidance", "2023Q2", "2023Q3", "2023Q4", "2024Q1")),
    ("guidance in the past two quarters", each("guidance {}", "2023Q4", "2024Q1")),
    ("苹果2020年至2023年的新闻", each("苹果{}年的新闻", 2020, 2021, 2022, 2023)),
    ("苹果2020-2022年评级", each("苹果{}年评级", 2020, 2021, 2022)),
    ("从2019年到2021年的政策", each("{}年的政策", 2019, 2020, 2021)),
    ("2021年以来美联储政策", each("{}年美联储政策", 2021, 2022, 2023, 2024)),
    ("自2022年至今的研报", each("{}年的研报", 2022, 2023, 2024)),
    ("近三年茅台研报", each("{}年茅台研报", 2021, 2022, 2023)),
    ("过去五年政策解读", each("{}年政策解读", 2019, 2020, 2021, 2022, 2023)),
    ("最近两年行业观点", each("{}年行业观点", 2022, 2023)),
    ("最近四个季度业绩指引", each("{}业绩指引", "2023Q2", "2023Q3", "2023Q4", "2024Q1")),
    ("2021年一季度到四季度 茅台研报", each("{} 茅台研报", "2021Q1", "2021Q2", "2021Q3", "2021Q4")),
    ("2020Q3到2021Q1 苹果 指引", each("{} 苹果 指引", "2020Q3", "2020Q4", "2021Q1")),
    ("2021年第三季度至2021年第四季度 白酒", each("{} 白酒", "2021Q3", "2021Q4")),
    ("2022年各季度 原油", each("{} 原油", "2022Q1", "2022Q2", "2022Q3", "2022Q4")),
    # No range: one sub-question, word for word.
    ("Apple news 2020", ["Apple news 2020"]),
    ("Apple on 2020-03-23", ["Apple on 2020-03-23"]),
    ("why did gold fall?", ["why did gold fall?"]),
    ("2023-2020 backwards", ["2023-2020 backwards"]),
    ("iPhone 11 to 14", ["iPhone 11 to 14"]),
    ("苹果2020年新闻", ["苹果2020年新闻"]),
    ("in the last year", ["in the last year"]),
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_ranges_become_one_sub_question_per_period(text: str, wanted: list[str]) -> None:
    assert split_periods(text, TODAY) == wanted


def test_what_is_last_depends_on_the_day_that_is_given() -> None:
    assert split_periods("last two years of oil", date(2010, 1, 1)) == ["2008 of oil", "2009 of oil"]
    assert split_periods("last two quarters of oil", date(2010, 1, 1)) == ["2009Q3 of oil", "2009Q4 of oil"]


def test_a_long_range_becomes_stretches_without_gap_or_overlap() -> None:
    found = split_periods("news 1990 to 2020", TODAY)
    assert len(found) == MAX_PERIODS
    years = [part.removeprefix("news ").split("-") for part in found]
    covered = [year for first, last in years for year in range(int(first), int(last) + 1)]
    assert covered == list(range(1990, 2021))


@given(st.text(max_size=60), st.dates())
def test_any_text_gives_a_bounded_list_that_is_not_empty(text: str, today: date) -> None:
    assert 1 <= len(split_periods(text, today)) <= MAX_PERIODS
