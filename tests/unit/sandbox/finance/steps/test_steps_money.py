"""Amounts, portfolios and constant prices, by hand."""

from __future__ import annotations

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.series import make_line, make_monthly, year

DAYS = ("2019-12-31", "2020-01-30", "2020-01-31", "2020-02-03", "2020-02-04")
A = make_line(dict(zip(DAYS, (10, 20, 20, 40, 40), strict=True)), name="a")
B = make_line(dict.fromkeys(DAYS, 10), name="b")
# Consumer prices that double.
INDEX = make_monthly([100, 100, 200], name="CPI")


def test_an_amount_grows_with_the_base_value_of_the_window() -> None:
    found = steps.grow(1000, steps.within(A, year("2020")))
    assert (found.value, str(found.first.date())) == (4000, "2019-12-31")


def test_a_portfolio_is_held_or_goes_back_to_its_weights() -> None:
    lines = (60, steps.within(A, year("2020")), 60, steps.within(B, year("2020")))
    held, monthly = steps.portfolio(*lines), steps.portfolio(*lines, "month")
    assert held.values.tolist() == pytest.approx([100, 150, 150, 250, 250])
    # After January half of 150 is in each: one half doubles.
    assert monthly.values.tolist() == pytest.approx([100, 150, 150, 225, 225])
    assert steps.ret(held).value == pytest.approx(150)
    assert "50.0% a, 50.0% b; bought and held" in held.notes[-1].english


def test_a_portfolio_needs_a_share_for_each_line() -> None:
    with pytest.raises(InvalidArgument, match="args: must be a share and a line for each part"):
        steps.portfolio(60, A, 40)


def test_a_line_in_prices_of_a_period_or_of_its_end() -> None:
    line = make_monthly([10, 10, 10, 10])
    # The index has no fourth month.
    assert steps.real(line, INDEX).values.tolist() == [20, 20, 10]
    early = steps.real(line, INDEX, year("2020-01"))
    assert early.values.tolist() == [10, 10, 5]
    assert early.notes[0][0].startswith("in prices of 2020-01: value times CPI of 2020-01")


def test_a_point_in_prices_of_a_period_needs_it() -> None:
    point = steps.last(make_monthly([10, 10, 10]))
    assert steps.real(point, INDEX, year("2020-01")).value == 5
    with pytest.raises(InvalidArgument, match="base: must be given for a point"):
        steps.real(point, INDEX)
    with pytest.raises(InvalidArgument, match="base: CPI has no value for 2030-12; it covers 2020-01 to 2020-03"):
        steps.real(point, INDEX, year("2030"))
