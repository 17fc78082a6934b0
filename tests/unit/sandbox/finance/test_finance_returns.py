"""Returns, growth and levels in other prices: known values, bases, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.published import make_bacon, make_rate, make_wave

# A last close of 2010 and a first one of 2011 that differ: the two bases of a year's return show at once.
YEARS = pd.Series(
    [90.0, 100.0, 110.0, 121.0, 60.5, 66.55],
    pd.to_datetime(["2010-12-31", "2011-01-03", "2011-12-30", "2012-12-31", "2013-06-28", "2013-12-31"]),
    name="share",
)


def test_the_return_of_a_year_counts_from_the_last_close_before_it() -> None:
    row = finance.holding_return(YEARS, "2011", "2011").loc["share"]
    assert row["return"] == pytest.approx(110 / 90 - 1)
    assert (row["base_date"], row["end_date"]) == (pd.Timestamp("2010-12-31"), pd.Timestamp("2011-12-30"))
    # From 31 December to 30 December are 364 days.
    assert row["cagr"] == pytest.approx((110 / 90) ** (365.25 / 364) - 1)


def test_the_first_close_in_the_window_is_the_base_when_it_is_asked_for() -> None:
    result = finance.holding_return(YEARS, "2011", "2011", base="first")
    assert result.loc["share", "return"] == pytest.approx(0.1)
    assert "from the first value in the window" in finance.convention(result)


def test_a_start_day_is_itself_the_base_and_one_without_a_value_counts_from_the_value_before() -> None:
    stated = finance.holding_return(YEARS, "2011-01-03", "2011")
    assert (stated.loc["share", "base_date"], stated.loc["share", "return"]) == (
        pd.Timestamp("2011-01-03"),
        pytest.approx(0.1),
    )
    assert "from the value of 2011-01-03" in finance.convention(stated)
    assert "2011-01-03的值为基准" in finance.convention(stated, "zh")
    holiday = finance.holding_return(YEARS, pd.Timestamp("2011-01-01"), "2011").loc["share"]
    assert holiday["base_date"] == pd.Timestamp("2010-12-31")
    before = finance.holding_return(YEARS, "2011-01-03", "2011", base="before").loc["share"]
    assert before["base_date"] == pd.Timestamp("2010-12-31")


def test_a_summary_and_a_portfolio_begin_on_the_stated_day() -> None:
    row = finance.summary(YEARS, "2011-01-03", "2011").loc["share"]
    assert (row["base_date"], row["return_pct"]) == (pd.Timestamp("2011-01-03"), pytest.approx(10))
    pair = YEARS.to_frame().assign(other=YEARS * 2)
    assert finance.portfolio(pair, [0.5, 0.5], start="2011-01-03").index[0] == pd.Timestamp("2011-01-03")
    assert finance.portfolio(pair, [0.5, 0.5], start="2011").index[0] == pd.Timestamp("2010-12-31")


def test_a_table_in_place_of_a_choice_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"every: must be one of week, month, quarter, year, not a Series"):
        finance.period_returns(YEARS, YEARS)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"base: must be 'auto', 'before' .* not 'last'"):
        finance.holding_return(YEARS, base="last")


def test_the_growth_of_bacons_portfolio_is_the_published_one() -> None:
    # M² of the book, 10.062 %, is the annual return scaled by the ratio of the deviations (PerformanceAnalytics,
    # MSquared); the book counts whole months, so that the two years are exactly two.
    bacon = make_bacon()
    total = finance.holding_return(bacon)["return"]
    annual = (1 + total) ** 0.5 - 1
    deviation = finance.volatility(bacon)
    assert annual["portfolio"] * deviation["benchmark"] / deviation["portfolio"] == pytest.approx(0.10062, abs=5e-6)


def test_period_returns_are_those_of_empyrical() -> None:
    wave = make_wave()["wave"]
    years = finance.period_returns(wave)["wave"]
    assert years.to_dict() == pytest.approx({"2018": 0.11210048624136126, "2019": 0.10539865548612481})
    months = finance.period_returns(wave, "month")["wave"]
    assert months.iloc[:3].tolist() == pytest.approx(
        [0.010961648050741957, 0.0014638094751457942, 0.027825414333471077]
    )


def test_period_returns_compound_to_the_return_of_the_whole() -> None:
    wave = make_wave()
    for every in ("week", "month", "quarter", "year"):
        whole = (1 + finance.period_returns(wave, every, "2018-06", "2019-05")).prod() - 1
        assert whole.to_dict() == pytest.approx(finance.holding_return(wave, "2018-06", "2019-05")["return"].to_dict())


def test_a_period_after_a_gap_has_no_return() -> None:
    # March is missing: neither it nor April has a value of the month before.
    months = pd.Series([1.0, 2.0, 3.0, 4.0], pd.to_datetime(["2020-01-31", "2020-02-29", "2020-04-30", "2020-05-31"]))
    found = finance.period_returns(months, "month")["value"]
    assert found.isna().tolist() == [False, False, True, True, False]


def test_years_have_no_monthly_returns() -> None:
    years = pd.Series([1.0, 2.0, 3.0], pd.to_datetime(["2018-12-31", "2019-12-31", "2020-12-31"]))
    with pytest.raises(InvalidArgument, match="every: value has 1 values a year"):
        finance.period_returns(years, "month")


def test_log_returns_add_up_to_the_log_of_the_whole() -> None:
    assert finance.returns(YEARS, "log")["share"].sum() == pytest.approx(np.log(66.55 / 90))


@pytest.mark.parametrize("unit", ["%", "% per annum", "percent", "percentage points", "fraction", "bps"])
def test_a_rate_has_no_return_and_the_refusal_says_what_to_use(unit: str) -> None:
    with pytest.raises(InvalidArgument, match=r"fedfunds is measured in .*use finance.changes\(\)"):
        finance.returns(make_rate([1.0, 1.5, 2.0], unit=unit))


def test_oil_in_barrels_a_day_is_no_rate_in_basis_points() -> None:
    # "bpd" begins as "bp" does.
    assert len(finance.returns(make_rate([1.0, 1.5, 2.0], unit="bpd"))) == 2


def test_values_below_zero_have_no_return_and_the_refusal_names_the_day() -> None:
    oil = pd.DataFrame({"date": ["2020-04-17", "2020-04-20", "2020-04-21"], "wti": [18.3, -37.6, 10.0]})
    with pytest.raises(InvalidArgument, match=r"data: wti is -37.6 on 2020-04-20"):
        finance.holding_return(oil)


def test_differences_of_a_rate_are_percentage_points() -> None:
    result = finance.changes(make_rate([1.0, 1.5, 1.25]))
    assert result["fedfunds"].tolist() == [0.5, -0.25]
    assert result.attrs["units"] == {"fedfunds": "percentage points"}


def test_what_is_known_of_a_sheet_decides_between_total_and_price_return() -> None:
    sheet = YEARS.to_frame("AAPL.close_adj")
    assert "only if they include them" in finance.convention(finance.returns(sheet))
    sheet.attrs["indicators"] = {"AAPL.close_adj": "close_adj"}
    assert "total return" in finance.convention(finance.returns(sheet))
    sheet.attrs["units"] = {"AAPL.close_adj": "points"}
    assert "price return (an index level, without dividends)" in finance.convention(finance.returns(sheet))
    assert "价格收益率" in finance.convention(finance.returns(sheet), "zh")


def test_growth_compares_with_the_same_month_of_the_year_before() -> None:
    index = pd.Series(np.arange(100.0, 125.0), pd.date_range("2018-01-01", periods=25, freq="MS"), name="cpi")
    found = finance.growth(index, 12)["cpi"]
    assert found.index[0] == pd.Timestamp("2019-01-31")
    assert found.iloc[0] == pytest.approx(112 / 100 - 1)
    quarterly = index.iloc[::3]
    assert finance.growth(quarterly, 3)["cpi"].iloc[0] == pytest.approx(0.03)
    with pytest.raises(InvalidArgument, match="months: must be a multiple of 3"):
        finance.growth(quarterly, 1)


def test_deflation_keeps_values_of_the_base_period_and_divides_by_inflation() -> None:
    prices = pd.Series([100.0, 100.0], pd.to_datetime(["2020-01-15", "2021-01-20"]), name="wage")
    index = pd.Series(np.linspace(100, 113, 14), pd.date_range("2020-01-01", periods=14, freq="MS"), name="cpi")
    real = finance.deflate(prices, index, base="2020-01")["wage"]
    assert real.tolist() == pytest.approx([100.0, 100 * 100 / 112])
    with pytest.raises(InvalidArgument, match="price_index: has no value for 2021-03; it covers 2020-01 to 2021-02"):
        finance.deflate(pd.Series([1.0], pd.to_datetime(["2021-03-01"])), index)


def test_a_price_in_another_currency_uses_the_last_rate_before_a_holiday_and_no_older_one() -> None:
    dollars = pd.Series([100.0, 110.0], pd.to_datetime(["2020-05-01", "2020-05-05"]), name="share")
    rate = pd.Series([1.10, 1.12, 1.25], pd.to_datetime(["2020-04-29", "2020-04-30", "2020-05-05"]), name="USD")
    euros = finance.convert(dollars, rate, "source per target", unit="EUR")
    assert euros["share"].tolist() == pytest.approx([100 / 1.12, 110 / 1.25])
    assert euros.attrs["units"] == {"share": "EUR"}
    late = pd.Series([1.0], pd.to_datetime(["2020-06-30"]))
    with pytest.raises(InvalidArgument, match="rate: has no value for 2020-06-30"):
        finance.convert(late, rate, "source per target")


def test_a_long_table_gets_a_column_per_entity() -> None:
    long = pd.DataFrame(
        {"date": ["2020-01-01", "2020-01-02"] * 2, "entity": list("AABB"), "close": [1.0, 2.0, 4.0, 5.0]}
    )
    assert finance.returns(long).iloc[0].to_dict() == {"A": 1.0, "B": 0.25}


def test_the_only_column_of_dates_may_be_called_anything() -> None:
    days = pd.to_datetime(["2020-01-01", "2020-01-02"])
    for dates in (days, [day.date() for day in days]):
        assert finance.returns(pd.DataFrame({"日期": dates, "a": [1.0, 2.0]})).index.tolist() == [days[1]]
    with pytest.raises(InvalidArgument, match="has neither dates"):
        finance.returns(pd.DataFrame({"from": days, "to": days, "a": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, 2], "data: must be a Series or a DataFrame, not list"),
        (pd.DataFrame({"date": ["2020-01-01"], "name": ["x"]}), r"data: has no column with numbers"),
        (pd.DataFrame({"a": [1.0, 2.0]}), "data: has neither dates as index nor a column 'date'"),
        (pd.DataFrame({"date": ["2020-01-01", "soon"], "a": [1.0, 2.0]}), "data: has 'soon' in place of a date"),
        (pd.DataFrame({"date": ["2020-01-01"] * 2, "a": [1.0, 2.0]}), "data: has 2020-01-01 more than once"),
        (pd.Series([1.0, np.inf], pd.to_datetime(["2020-01-01", "2020-01-02"])), "data: has infinite values"),
    ],
)  # fmt: skip
def test_what_is_no_series_is_refused_by_name(data: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        finance.returns(data)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("2030", None, r"start: share has no value in the window; it has values from 2010-12-31 to 2013-12-31"),
        ("2013", "2012", "start: 2013-01-01 is after the end, 2012-12-31"),
        ("last year", None, "start: 'last year' is no date"),
    ],
)  # fmt: skip
def test_a_window_that_cannot_be_is_refused_by_name(start: str, end: str | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        finance.holding_return(YEARS, start, end)


def test_a_result_prints_its_convention_and_keeps_it_when_rounded() -> None:
    rounded = finance.period_returns(YEARS).round(3)
    assert "Convention: simple return" in repr(rounded)
    assert "Convention: simple return" in repr(rounded.head(1))
    number = finance.volatility(YEARS)
    assert "Convention:" in repr(number)
    assert f"{number:.2f}" == f"{float(number):.2f}"


def test_what_is_computed_from_a_result_has_neither_its_convention_nor_its_unit() -> None:
    falls = finance.drawdown(YEARS)
    for computed in (falls * 100, falls.mul(100), falls["share"] * 100, falls.diff(), falls.cumsum(), falls.abs()):
        assert "Convention" not in repr(computed)
        assert computed.attrs == {}
    assert falls["share"].attrs["units"] == {"share": "fraction"}
