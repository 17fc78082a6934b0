"""What is computed for a reading: groups of clauses, periods, currencies, averages, recoveries and deflation."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.services.policy.reference.cells import find_base, write_cell
from fathom.services.policy.reference.planning import Plan, Refusal, make_plans
from fathom.services.policy.reference.reading import Reading, inherit

SP = ("entity", "S&P 500", "SP500")
YEARS = ("period", "2000 to 2019", "2000-01-01/2019-12-31")


def plan(question: str, *mentions: tuple[str, str, str], asked: Any = ()) -> Plan:
    """Return the only plan of a reading."""
    [found] = make_plans(Reading(mentions, asked=tuple(asked)), question)
    assert isinstance(found, Plan), found
    return found


def write(found: Plan, *columns: str) -> str:
    """Return the last call of the cell for a table with these columns."""
    named = [{"name": name, "type": "double", "indicator": name.partition(".")[2]} for name in columns]
    return write_cell([(found, {"variable": "sheet_1", "columns": named})]).splitlines()[-1]


def test_months_with_a_loss_beyond_a_bound_are_one_call() -> None:
    asked = [
        ("return", "in how many months did the S&P 500 lose more than 5 %", "fall"),
        ("", "which was the worst", ""),
    ]
    found = plan(
        "2000 to 2019: in how many months did the S&P 500 lose more than 5 %, and which was the worst?",
        YEARS, ("condition", "how many months", "count"), SP, ("measure", "lose", "return"),
        ("condition", "more than 5 %", "> 5 %"), ("measure", "worst", "extreme"), asked=asked,
    )  # fmt: skip
    assert found.measures == ("periods_return",)
    assert "finance.by_period(sheet_1, 'month', 'return', -0.05, 0.05, '2000-01', '2019-12-31', " in write(
        found, "SP500.close_adj"
    )


def test_a_level_of_an_index_is_no_return() -> None:
    found = plan(
        "VIX in 2018: number of days above 30", ("entity", "VIX", "VIX"), ("period", "2018", "2018-01-01/2018-12-31"),
        ("measure", "number of days", "count"), ("condition", "above 30", "> 30"),
    )  # fmt: skip
    assert "finance.by_period(sheet_1, 'observation', 'last', 30.0, 30.0, '2018-01-01', '2018-12-31', " in write(
        found, "VIX.close_adj"
    )


def test_the_year_with_the_highest_average() -> None:
    asked = [("extreme", "which year had the highest average fed funds rate", ""), ("extreme", "which the lowest", "")]
    found = plan(
        "2001 to 2021: which year had the highest average fed funds rate and which the lowest?",
        ("period", "2001 to 2021", "2001-01-01/2021-12-31"), ("measure", "highest", "max"),
        ("measure", "average", "mean"), ("indicator", "fed funds rate", "fedfunds"), ("measure", "lowest", "min"),
        asked=asked,
    )  # fmt: skip
    assert found.measures == ("periods_value",)
    assert "finance.by_period(sheet_1, 'year', 'mean', None, None" in write(found, "US.fedfunds")


def test_neighbouring_years_are_one_period_where_months_are_counted() -> None:
    found = plan(
        "months of 2006 and 2007 with the spread below zero", ("condition", "months", "count"),
        ("period", "2006", "2006-01-01/2006-12-31"), ("period", "2007", "2007-01-01/2007-12-31"),
        ("indicator", "spread", "term_spread"), ("condition", "below zero", "< 0"),
    )  # fmt: skip
    assert found.windows == (("2006-01-01", "2007-12-31"),)


def test_two_currencies_are_crossed_and_beside_the_euro_each_is_shown_too() -> None:
    words = [
        ("indicator", "ECB", "eur_rate"), ("entity", "yen", "JPY"), ("entity", "dollar", "USD"),
        ("measure", "move", "return"), ("period", "2022", "2022-01-01/2022-12-31"),
    ]  # fmt: skip
    found = plan("ECB: how did yen and dollar move in 2022?", *words)
    assert found.measures == ("cross",)
    assert found.query["indicators"] == ["eur_rate"]
    with_euro = plan("how did yen and dollar move against the euro in 2022?", *words, ("output", "the euro", "euro"))
    assert with_euro.measures == ("cross", "return")


def test_days_beside_one_moving_average_and_crossings_of_two() -> None:
    average = ("measure", "moving average", "moving_average")
    one = ("parameter", "200-day", "200 days")
    found = plan("S&P 500 days below its 200-day moving average", SP, one, average)
    assert found.measures == ("average_gap",)
    both = plan(
        "S&P 500 50-day and 200-day moving average crossing", SP, ("parameter", "50-day", "50 days"), one, average
    )
    assert both.measures == ("crossover", "since")
    assert "finance.crossings(" in write(both, "SP500.close_adj")


def test_a_recovery_looks_behind_the_end_of_the_period() -> None:
    asked = [("recovery", "when did it get back above its peak", "")]
    found = plan("S&P 500, 2000 to 2019: when did it get back above its peak", SP, YEARS, asked=asked)
    assert set(found.measures) == {"recovery", "max_drawdown"}
    assert "end_date" not in found.query


def test_a_price_beside_the_consumer_prices_is_deflated() -> None:
    found = plan(
        "S&P 500, 2000 to 2019: return, and after CPI", SP, YEARS, ("measure", "return", "return"),
        ("indicator", "CPI", "cpiaucsl"),
    )  # fmt: skip
    assert found.measures == ("real", "return")
    assert found.query["indicators"] == ["close_adj", "cpiaucsl"]
    # The index itself is no series of which the return is asked.
    assert '[["date", "SP500.close_adj"]], ' in write(found, "SP500.close_adj", "US.cpiaucsl")


def test_a_clause_on_another_series_and_period_is_computed_by_itself() -> None:
    question = "Return of Alpha in 2018, and volatility of Beta in 2020"
    asked = (("return", "Return of Alpha in 2018", ""), ("volatility", "volatility of Beta in 2020", ""))
    mentions = (
        ("measure", "Return", "return"), ("entity", "Alpha", "AAA"), ("period", "2018", "2018-01-01/2018-12-31"),
        ("measure", "volatility", "volatility"), ("entity", "Beta", "BBB"), ("period", "2020", "2020-01-01/2020-12-31"),
    )  # fmt: skip
    first, second = make_plans(Reading(mentions, asked=asked), question)
    assert isinstance(first, Plan)
    assert isinstance(second, Plan)
    assert (first.measures, first.query["entities"]) == (("return",), ["AAA"])
    assert (second.measures, second.windows) == (("volatility",), (("2020-01-01", "2020-12-31"),))


def test_a_portfolio_without_shares_is_equal_only_where_the_question_names_one() -> None:
    words = [("entity", "A", "AAA"), ("entity", "B", "BBB"), YEARS]
    named = plan("portfolio of A and B, 2000 to 2019", ("measure", "portfolio", "portfolio"), *words)
    assert named.values["weights"] == "[0.5, 0.5]"
    guessed = make_plans(Reading(tuple(words), asked=(("portfolio", "A and B", ""),)), "A and B, 2000 to 2019")
    assert not any("portfolio" in one.measures for one in guessed if isinstance(one, Plan))


def test_a_condition_that_counts_nothing_is_refused() -> None:
    found = make_plans(
        Reading((SP, YEARS, ("measure", "return", "return"), ("condition", "above 5 %", "> 5 %"))), "return above 5 %"
    )
    assert found == [Refusal(("above 5 %",))]


@pytest.mark.parametrize(
    ("start", "of_steps", "base"),
    [
        ("2021-07-01", False, "2021-07"),
        ("2021-07-15", False, "2021-07-15"),
        ("2021-07-15", True, "2021-07-16"),
        ("", False, None),
    ],
)
def test_a_return_counts_from_the_value_of_a_day_or_from_before_a_month(
    start: str, of_steps: bool, base: str | None
) -> None:
    assert find_base(start, "2021-12-31", of_steps) == base


def test_a_follow_up_without_a_measure_asks_for_that_of_the_question_before() -> None:
    asked = (("volatility", "volatility of Alpha in 2020", ""),)
    earlier = Reading((("measure", "volatility", "volatility"), ("entity", "Alpha", "AAA")), asked=asked)
    bare = Reading(
        (("measure", "now", "last"), ("period", "2021", "2021-01-01/2021-12-31")), asked=(("return", "now 2021", ""),)
    )
    assert inherit(bare, earlier).sure == {"volatility"}
    own = Reading((("measure", "return", "return"),), asked=(("return", "its return", ""),))
    assert inherit(own, earlier).sure == {"return"}


def test_a_total_is_a_sum_unless_its_clause_asks_how_far_something_moved() -> None:
    words = (
        ("indicator", "imports", "impch"),
        ("measure", "total", "sum"),
        ("period", "2018", "2018-01-01/2018-12-31"),
    )
    asked = (("level", "total imports in 2018", ""), ("return", "by how much did they fall", "fall"))
    question = "total imports in 2018, and by how much did they fall"
    assert "sum" in plan(question, *words, asked=asked).measures
    moved = plan(
        "imports fell in 2018 by a total of", *words, asked=[("return", "imports fell in 2018 by a total of", "")]
    )
    assert moved.measures == ("change",)


def test_a_correlation_with_another_series_keeps_the_one_before() -> None:
    mentions = (
        ("entity", "gold", "GOLD"), ("period", "2008", "2008-01-01/2008-12-31"), ("measure", "gain", "return"),
        ("measure", "correlation", "correlation"), ("entity", "S&P 500", "SP500"),
    )  # fmt: skip
    asked = (("return", "gain of gold in 2008", ""), ("correlation", "its correlation with the S&P 500", ""))
    found = plan("gain of gold in 2008, its correlation with the S&P 500", *mentions, asked=asked)
    assert found.query["entities"] == ["GOLD", "SP500"]
