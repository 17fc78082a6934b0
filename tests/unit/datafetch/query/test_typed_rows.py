"""Rows and units of typed queries."""

from __future__ import annotations

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain import frames
from fathom.services.datafetch.convert import query_from_proto, query_to_proto
from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def list_years(engine: Engine, **asked: object) -> list[int]:
    typed = pb.TypedQuery(indicators=["unrate"], limit=3, **asked)  # type: ignore[arg-type]
    result = await engine.run(query_from_proto(typed), None)
    return [day.year for day in frames.from_arrow(result.sheets[0].arrow)["date"]]


@pytest.mark.parametrize("filters", [[], [pb.ValueFilter(indicator="unrate", operator=">", value=1)]])
async def test_a_limit_without_an_order_gives_the_latest_rows(engine: Engine, filters: list[pb.ValueFilter]) -> None:
    assert await list_years(engine, filters=filters) == [2022] * 3
    assert await list_years(engine, order_by="date", descending=True) == [2022] * 3
    assert await list_years(engine, order_by="date") == [1948] * 3


async def test_the_first_rows_of_a_question_stay_the_first_as_a_typed_query(engine: Engine) -> None:
    query = (await engine.read("unemployment rate at the start of 1980", None)).query
    assert query.limit == 1
    assert query_from_proto(query_to_proto(query)).limit == 1


async def test_the_change_of_a_rate_is_in_percentage_points(engine: Engine) -> None:
    typed = pb.TypedQuery(indicators=["gs10"], transform=pb.TRANSFORM_CHANGE, start_date="2020-01-01")
    result = await engine.run(query_from_proto(typed), None)
    assert result.sheets[0].columns[1].unit == "percentage points"
