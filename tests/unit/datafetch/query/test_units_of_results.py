"""Units of computed columns: rates of change, formulas, and the conversions that are refused."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from fathom.core.errors import InvalidField
from fathom.domain import frames
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.formula_units import infer_unit
from fathom.services.datafetch.query.model import Filter, Query, Result, Transform

pytestmark = pytest.mark.asyncio(loop_scope="module")
START = date(2020, 1, 1)
UNITS = {"rate": "% (SA)", "other_rate": "% (NSA)", "money": "USD", "index": "2012=100"}


def read_units(result: Result) -> dict[str, str]:
    return {column.name: column.unit for sheet in result.sheets for column in sheet.columns if column.indicator}


def read_last(result: Result, column: str) -> float:
    return float(frames.from_arrow(result.sheets[0].arrow)[column].iloc[-1])


@pytest.mark.parametrize(("unit", "factor", "shown"), [("", 1, "fraction"), ("%", 100, "%"), ("bp", 10_000, "bp")])
async def test_growth_is_in_the_unit_that_its_column_says(engine: Engine, unit: str, factor: int, shown: str) -> None:
    query = Query(indicators=("cpiaucsl",), transform=Transform.YOY, unit=unit, start=START, end=date(2020, 12, 31))
    result = await engine.run_with_defaults(query, None)
    assert read_units(result) == {"US.cpiaucsl": shown}
    assert read_last(result, "US.cpiaucsl") == pytest.approx(0.01278 * factor, rel=0.001)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unit": "million USD"}, "typed.unit: the yoy change of consumer price index is a rate: give %, bp"),
        ({"currency": "EUR"}, "typed.currency: the yoy change of consumer price index is a rate, not an amount"),
    ],
)
async def test_growth_in_a_unit_that_no_rate_has_is_refused(engine: Engine, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidField, match=said):
        await engine.run_with_defaults(Query(indicators=("cpiaucsl",), transform=Transform.YOY, **wrong), None)


async def test_a_condition_on_growth_compares_in_the_unit_of_the_column(engine: Engine) -> None:
    condition = Filter("cpiaucsl", ">", 8.0)
    query = Query(indicators=("cpiaucsl",), transform=Transform.YOY, unit="%", start=START, filters=(condition,))
    result = await engine.run_with_defaults(query, None)
    assert frames.from_arrow(result.sheets[0].arrow)["US.cpiaucsl"].min() > 8


@pytest.mark.parametrize("text", ["gs10 - gs2", "gs10-gs2"])
async def test_a_difference_stands_beside_its_parts(engine: Engine, text: str) -> None:
    query = Query(indicators=("gs10", "gs2", text), start=START, end=date(2022, 9, 30))
    result = await engine.run_with_defaults(query, None)
    assert result.missing == ()
    assert read_units(result) == {"US.gs10": "% (NSA)", "US.gs2": "% (NSA)", f"US.{text}": "percentage points"}
    assert read_last(result, f"US.{text}") == pytest.approx(3.52 - 3.86)


@pytest.mark.parametrize(("text", "named"), [("gs10 - gs99", "gs99"), ("10-year nonsense", "10-year nonsense")])
async def test_what_a_difference_lacks_is_named(engine: Engine, text: str, named: str) -> None:
    result = await engine.run_with_defaults(Query(indicators=("gs2", text), start=START), None)
    assert [(item.subject, item.reason) for item in result.missing] == [(named, "UNKNOWN_INDICATOR")]


async def test_names_with_hyphens_are_no_formulas(engine: Engine) -> None:
    result = await engine.run_with_defaults(Query(indicators=("10-year Treasury yield",), start=START), None)
    assert list(read_units(result)) == ["US.gs10"]


async def test_the_last_rows_hold_the_latest_value_of_a_series_that_ends_earlier(engine: Engine) -> None:
    """The tolar left the ECB's rates in 2006."""
    result = await engine.run_with_defaults(Query(entities=("USD", "SIT"), indicators=("eur_rate",), tail=2), None)
    frame = frames.from_arrow(result.sheets[0].arrow).set_index("date")
    assert frame["SIT.eur_rate"].dropna().index.max().date() == date(2006, 12, 29)
    assert (len(frame), frame["SIT.eur_rate"].count()) == (4, 2)
    assert frame["USD.eur_rate"].tail(2).notna().all()


@pytest.mark.parametrize(
    ("formula", "unit"),
    [
        ("yoy(money)", "fraction"),
        ("100 * yoy(money)", "%"),
        ("100 * (money - money) / money", "%"),
        ("10000 * money / money", "bp"),
        ("money / money", ""),
        ("rate - other_rate", "percentage points"),
        ("100 * (rate - rate)", "bp"),
        ("rate + other_rate", "%"),
        ("change(rate)", "percentage points"),
        ("prev(money) - money", "USD"),
        ("money - index", ""),
        ("money * money", ""),
        ("money / 1000", ""),
        ("money / 0", ""),
        ("-money", "USD"),
        ("100 * money - 1", ""),
        ("2 * 3", ""),
    ],
)
async def test_the_unit_of_a_formula(formula: str, unit: str) -> None:
    assert infer_unit(formulas.parse(formula, "formula"), UNITS.__getitem__) == unit


async def test_no_unit_of_a_formula_contradicts_the_catalogue(engine: Engine) -> None:
    specs = engine.layer.indicators
    found = {
        spec.id: (infer_unit(formulas.parse(spec.formula, spec.id), lambda leaf: specs[leaf].unit), spec.unit)
        for spec in specs.values()
        if spec.formula
    }
    assert {ident: pair for ident, pair in found.items() if pair[0] not in ("", pair[1])} == {}
    assert sum(bool(inferred) for inferred, _ in found.values()) > len(found) / 2
