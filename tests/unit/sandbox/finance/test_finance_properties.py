"""Test what holds for every price series."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.sandbox.inside import finance

# Never below minus one half, so that sixty falls in a row still leave a positive price.
MOVES = st.lists(st.floats(-0.5, 0.5), min_size=5, max_size=60)


def make_prices(moves: list[float], name: str = "x") -> pd.Series:
    return pd.Series(100 * np.cumprod(1 + np.array(moves)), pd.bdate_range("2020-01-01", periods=len(moves)), name=name)


@given(MOVES)
def test_drawdowns_lie_between_a_whole_loss_and_none(moves: list[float]) -> None:
    falls = finance.drawdown(make_prices(moves))["x"]
    assert falls.between(-1, 0).all()
    assert finance.max_drawdown(make_prices(moves)).loc["x", "drawdown"] == falls.min()


@given(MOVES)
def test_volatility_is_not_negative(moves: list[float]) -> None:
    assert finance.volatility(make_prices(moves)) >= 0


@given(MOVES, MOVES)
def test_correlations_are_symmetric_and_lie_between_minus_one_and_one(one: list[float], other: list[float]) -> None:
    size = min(len(one), len(other))
    frame = pd.concat([make_prices(one[:size], "a"), make_prices(other[:size], "b")], axis=1)
    matrix = finance.correlation(frame).to_numpy()
    # A series that never moves correlates with nothing: NaN is the right answer.
    known = matrix[~np.isnan(matrix)]
    assert ((known >= -1) & (known <= 1)).all()
    assert np.array_equal(matrix, matrix.T, equal_nan=True)


@given(MOVES, st.integers(0, 59), st.integers(0, 59))
def test_every_date_of_a_result_lies_inside_its_window(moves: list[float], first: int, last: int) -> None:
    prices = make_prices(moves)
    first, last = sorted((first % len(prices), last % len(prices)))
    start, end = prices.index[first], prices.index[last]
    if last > first:
        row = finance.holding_return(prices, start, end).loc["x"]
        assert row["end_date"] == end
        assert row["base_date"] <= start
    falls = finance.drawdown(prices, start, end)
    assert (falls.index[0], falls.index[-1]) == (start, end)


@given(MOVES, st.floats(0.1, 1000))
def test_the_unit_of_money_changes_no_measure(moves: list[float], scale: float) -> None:
    prices = make_prices(moves)
    assert np.allclose(finance.drawdown(prices), finance.drawdown(prices * scale))
    assert np.isclose(finance.volatility(prices), finance.volatility(prices * scale))


@given(MOVES, st.integers(0, 100))
def test_a_portfolio_lies_between_its_best_and_its_worst_part(moves: list[float], percent: int) -> None:
    frame = pd.concat([make_prices(moves, "a"), make_prices(moves[::-1], "b")], axis=1)
    held = finance.portfolio(frame, [percent / 100, 1 - percent / 100])["portfolio"] / 100
    parts = frame / frame.iloc[0]
    assert (held <= parts.max(axis=1) + 1e-9).all()
    assert (held >= parts.min(axis=1) - 1e-9).all()
