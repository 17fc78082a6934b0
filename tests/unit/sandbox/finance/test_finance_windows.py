"""Events, crossings, thresholds, extremes, portfolios and summaries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.published import make_rate, make_wave

DAYS = pd.date_range("2020-03-02", periods=10, freq="B")
PRICES = pd.Series([10, 11, 12, 11, 9, 8, 10, 12, 12, 13], DAYS, name="share", dtype=float)
# US unemployment around its peak of October 2009, months from January 2009 on, and later years, in %.
UNEMPLOYMENT = make_rate(
    [7.8, 8.3, 8.7, 9.0, 9.4, 9.5, 9.5, 9.6, 9.8, 10.0, 9.9, 9.9, 9.8, 4.9, 5.0], start="2009-01-01"
)


def test_an_event_splits_at_its_day_or_the_next_one_with_a_value() -> None:
    found = finance.around(PRICES, "2020-03-07", before=3, after=2).set_index("side")
    assert found.loc["before", "day0"] == pd.Timestamp("2020-03-09")
    assert found.loc["before", "return"] == pytest.approx(8 / 12 - 1)
    assert found.loc["after", "return"] == pytest.approx(12 / 8 - 1)


def test_an_event_too_close_to_the_end_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="event: 2020-03-13: share has no 5 values before and 5 after"):
        finance.around(PRICES, "2020-03-13")


def test_a_rate_around_an_event_has_differences() -> None:
    found = finance.around(UNEMPLOYMENT, "2009-10-01", before=2, after=2).set_index("side")
    assert found.loc["before", "change"] == pytest.approx(0.4)
    assert "return" not in found


def test_touching_a_level_is_no_crossing() -> None:
    touching = pd.Series([9.0, 10.0, 9.0, 11.0, 10.0, 11.0, 8.0], DAYS[:7], name="x")
    found = finance.crossings(touching, 10)
    assert list(zip(found.index, found["side"], strict=True)) == [(DAYS[3], "above"), (DAYS[6], "below")]


def test_moving_averages_cross_where_a_loop_says_so() -> None:
    wave = make_wave()["wave"]
    fast, slow = finance.rolling(wave, 5, "mean"), finance.rolling(wave, 20, "mean")
    found = finance.crossings(fast, slow)
    values = [(wave.iloc[at - 4 : at + 1].mean(), wave.iloc[at - 19 : at + 1].mean()) for at in range(19, len(wave))]
    turned = [
        wave.index[19 + at]
        for at in range(1, len(values))
        if (values[at][0] > values[at][1]) != (values[at - 1][0] > values[at - 1][1])
    ]
    assert list(found.index) == turned
    assert len(turned) > 4


def test_a_single_month_does_not_show_that_something_never_happened() -> None:
    row = finance.beyond(UNEMPLOYMENT, 5, "below", "2009-10", "2009-10").loc["fedfunds"]
    assert (row["verdict"], row["of"]) == ("unknown", 1)


def test_never_needs_the_whole_window() -> None:
    seen = finance.beyond(UNEMPLOYMENT, 4, "below", "2009-01", "2009-12").loc["fedfunds"]
    beyond_the_data = finance.beyond(UNEMPLOYMENT, 4, "below", "2009-01", "2015-12").loc["fedfunds"]
    assert (seen["verdict"], beyond_the_data["verdict"]) == ("never", "unknown")


def test_the_longest_run_has_its_ends() -> None:
    row = finance.beyond(PRICES, 10.5).loc["share"]
    assert (row["verdict"], row["count"], row["of"], row["longest_run"]) == ("sometimes", 6, 10, 3)
    assert (row["run_start"], row["run_end"]) == (DAYS[1], DAYS[3])
    assert (row["first"], row["last"]) == (DAYS[1], DAYS[9])


def test_the_highest_days_include_ties_of_the_last_one() -> None:
    found = finance.top(PRICES, 2)
    assert found["share"].tolist() == [13, 12, 12, 12]
    assert found.index.tolist() == [1, 2, 2, 2]


def test_equal_values_share_a_rank() -> None:
    found = finance.rank({"a": 0.1, "b": 0.3, "c": 0.3, "d": None})
    assert found["rank"].to_dict() == pytest.approx({"b": 1.0, "c": 1.0, "a": 3.0, "d": np.nan}, nan_ok=True)
    assert list(found.index) == ["b", "c", "a", "d"]


def test_a_spread_of_two_rates_is_in_percentage_points_and_units_must_agree() -> None:
    other = make_rate([7.0] * 15, start="2009-01-01").rename(columns={"fedfunds": "gs10"})
    other.attrs["units"] = {"gs10": "%"}
    found = finance.spread(UNEMPLOYMENT, other)
    assert found.iloc[0, 0] == pytest.approx(0.8)
    assert found.attrs["units"] == {"fedfunds - gs10": "percentage points"}
    other.attrs["units"] = {"gs10": "USD"}
    with pytest.raises(InvalidArgument, match="other: is measured in USD, and fedfunds in %"):
        finance.spread(UNEMPLOYMENT, other)


def test_a_spread_of_units_that_differ_by_the_seasons_alone_says_so() -> None:
    one = make_rate([7.0] * 15, start="2009-01-01")
    other = make_rate([6.0] * 15, start="2009-01-01").rename(columns={"fedfunds": "nsa"})
    one.attrs["units"], other.attrs["units"] = {"fedfunds": "% (SA)"}, {"nsa": "% (NSA)"}
    found = finance.spread(one, other)
    assert set(found.iloc[:, 0]) == {1.0}
    assert found.attrs["units"] == {"fedfunds - nsa": "percentage points"}
    assert "one of them is seasonally adjusted" in found.attrs["convention"]
    # At an annual rate is another unit.
    other.attrs["units"] = {"nsa": "% (SAAR)"}
    with pytest.raises(InvalidArgument, match="is measured in % \\(SAAR\\)"):
        finance.spread(one, other)


def test_a_portfolio_that_is_held_weighs_the_returns_of_its_parts() -> None:
    wave = make_wave()
    held = finance.portfolio(wave, {"market": 0.4, "wave": 0.6})
    parts = finance.holding_return(wave)["return"]
    assert held["portfolio"].iloc[-1] / 100 - 1 == pytest.approx(0.6 * parts["wave"] + 0.4 * parts["market"])


def test_a_portfolio_rebalanced_daily_has_the_weighted_daily_returns() -> None:
    wave = make_wave()
    daily = finance.portfolio(wave, [0.6, 0.4], "day")["portfolio"].pct_change().dropna()
    expected = (wave.pct_change() * [0.6, 0.4]).sum(axis=1).iloc[1:]
    assert daily.to_numpy() == pytest.approx(expected.to_numpy())


def test_a_portfolio_rebalanced_by_month_compounds_weighted_monthly_returns() -> None:
    wave = make_wave()
    monthly = finance.period_returns(finance.portfolio(wave, [0.6, 0.4], "month"), "month")["portfolio"]
    expected = (finance.period_returns(wave, "month") * [0.6, 0.4]).sum(axis=1)
    assert monthly.to_numpy() == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.6, 0.6], "weights: must sum to 1, and sum to 1.2"),
        ([1.0], "weights: must have one for each of wave, market"),
        ([0.5, 0.3, 0.2], "weights: must have one for each of wave, market"),
        ({"wave": 0.5, "gold": 0.5}, "weights: must have one for each of wave, market"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(weights: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        finance.portfolio(make_wave(), weights)  # type: ignore[arg-type]


def test_a_summary_measures_prices_and_levels_each_in_their_way() -> None:
    table = pd.concat(
        [
            make_wave().resample("MS").last()[["wave"]],
            make_rate([1.0, 2.0, 1.5, *[1.0] * 20], "2018-01-01").set_index("date"),
        ],
        axis=1,
    )
    table.attrs["units"] = {"fedfunds": "%"}
    found = finance.summary(table, "2018-02", "2018-12", risk_free=0)
    assert found.loc["wave", "return_pct"] == pytest.approx(
        100 * finance.holding_return(table[["wave"]], "2018-02", "2018-12").loc["wave", "return"]
    )
    assert found.loc["wave", "base_date"] == pd.Timestamp("2018-01-01")
    assert found.loc["fedfunds", "change"] == pytest.approx(-1.0)
    assert np.isnan(found.loc["fedfunds", "return_pct"])
    assert found.loc["fedfunds", "max_date"] == pd.Timestamp("2018-02-01")
