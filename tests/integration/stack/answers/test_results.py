"""Tables and charts of an answer by the reference policy: those of what the question computes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.services.local import Endpoints
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.timeout(120)]
Stack = tuple[Endpoints, Clients]


async def ask(question: str, stack: Stack) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the answer's text, the sheets that it places, and its only figure."""
    endpoints, clients = stack
    events = [event async for event in run(clients, pb.RunRequest(question=question))]
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    text = finished.answer.markdown
    placed = [item for item in finished.material if item.variable and f"{{{{table:{item.variable}}}}}" in text]
    [figure] = [figure for item in finished.material if item.HasField("code") for figure in item.code.figures]
    assert f"{{{{figure:{figure.id}}}}}" in text
    store = open_store(endpoints.store)
    drawn = json.loads(await read_ref(store, figure.ref))
    await store.close()
    return text, placed, drawn


async def test_a_ranking_is_a_table_with_a_bar_for_each_member(stack: Stack) -> None:
    _, [placed], figure = await ask("Rank the big banks by their return in 2021", stack)
    assert placed.computed_by
    assert [column.name for column in placed.sheet.columns] == ["name", "value", "day"]
    [bars] = figure["data"]
    assert (bars["type"], bars["orientation"], len(bars["y"])) == ("bar", "h", placed.sheet.rows)
    assert figure["layout"]["xaxis"]["title"]["text"] == "%"


async def test_monthly_returns_are_twelve_rows_and_twelve_columns(stack: Stack) -> None:
    _, [placed], figure = await ask("苹果2019年各月收益率", stack)
    assert (placed.sheet.rows, placed.sheet.columns[1].unit) == (12, "%")
    [bars] = figure["data"]
    assert (bars["type"], bars["x"][0], bars["x"][-1]) == ("bar", "2019-01", "2019-12")


async def test_a_portfolio_has_a_drawdown_of_its_own(stack: Stack) -> None:
    question = "What was the maximum drawdown of a portfolio of 60% Apple and 40% Microsoft from 2015 to 2020?"
    text, [placed], figure = await ask(question, stack)
    assert [column.name for column in placed.sheet.columns] == ["date", "portfolio"]
    [curve] = figure["data"]
    assert curve["name"] == "portfolio"
    assert "drawdown" in figure["layout"]["yaxis"]["title"]["text"]
    # The inputs are among the sources.
    assert "Data as of" in text
