"""Numbers that follow from a column support an answer; comparisons with multiples, ranks, denials and dates are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from fathom.services.planner.answering.verification.comparison.multiples import find_multiple
from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.answering.verification.elliptical import complete_moments
from fathom.services.planner.answering.verification.events import find_direction
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import FindingKind, MaterialKind

MONTHS = tuple(date(year, month, 28) for year in (2020, 2021) for month in range(1, 13))
GOLD = np.array([100, 110, 99, 120, 132, 118.8, 125, 130, 128, 135, 140, 150, *np.linspace(155, 300, 12)])
SILVER = np.array([20, 21, 22, 21, 20, 19, 20, 21, 22, 23, 24, 25, *np.linspace(25.5, 27.5, 12)])
JOBLESS = np.array([4.0, 4.1, 4.5, 9.0, 8.5, 8.0, 7.5, 7.2, 7.0, 6.8, 6.7, 6.6, *np.linspace(6.5, 4.3, 12)])


def make_sheet(number: int, title: str, series: tuple[Series, ...], names: dict[str, tuple[str, ...]]) -> Source:
    """Return a sheet with its columns and the names of its entities."""
    moments = index_line(" ".join(day.isoformat() for day in MONTHS)).moments
    labels = {one.name: title.partition(":")[2] for one in series}
    return Source(
        number, MaterialKind.SHEET, index_line(title), series=series, moments=moments, aliases=names, labels=labels
    )


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    metals = (
        Series("GOLD.close", "GOLD", "USD", 1.0, GOLD, MONTHS),
        Series("SILVER.close", "SILVER", "USD", 1.0, SILVER, MONTHS),
    )
    rate = (Series("US.unrate", "US", "%", 1.0, JOBLESS, MONTHS, is_adverse=True),)
    names = {"GOLD": ("Gold", "黄金"), "SILVER": ("Silver", "白银")}
    return Verifier(
        "What happened?",
        [
            make_sheet(1, "Gold, Silver: close 收盘价", metals, names),  # type: ignore[arg-type]
            make_sheet(2, "United States: unemployment rate 失业率", rate, {"US": ("United States",)}),
        ],
    )


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        ("Gold averaged 123.98 USD in 2020 [1].", "Gold averaged 133.98 USD in 2020 [1]."),
        ("In 2020 gold had a maximum drawdown of 10.0% [1].", "In 2020 gold had a maximum drawdown of 17.0% [1]."),
        ("黄金2020年的最大单月涨幅为21.2%[1]。", "黄金2020年的最大单月涨幅为28.2%[1]。"),
        ("The annualised volatility of gold in 2020 was 31.1% [1].", "The annualised volatility of gold in 2020 was 37.1% [1]."),
        ("Gold gained 150.00 USD during 2021 [1].", "Gold gained 133.00 USD during 2021 [1]."),
        ("Unemployment averaged 6.7% in 2020 and 1.3 percentage points less in 2021 [2].", "Unemployment averaged 6.7% in 2020 and 1.3% less in 2021 [2]."),
    ],
)  # fmt: skip
def test_what_a_column_says_when_computed_supports_a_number(verifier: Verifier, true: str, wrong: str) -> None:
    assert [finding.detail for finding in verifier.verify(true)] == []
    assert verifier.verify(wrong)


def test_the_period_may_stand_in_the_sentence_before(verifier: Verifier) -> None:
    assert verifier.verify("What was 2020 like? Gold averaged 123.98 USD [1].") == ()


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        ("No month of 2020 had a higher unemployment rate than April [2].", "No month of 2020 had a lower unemployment rate than April [2]."),
        ("没有一个月的失业率比2020年4月更高[2]。", "没有一个月的失业率比2020年4月更低[2]。"),
        ("In 2020 no close of gold was above 150.00 USD [1].", "In 2020 no close of gold was below 150.00 USD [1]."),
        ("In December 2021 gold cost exactly twice its price of December 2020 [1].", "In December 2021 gold cost more than three times its price of December 2020 [1]."),
        ("Unemployment more than doubled between January and April 2020 [2].", "Unemployment more than tripled between January and April 2020 [2]."),
        ("2020年12月的失业率6.6%，还不到4月9.0%的四分之三[2]。", "2020年12月的失业率6.6%，还不到4月9.0%的一半[2]。"),
        ("Unemployment peaked in April 2020, three months after its low in January 2020 [2].", "Unemployment peaked in April 2020, three months before its low in January 2020 [2]."),
        ("Each month from May to December 2020 had less unemployment than the one before [2].", "Each month from May to December 2020 had more unemployment than the one before [2]."),
        ("2021年白银的年均价高于2020年[1]。", "2021年白银的年均价低于2020年[1]。"),
        ("Gold led in 2021, Silver came second [1].", "Silver led in 2021, Gold came second [1]."),
        ("Unemployment fell from 6.6% in December 2020 to 4.3% in December 2021 [2].", "Unemployment rose from 6.6% in December 2020 to 4.3% in December 2021 [2]."),
        ("The second highest unemployment of 2020 was that of May [2].", "The second highest unemployment of 2020 was that of October [2]."),
    ],
)  # fmt: skip
def test_comparisons_are_computed_from_the_columns(verifier: Verifier, true: str, wrong: str) -> None:
    assert [finding.detail for finding in verifier.verify(true)] == []
    assert verifier.verify(wrong)


def test_a_number_that_names_what_it_counts_states_the_full_amount() -> None:
    jobs = (Series("US.payems", "US", "Thous. of Persons", 1e3, JOBLESS * 1e4, MONTHS),)
    verifier = Verifier("", [make_sheet(1, "United States: payrolls", jobs, {"US": ("United States",)})])
    assert verifier.verify("Payrolls came to 90,000 thousand persons in April 2020 [1].") == ()
    assert verifier.verify("Payrolls came to 90,000 persons in April 2020 [1].")


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2.2% less in the fourth quarter of 2008 than in the third.", [date(2008, 10, 1), date(2008, 7, 1)]),
        ("2008年11月为0.39%，10月0.97%", [date(2008, 11, 1), date(2008, 10, 1)]),
        ("It came third in 2008.", [date(2008, 1, 1)]),
    ],
)
def test_a_quarter_or_month_right_before_a_number_has_its_year(text: str, dates: list[date]) -> None:
    assert [moment.first for moment in complete_moments(text, find_moments(text))] == dates


def test_a_multiple_has_bounds_by_the_word_before_it() -> None:
    for text, inside, outside in (
        ("more than twice the rate", 2.3, 1.9),
        ("nearly double the rate", 1.8, 2.3),
        ("about five times the price", 5.4, 8.0),
        ("还不到去年的一半", 0.4, 0.6),
    ):
        multiple = find_multiple(text)
        assert multiple is not None
        assert multiple.allows(inside)
        assert not multiple.allows(outside)
    assert find_multiple("three times a year") is None


def test_ranks_are_read_with_their_place() -> None:
    ranks = {
        text: find_relations(text)[0].rank for text in ("the second highest rate", "it came third", "排第二", "最高")
    }
    assert ranks == {"the second highest rate": 2, "it came third": 3, "排第二": 2, "最高": 1}


def test_a_direction_reaches_neither_over_a_verb_of_comparison_nor_from_give_up() -> None:
    text = "The 20 million jobs lost exceeded the 12 million won back"
    assert find_direction(text, text.index("12")) == 0
    assert find_direction("The index gave up 16.9%", 18) == 0


def test_a_fall_is_not_taken_for_an_equal_rise_of_another_period() -> None:
    years = tuple(date(year, 12, 31) for year in (2019, 2020, 2021))
    series = Series("TIN.close", "TIN", "USD", 1.0, np.array([100.0, 150.0, 75.0]), years)
    moments = index_line("2019 2020 2021").moments
    sheet = Source(1, MaterialKind.SHEET, index_line("Tin: close"), series=(series,), moments=moments)
    assert Verifier("", [sheet]).verify("Tin fell by 50.0% in 2021 after a rise of 50.0% in 2020 [1].") == ()
    # The verb is of the first number, and "fall" is none.
    turned = replace(sheet, series=(replace(series, values=np.array([150.0, 100.0, 150.0])),))
    assert Verifier("", [turned]).verify("Tin rose 50.0% in 2021 after a fall of 33.3% in 2020 [1].") == ()


def test_an_exchange_rate_may_be_told_the_other_way_round() -> None:
    days = (date(2016, 6, 23), date(2016, 6, 24))
    series = Series("GBP.eur_rate", "GBP", "GBP per EUR", 1.0, np.array([0.76630, 0.80750]), days, per="EUR")
    moments = index_line("2016-06-23 2016-06-24").moments
    sheet = Source(1, MaterialKind.SHEET, index_line("Pound: rate"), series=(series,), moments=moments)
    said = "A pound was 1.2384 euros on 24 June 2016, 5.1% less than the day before [1]."
    assert Verifier("", [sheet]).verify(said) == ()
    assert Verifier("", [sheet]).verify(said.replace("1.2384 euros", "1.2384 dollars")) != ()


def test_changes_and_sums_of_two_columns_differ_by_points_and_amounts() -> None:
    months = tuple(date(2021, month, 28) for month in range(1, 5))
    names = {"AA": ("Aland",), "BB": ("Borland",)}
    series = (
        Series("AA.sales", "AA", "million USD", 1e6, np.array([10.0, 11, 12, 15]), months),
        Series("BB.sales", "BB", "million USD", 1e6, np.array([10.0, 10, 10, 12]), months),
    )
    moments = index_line("2021").moments
    sheet = Source(1, MaterialKind.SHEET, index_line("Sales"), series=series, moments=moments, aliases=names)
    for true, wrong in (
        ("30 percentage points", "35 percentage points"),
        ("6.0 million dollars", "8.0 million dollars"),
    ):
        assert Verifier("", [sheet]).verify(f"Aland and Borland were {true} apart in 2021 [1].") == ()
        assert Verifier("", [sheet]).verify(f"Aland and Borland were {wrong} apart in 2021 [1].") != ()


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        # A share of two columns, a part of a group, and two comparisons that no part tells apart.
        ("In 2021 gold was a larger share of the total than in 2020 [1].", ["larger"]),
        ("Gold and silver together were higher in 2021 than in 2020 [1].", ["higher"]),
        ("Gold was higher in December 2021 than in December 2020 [1].", []),
        ("Gold was lower in December 2021 than in December 2020 [1].", []),
        ("Gold cost 300 USD in December 2021 [1].", []),
        ("Gold was a larger share of the total.", []),
    ],
)
def test_a_comparison_that_nothing_decides_is_said_to_be_unchecked(
    verifier: Verifier, sentence: str, words: list[str]
) -> None:
    found = verifier.list_unchecked(sentence, verifier.verify(sentence))
    assert [mark.kind for mark in found] == [FindingKind.UNCHECKED] * len(words)
    assert all(word in mark.text for word, mark in zip(words, found, strict=True))
