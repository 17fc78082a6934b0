"""Statements of the compiler in other dialects: each parses there, with its parameters, and without what is DuckDB's."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Combination, Filter, Frequency, Query, Statistic, Transform
from fathom.services.datafetch.warehouse.dialects import DIALECTS, number_parameters, translate

pytestmark = pytest.mark.asyncio(loop_scope="module")

YEARS: dict[str, Any] = {"start": date(2015, 1, 1), "end": date(2020, 12, 31)}
PRICES: dict[str, Any] = {"entities": ("AAPL", "MSFT"), "indicators": ("close_adj",)}
QUERIES = {
    "series": Query(**PRICES, **YEARS),
    "statistics": Query(**PRICES, **YEARS, statistics=tuple(one for one in Statistic if one != Statistic.COUNT)),
    "groups": Query(**PRICES, **YEARS, statistics=(Statistic.CAGR,), every=Frequency.ANNUAL, outer=Statistic.MAX),
    "spine and lag": Query(("US",), ("cpiaucsl",), **YEARS, transform=Transform.YOY),
    "resampled": Query(("US",), ("cpiaucsl",), **YEARS, frequency=Frequency.QUARTERLY),
    "currency": Query(("AAPL",), ("close_adj",), **YEARS, currency="CNY"),
    "ratio": Query(**PRICES, **YEARS, combination=Combination.RATIO, filters=(Filter("close_adj", ">", 1.0),)),
    "before": Query(("US",), ("unrate",), **YEARS, previous=True),
    "ranked": Query(kind="stock", indicators=("close_adj",), **YEARS, order="close_adj", descending=True, limit=7),
}
# What one of the dialects does not know.
FOREIGN = {
    "postgres": ("asof", "qualify", "arg_max", "any_value", "last_day", "ignore nulls", "try_cast", "unnest"),
    "trino": ("asof", "qualify", "arg_max", "generate_series", "preceding", "::"),
    "clickhouse": ("asof", "arg_max", "generate_series", "preceding", "values", "unnest"),
}


async def list_statements(engine: Engine, query: Query, patch: pytest.MonkeyPatch) -> list[tuple[str, list[Any]]]:
    """Return the statements that a query runs."""
    seen: list[tuple[str, list[Any]]] = []
    fetch = engine.warehouse.fetch

    async def record(statement: str, parameters: list[Any], *others: Any) -> Any:
        seen.append((statement, list(parameters)))
        return await fetch(statement, parameters, *others)

    with patch.context() as local:
        local.setattr(engine.warehouse, "fetch", record)
        await engine.run(query, date(2019, 6, 30))
    return seen


@pytest.mark.parametrize("name", QUERIES)
async def test_a_statement_parses_in_every_dialect(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    statements = await list_statements(engine, QUERIES[name], monkeypatch)
    assert statements
    for statement, parameters in statements:
        for dialect in DIALECTS:
            made = translate(statement, parameters, dialect)
            assert not list(sqlglot.parse_one(made.sql, read=dialect).find_all(exp.Command))
            assert set(made.order) == set(range(len(parameters)))
            text = made.sql.lower()
            assert not [word for word in FOREIGN[dialect] if word in text]


async def test_a_question_mark_in_a_text_is_no_parameter() -> None:
    assert number_parameters("select '?' as a, \"b?\" from t where c = ? and d = ?") == (
        "select '?' as a, \"b?\" from t where c = $1 and d = $2"
    )


async def test_long_names_are_cut_apart_and_told() -> None:
    first, second = "a" * 70 + "1", "a" * 70 + "2"
    made = translate(f'select 1 as "{first}", 2 as "{second}"', [], "postgres")
    assert set(made.names.values()) == {first, second}
    assert all(len(short) <= 63 for short in made.names)


@pytest.mark.parametrize(("value", "kind"), [("AAPL", "String"), (date(2020, 1, 1), "Date32"), (12, "Int32")])
async def test_parameters_of_clickhouse_have_types(value: object, kind: str) -> None:
    made = translate("select a from t where b = ?", [value], "clickhouse")
    assert f"{{p1: Nullable({kind})}}" in made.sql


async def test_parameters_by_place_are_in_the_order_of_the_text() -> None:
    statement = "select ? as a from t where b = ? qualify row_number() over (partition by c order by d) = 1"
    made = translate(statement, ["x", "y"], "trino")
    assert made.sql.count("?") == len(made.order) == 2
    assert [("x", "y")[number] for number in made.order] == ["x", "y"]
