"""Values by period, recoveries, returns since dates, ratios and cross rates, against values worked out by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance.errors import InvalidArgument

MONTHS = pd.date_range("2020-01-31", periods=7, freq="ME")
PRICES = pd.Series([100, 110, 99, 99, 54.45, 108.9, 120], MONTHS, name="share", dtype=float)
RATE = pd.Series([1.0, -0.5, -0.25, 0.5, 1.5, -1.0, 2.0], MONTHS, name="gap", dtype=float)


def test_months_beyond_a_loss_are_counted_and_the_worst_is_named() -> None:
    found = finance.by_period(PRICES, "month", below=-0.05, above=0.05).loc["share"]
    # Of +10 %, -10 %, 0, -45 %, +100 % and +10.2 %, counted from the first value.
    assert (found["n"], found["below"], found["above"]) == (7, 2, 3)
    assert found["below_periods"] == "2020-03, 2020-05"
    assert found["min"] == pytest.approx(-0.45)
    assert (found["min_period"], found["max_period"]) == ("2020-05", "2020-06")
    assert found["max"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("aggregate", "lowest", "highest", "at"),
    [
        ("mean", 0.25 / 3, 2.0, "2020Q1"),
        ("sum", 0.25, 2.0, "2020Q1"),
        ("last", -1.0, 2.0, "2020Q2"),
        ("max", 1.0, 2.0, "2020Q1"),
        ("min", -1.0, 2.0, "2020Q2"),
        # The first quarter changes from its own first value, 1.0 to -0.25.
        ("change", -1.25, 3.0, "2020Q1"),
    ],
)
def test_levels_are_taken_by_quarter(aggregate: str, lowest: float, highest: float, at: str) -> None:
    found = finance.by_period(RATE, "quarter", aggregate).loc["gap"]
    assert (found["min"], found["max"]) == (pytest.approx(lowest), pytest.approx(highest))
    assert found["min_period"] == at


def test_single_observations_have_runs_and_a_level_of_their_own() -> None:
    found = finance.by_period(RATE, "observation", "last", below=0).loc["gap"]
    assert (found["below"], found["below_run"]) == (3, 2)
    assert found["below_run_end"] == "2020-03-31"
    assert "above" not in found


def test_a_high_is_regained_behind_the_window() -> None:
    found = finance.recovery(PRICES, "2020-01", "2020-04").loc["share"]
    assert found["peak_date"] == MONTHS[1]
    assert (found["trough_date"], found["fall_pct"]) == (MONTHS[4], pytest.approx(-50.5))
    assert (found["recovery_date"], found["margin"], found["steps"]) == (MONTHS[6], pytest.approx(10.0), 2)


def test_a_high_that_is_not_regained_has_no_date() -> None:
    assert pd.isna(finance.recovery(PRICES.iloc[:6]).loc["share", "recovery_date"])


def test_a_return_since_a_date_begins_with_its_value() -> None:
    found = finance.since(PRICES, ["2020-03-31", "2020-05-02"], "2020-06")
    assert found["return"].tolist() == pytest.approx([0.1, 1.0])
    with pytest.raises(InvalidArgument, match="dates: share has no value from 2021-01-01"):
        finance.since(PRICES, ["2021-01-01"])


def test_cross_rates_are_given_both_ways() -> None:
    dollars, yen = PRICES / 100, PRICES * 1.5
    table = pd.DataFrame({"JPY.eur_rate": yen, "USD.eur_rate": dollars})
    found = finance.cross_rates(table)
    assert found["JPY per USD"].iloc[0] == pytest.approx(150)
    assert found["USD per JPY"].iloc[0] == pytest.approx(1 / 150)
    assert finance.ratio(yen.rename("a"), dollars.rename("b"))["a / b"].iloc[-1] == pytest.approx(150)
    with pytest.raises(InvalidArgument, match="data: has 1 rates"):
        finance.cross_rates(yen)


def test_quarterly_growth_compounds_to_a_year() -> None:
    quarters = pd.Series([100.0, 101.0], pd.to_datetime(["2020-03-31", "2020-06-30"]), name="gdp")
    quarters = pd.concat([pd.Series([99.0], pd.to_datetime(["2019-12-31"]), name="gdp"), quarters])
    assert finance.growth(quarters, 3, annual=True)["gdp"].iloc[-1] == pytest.approx(1.01**4 - 1)


def test_the_gap_to_a_moving_average_is_relative() -> None:
    found = finance.gap_to_mean(PRICES, 2)["share"]
    assert found.iloc[0] == pytest.approx(110 / 105 - 1)
    assert finance.by_period(found, "observation", "last", below=0, above=0).loc["share", "below"] == 2


def test_values_at_the_level_count_when_the_level_is_included() -> None:
    found = finance.by_period(RATE, "observation", "last", below=0.5, above=0.5, inclusive=True)
    # Of 1.0, -0.5, -0.25, 0.5, 1.5, -1.0 and 2.0, the 0.5 counts on both sides.
    assert (found.loc["gap", "below"], found.loc["gap", "above"]) == (4, 4)
    assert (found.loc["gap", "below_sign"], found.loc["gap", "above_sign"]) == ("<=", ">=")
    assert "at or above" in finance.convention(found, "en")


def test_a_single_value_has_returned_nothing() -> None:
    with pytest.raises(InvalidArgument, match="single value of 2020-03-31"):
        finance.holding_return(PRICES, "2020-03-31", "2020-03-31", "first")


def test_the_change_of_a_single_value_counts_from_the_one_before() -> None:
    row = finance.summary(RATE, "2020-05-01", "2020-05-31", levels=["gap"]).loc["gap"]
    assert (row["first"], row["last"], row["change"], str(row["base_date"].date())) == (0.5, 1.5, 1.0, "2020-04-30")
    assert (row["n"], row["mean"]) == (1, 1.5)
    assert pd.isna(finance.summary(RATE, "2020-01-01", "2020-01-31", levels=["gap"]).loc["gap", "change"])
