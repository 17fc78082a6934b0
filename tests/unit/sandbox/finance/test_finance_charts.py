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
    assert label(figure, "yaxis") == "drawdown from the highest value so far, %"


def test_rebased_prices_begin_at_100_on_the_first_common_date() -> None:
    wave = make_wave()
    wave.iloc[:3, 1] = np.nan
    figure = finance.chart(wave, "rebased")
    assert [trace.y[0] for trace in figure.data] == [100.0, 100.0]
    assert figure.data[0].x[0] == np.datetime64("2018-01-04")


def test_rates_are_never_rebased() -> None:
    with pytest.raises(InvalidArgument, match="'rebased' is for prices and indices, and fedfunds is in %"):
        finance.chart(make_rate([1.0, 2.0, 3.0]), "rebased")


def test_what_crosses_zero_is_never_rebased() -> None:
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
    assert label(figure, "xaxis") == "wave: simple returns"


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
        finance.chart("rebased", make_wave())
    with pytest.raises(InvalidArgument, match=r"measure: must be one of levels, .* not a DataFrame"):
        finance.chart(make_wave(), make_wave())
