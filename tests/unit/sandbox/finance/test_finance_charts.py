"""Charts show the measure that was asked for."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance.charts import MEASURES
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.published import make_rate, make_wave


def label(figure: object, axis: str) -> str:
    return str(figure["layout"][axis]["title"]["text"])  # type: ignore[index]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_chart_has_a_title_data_and_valid_json(measure: str, language: str) -> None:
    figure = finance.chart(make_wave(), measure, language=language)
    content = json.loads(figure.to_json())
    assert content["data"]
    assert "2018-01-01" in content["layout"]["title"]["text"]


def test_a_chart_of_the_drawdown_shows_the_drawdown_in_percent() -> None:
    wave = make_wave()
    figure = finance.chart(wave[["wave"]], "drawdown")
    assert np.array(figure.data[0].y) == pytest.approx(finance.drawdown(wave)["wave"].to_numpy() * 100)
    assert label(figure, "yaxis") == "drawdown, %"


def test_rebased_prices_begin_at_100_on_the_first_common_date() -> None:
    wave = make_wave()
    # The second series begins on the fourth day: rebased on dates of their own, the two could not be compared.
    wave.iloc[:3, 1] = np.nan
    figure = finance.chart(wave, "rebased")
    assert [trace.y[0] for trace in figure.data] == [100.0, 100.0]
    assert figure.data[0].x[0] == np.datetime64("2018-01-04")


def test_rates_are_never_rebased() -> None:
    with pytest.raises(InvalidArgument, match="'rebased' is for prices and indices, and fedfunds is in %"):
        finance.chart(make_rate([1.0, 2.0, 3.0]), "rebased")


def test_what_crosses_zero_is_never_rebased() -> None:
    # WTI was really below zero on 20 April 2020.
    oil = pd.Series([18.0, -37.0, 10.0], pd.date_range("2020-04-17", periods=3), name="wti")
    with pytest.raises(InvalidArgument, match="wti is not always above 0"):
        finance.chart(oil, "rebased")


def test_levels_of_two_units_get_a_panel_each() -> None:
    table = make_rate([1.0, 2.0, 3.0]).assign(share=[10.0, 11.0, 12.0])
    table.attrs["units"] = {"fedfunds": "%", "share": "USD"}
    figure = finance.chart(table)
    assert (label(figure, "yaxis"), label(figure, "yaxis2")) == ("%", "USD")
    assert list(figure.data[0].y) == [1.0, 2.0, 3.0]


def test_a_scatter_names_slope_and_fit_of_the_regression() -> None:
    wave = make_wave()
    fit = finance.beta(wave[["market"]], wave["wave"]).loc["market"]
    figure = finance.chart(wave, "scatter")
    assert figure.data[1].name == f"fit: slope {fit['beta']:.3g}, R² {fit['r2']:.3f}"
    assert label(figure, "xaxis") == "wave, %"


def test_bars_are_the_returns_of_the_periods() -> None:
    figure = finance.chart(make_wave()[["wave"]], "bars", every="year")
    assert list(figure.data[0].x) == ["2018", "2019"]
    assert list(figure.data[0].y) == pytest.approx([11.210048624136126, 10.539865548612481])


@pytest.mark.parametrize("measure", ["spread", "scatter", "rolling correlation"])
def test_a_chart_of_a_pair_refuses_one_series(measure: str) -> None:
    with pytest.raises(InvalidArgument, match="data: has 1 series"):
        finance.chart(make_wave()[["wave"]], measure)


def test_an_unknown_measure_is_named_with_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match="measure: must be one of levels, rebased"):
        finance.chart(make_wave(), "pie")


def test_a_chart_whose_arguments_are_swapped_says_their_order() -> None:
    with pytest.raises(InvalidArgument, match=r"data: comes first and is a table, as in chart\(sheet_1, 'rebased'\)"):
        finance.chart("rebased", make_wave())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"measure: must be one of levels, .* not a DataFrame"):
        finance.chart(make_wave(), make_wave())  # type: ignore[arg-type]


def test_series_of_one_indicator_are_named_by_their_entities() -> None:
    table = make_wave().rename(columns={"wave": "AAPL.close_adj", "market": "MSFT.close_adj"})
    table.attrs["indicators"] = {"AAPL.close_adj": "close_adj", "MSFT.close_adj": "close_adj"}
    figure = finance.chart(table)
    assert [trace.name for trace in figure.data] == ["AAPL", "MSFT"]
    assert figure.layout.title.text.startswith("AAPL, MSFT (close_adj): levels, ")


def test_a_title_shortens_long_names_and_counts_further_ones() -> None:
    wave = make_wave()["wave"]
    table = pd.DataFrame({name: wave for name in ("n" * 60, "b", "c", "d", "e")})
    assert finance.chart(table).layout.title.text.startswith(f"{'n' * 39}…, b, c and 2 more: levels")
    assert "b、c等5项：" not in finance.chart(table, language="zh").layout.title.text
    assert "b、c等5项" in finance.chart(table, language="zh").layout.title.text
    assert finance.chart(table).data[0].name == "n" * 60


def test_more_lines_than_colours_differ_by_their_stroke() -> None:
    wave = make_wave()["wave"]
    figure = finance.chart(pd.DataFrame({str(number): wave for number in range(8)}))
    # There are six colours.
    assert [trace.line.dash for trace in figure.data] == ["solid"] * 6 + ["dash"] * 2


def test_few_dates_are_marked_so_that_a_single_value_is_seen() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, None]}, index=pd.to_datetime(["2020-01-01", "2020-02-01"]))
    assert [trace.mode for trace in finance.chart(table).data] == ["lines+markers"] * 2
    assert finance.chart(make_wave()).data[0].mode == "lines"


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("rebased", "each value over that of 2018-01-01, times 100; return of the values as given"),
        ("drawdown", "fall from the highest value since 2018-01-01"),
        ("volatility", "standard deviation of the last 60 simple returns times the root of 252 periods a year"),
        ("correlation", "Pearson correlation of simple returns on 521 common dates"),
        ("bars", "each year from the last value of the year before"),
    ],
)
def test_a_note_says_how_the_measure_was_computed(measure: str, words: str) -> None:
    assert finance.chart(make_wave(), measure).layout.meta["note"].startswith(words)


def test_values_far_apart_come_with_a_hint_and_a_log_axis_on_request() -> None:
    # Six doublings: on a plain axis the first half is a line along the bottom.
    steep = pd.Series(np.geomspace(1, 64, 50), pd.date_range("2000-01-31", periods=50, freq="ME"), name="steep")
    assert "a factor of 64: on a log scale" in finance.chart(steep).layout.meta["note"]
    figure = finance.chart(steep, log=True)
    assert (figure.layout.yaxis.type, label(figure, "yaxis")) == ("log", "value (log scale)")
    assert figure.layout.meta["note"] == ""


def test_rates_get_no_hint_of_a_log_scale() -> None:
    meta = finance.chart(make_rate([0.05, 2.0, 5.0])).layout.meta
    assert meta == {"note": "", "log": False}


def test_annual_values_stand_at_the_names_of_their_years() -> None:
    years = pd.Series([1.0, 2.0, 3.0], pd.to_datetime(["2018-12-31", "2019-12-31", "2020-12-31"]), name="oil")
    axis = finance.chart(years).layout.xaxis
    assert (axis.tickvals[0], axis.ticktext[0]) == (pd.Timestamp("2018-12-31"), "2018")
    assert finance.chart(make_wave()).layout.xaxis.ticktext is None


def test_a_log_axis_is_refused_for_values_that_have_none() -> None:
    oil = pd.Series([18.0, -37.0, 10.0], pd.date_range("2020-04-17", periods=3), name="wti")
    with pytest.raises(InvalidArgument, match="log: needs values above 0, and wti is not always"):
        finance.chart(oil, log=True)
    with pytest.raises(InvalidArgument, match="log: is for levels and rebased, not for bars"):
        finance.chart(make_wave(), "bars", log=True)


def test_moves_have_their_units_returns_in_percent_and_rates_in_points() -> None:
    wave = finance.chart(make_wave(), "histogram")
    assert label(wave, "xaxis") == "simple returns, %"
    assert np.abs(wave.data[0].x).max() > 0.1
    assert label(finance.chart(make_rate([1.0, 2.0, 1.5]), "histogram"), "xaxis") == "differences, percentage points"
    assert label(finance.chart(make_rate([1.0, 2.0, 1.5]), "histogram", language="zh"), "xaxis") == "差分（百分点）"


def test_a_heat_map_begins_with_the_first_series_at_the_top() -> None:
    assert finance.chart(make_wave(), "correlation").layout.yaxis.autorange == "reversed"


def test_values_by_name_are_bars_in_the_order_of_the_table_and_one_name_twice_is_two_bars() -> None:
    table = pd.DataFrame({"name": ["Alpha", "Beta", "Alpha"], "value": [3.0, -1.0, 2.0], "day": ["2020-12-31"] * 3})
    table.attrs = {"units": {"value": "%"}}
    figure = finance.chart(table, "columns", "Returns")
    [bars] = figure.data
    assert (list(bars.y), list(bars.x), bars.orientation) == (["Alpha", "Beta", "Alpha (2)"], [3.0, -1.0, 2.0], "h")
    assert (figure.layout.xaxis.title.text, figure.layout.title.text) == ("%", "Returns")


@pytest.mark.parametrize(("freq", "days"), [("ME", ["2020-01", "2020-02"]), ("YE", ["2020", "2021"])])
def test_dated_values_are_columns_named_by_what_they_stand_for(freq: str, days: list[str]) -> None:
    table = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=2, freq=freq), "Alpha": [3.0, -1.0]})
    table.attrs = {"units": {"Alpha": "%"}}
    figure = finance.chart(table, "columns")
    [bars] = figure.data
    assert (list(bars.x), list(bars.y), figure.layout.yaxis.title.text) == (days, [3.0, -1.0], "%")


def test_columns_of_two_units_are_refused() -> None:
    table = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=2), "a": [3.0, 1.0], "b": [1.0, 2.0]})
    table.attrs = {"units": {"a": "%", "b": "USD"}}
    with pytest.raises(finance.InvalidArgument, match="data: has values in %, USD"):
        finance.chart(table, "columns")
