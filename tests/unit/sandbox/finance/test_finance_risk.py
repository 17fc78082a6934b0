"""Risk: published values, values of other libraries, a given risk-free rate, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance.errors import BrokenInvariant, InvalidArgument
from fathom.services.sandbox.inside.finance.results import ensure_bounds
from tests.unit.sandbox.finance.published import PORTFOLIO, make_bacon, make_rate, make_wave


def test_drawdown_and_volatility_are_those_of_empyrical() -> None:
    wave = make_wave()["wave"]
    worst = finance.max_drawdown(wave).loc["wave"]
    assert worst["drawdown"] == pytest.approx(-0.050126906492247665)
    assert (worst["peak"], worst["trough"]) == (pd.Timestamp("2019-11-25"), pd.Timestamp("2019-12-24"))
    assert worst["recovery"] is pd.NaT
    assert finance.volatility(wave) == pytest.approx(0.0479956122915299)


def test_the_sharpe_ratio_uses_the_risk_free_rate_that_is_given() -> None:
    wave = make_wave()["wave"]
    # empyrical-reloaded 0.5.9, with 0.02 / 252 a day; quantstats 0.0.86 for the ratio without a rate.
    assert finance.sharpe(wave, 2, "%") == pytest.approx(1.6882555815702522)
    assert finance.sharpe(wave, 0.02, "fraction") == pytest.approx(1.6882555815702522)
    assert finance.sharpe(wave, 0) == pytest.approx(2.10496033946598)
    assert "2 % a year, divided by 252" in finance.convention(finance.sharpe(wave, 2, "%"))


def test_a_rate_that_is_a_sheet_brings_its_unit_and_counts_by_date() -> None:
    wave = make_wave()["wave"]
    constant = make_rate([2.0] * 26)
    assert finance.sharpe(wave, constant) == pytest.approx(1.6882555815702522)
    rising = make_rate(list(np.linspace(0, 4, 26)))
    assert finance.sharpe(wave, rising) != pytest.approx(1.6882555815702522, abs=1e-3)


def test_sortino_is_that_of_quantstats_and_its_deviation_that_of_bacon() -> None:
    assert finance.sortino(make_wave()["wave"], 0) == pytest.approx(3.39798845731874)
    # Downside deviation of the book against half a percent a month: 0.0255 (PerformanceAnalytics, DownsideDeviation).
    ratio = finance.sortino(make_bacon()["portfolio"], 6, "%")
    excess = np.mean(PORTFOLIO) - 0.005
    assert excess / (float(ratio) / 12**0.5) == pytest.approx(0.0255, abs=5e-5)


@pytest.mark.parametrize(
    ("risk_free", "unit", "message"),
    [
        (2, "", "risk_free_unit: must be '%' or 'fraction'"),
        (2, "fraction", "risk_free_unit: 200% a year: is the unit '%'"),
        ("2 %", "%", "risk_free: must be a number or a series"),
        (make_rate([1.0] * 10), "", "risk_free: covers 2017-12-01 to 2018-09-01"),
        (make_rate([1.0] * 26, unit=""), "", "risk_free_unit: must be '%' or 'fraction'"),
    ],
)  # fmt: skip
def test_a_rate_of_unknown_size_or_too_short_is_refused(risk_free: object, unit: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        finance.sharpe(make_wave()["wave"], risk_free, unit)


def test_the_maximum_drawdown_of_a_level_that_recovers_has_its_three_dates() -> None:
    values = pd.Series([100.0, 120.0, 90.0, 110.0, 120.0, 115.0], pd.date_range("2020-01-01", periods=6), name="x")
    row = finance.max_drawdown(values).loc["x"]
    assert row["drawdown"] == pytest.approx(-0.25)
    assert [row[name].day for name in ("peak", "trough", "recovery")] == [2, 3, 5]


def test_a_price_that_only_rises_has_a_drawdown_of_nil_and_no_dates() -> None:
    row = finance.max_drawdown(pd.Series([1.0, 2.0, 3.0], pd.date_range("2020-01-01", periods=3), name="x")).loc["x"]
    assert row["drawdown"] == 0
    assert row["peak"] is pd.NaT


def test_yearly_returns_have_no_drawdown() -> None:
    # Returns of the S&P 500 in %, which once were taken for prices: "the maximum drawdown was -121.1%".
    returns = pd.Series([13.4, 29.6, 11.4, -0.7, 9.5], pd.date_range("2012-12-31", periods=5, freq="YE"), name="return")
    with pytest.raises(InvalidArgument, match="a return needs prices or levels above 0"):
        finance.max_drawdown(returns)


@pytest.mark.parametrize("value", [-1.21, 0.5])
def test_a_drawdown_outside_its_bounds_is_an_error_of_the_library(value: float) -> None:
    with pytest.raises(BrokenInvariant, match=r"a drawdown lies in \[-1, 0\]"):
        ensure_bounds(np.array([value]), -1.0, 0.0, "drawdown")


def test_beta_alpha_and_correlation_are_those_of_a_regression() -> None:
    wave = make_wave()
    row = finance.beta(wave[["wave"]], wave["market"], 2, "%").loc["wave"]
    own, market = (wave[name].pct_change().dropna() - 0.02 / 252 for name in ("wave", "market"))
    fit = stats.linregress(market, own)
    assert row["beta"] == pytest.approx(fit.slope)
    assert row["alpha"] == pytest.approx(fit.intercept * 252)
    assert row["correlation"] == pytest.approx(fit.rvalue)
    # empyrical-reloaded 0.5.9.
    assert row["beta"] == pytest.approx(0.6067831697429177)


def test_bacons_jensen_alpha_and_fama_beta_are_the_published_ones() -> None:
    bacon = make_bacon()
    annual = (1 + finance.holding_return(bacon)["return"]) ** 0.5 - 1
    slope = finance.beta(bacon[["portfolio"]], bacon["benchmark"]).loc["portfolio", "beta"]
    assert annual["portfolio"] - slope * annual["benchmark"] == pytest.approx(-0.014, abs=5e-4)
    deviation = finance.volatility(bacon)
    assert deviation["portfolio"] / deviation["benchmark"] == pytest.approx(1.03, abs=5e-3)


def test_bacons_pain_index_is_the_published_one() -> None:
    assert -finance.drawdown(make_bacon())["portfolio"].iloc[1:].mean() == pytest.approx(0.04, abs=5e-4)


def test_the_correlation_of_a_share_and_a_rate_takes_returns_and_differences() -> None:
    months = pd.date_range("2018-01-01", periods=8, freq="MS")
    table = pd.DataFrame(
        {
            "date": months,
            "share": [10, 11, 10.5, 12, 12.5, 12, 13, 14.0],
            "rate": [1, 1.2, 1.1, 1.5, 1.4, 1.4, 1.6, 1.5],
        }
    )
    table.attrs["units"] = {"rate": "%"}
    found = finance.correlation(table)
    expected = stats.pearsonr(table["share"].pct_change().dropna(), table["rate"].diff().dropna()).statistic
    assert found.loc["share", "rate"] == pytest.approx(expected)
    assert "share: simple returns, rate: differences" in finance.convention(found)
    with pytest.raises(InvalidArgument, match="of: rate is a rate"):
        finance.correlation(table, of="returns")


def test_rolling_measures_equal_those_of_each_window() -> None:
    wave = make_wave()
    assert finance.rolling(wave, 60)["wave"].iloc[-1] == pytest.approx(
        wave["wave"].pct_change().iloc[-60:].std() * 252**0.5
    )
    assert finance.rolling(wave, 20, "mean")["wave"].iloc[0] == pytest.approx(wave["wave"].iloc[:20].mean())
    assert finance.rolling(wave, 20, "return")["wave"].iloc[0] == pytest.approx(
        wave["wave"].iloc[20] / wave["wave"].iloc[0] - 1
    )
    both = finance.rolling(wave, 90, "correlation").iloc[-1, 0]
    moves = wave.pct_change().iloc[-90:]
    assert both == pytest.approx(moves["wave"].corr(moves["market"]))


@pytest.mark.parametrize(
    ("freq", "count"), [("B", 252), ("D", 365), ("W-FRI", 52), ("ME", 12), ("MS", 12), ("QE", 4), ("YE", 1)]
)
def test_the_periods_of_a_year_come_from_the_dates_and_are_stated(freq: str, count: int) -> None:
    dates = pd.date_range("2015-01-01", periods=40, freq=freq)
    values = pd.Series(100 + np.arange(40) % 7, dates, name="x", dtype=float)
    found = finance.volatility(values)
    assert found == pytest.approx(values.pct_change().std() * count**0.5)
    assert f"square root of {count} periods a year" in finance.convention(found)
