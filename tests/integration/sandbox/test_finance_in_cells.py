"""The library ``finance`` inside real workers: there without a cost to a cell, its refusals and its figures."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from fathom.services.sandbox.supervisor.events import Display, Status
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import join_output, run, sheet

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRICES = pd.DataFrame(
    {
        "date": pd.to_datetime(["2020-01-31", "2020-02-28", "2020-03-31", "2020-04-30"]),
        "AAPL.close_adj": [100.0, 120.0, 90.0, 130.0],
    }
)


async def test_a_cell_measures_a_sheet_and_prints_the_convention(session: Session) -> None:
    await session.inject("sheet_1", sheet(PRICES))
    events, outcome = await run(session, "import finance\nworst = finance.max_drawdown(sheet_1)\nprint(worst)")
    assert outcome.status is Status.OK
    assert "-0.25 2020-02-28 2020-03-31 2020-04-30" in join_output(events)
    assert "Convention: deepest fall from the highest value so far" in join_output(events)
    assert [(item.name, item.type) for item in outcome.changed] == [("worst", "Table")]


async def test_a_refusal_names_the_argument_and_the_line_of_the_cell(session: Session) -> None:
    await session.inject("sheet_1", sheet(PRICES))
    _, outcome = await run(session, "prices = sheet_1\nfinance.sharpe(prices, 2)")
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "InvalidArgument")
    assert outcome.error_value.startswith("risk_free_unit: must be '%' or 'fraction'")
    assert '<cell 1>", line 2' in outcome.traceback
    assert "risk.py" not in outcome.traceback


async def test_a_sheet_brings_its_units_so_that_a_rate_has_no_return(session: Session) -> None:
    facts = {"units": {"US.fedfunds": "%"}, "indicators": {"US.fedfunds": "fedfunds"}}
    rate = PRICES.rename(columns={"AAPL.close_adj": "US.fedfunds"})
    await session.inject("sheet_1", sheet(rate), facts=facts, lazy=True)
    _, outcome = await run(session, "finance.returns(sheet_1)")
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "InvalidArgument")
    assert "changes" in outcome.error_value
    _, outcome = await run(session, "sheet_1.attrs['units'], (sheet_1[['US.fedfunds']] * 100).attrs")
    assert outcome.result == "({'US.fedfunds': '%'}, {})"


async def test_a_chart_is_shown_as_a_figure(session: Session) -> None:
    await session.inject("sheet_1", sheet(PRICES))
    events, outcome = await run(session, "finance.chart(sheet_1, 'drawdown', language='zh')")
    assert outcome.status is Status.OK
    [display] = [event for event in events if isinstance(event, Display)]
    assert "回撤" in json.loads(display.data)["layout"]["title"]["text"]


async def test_the_library_is_loaded_before_the_session_begins(session: Session) -> None:
    code = "import sys\nbefore = set(sys.modules)\nimport finance\nfinance.chart(finance.drawdown(prices) * 100 + 101, 'correlation')\nlen(set(sys.modules) - before)"
    await session.inject("sheet_1", sheet(PRICES.assign(two=[1.0, 2.0, 4.0, 3.0])))
    _, outcome = await run(session, "prices = sheet_1\n" + code)
    assert (outcome.status, outcome.result) == (Status.OK, "0")


async def test_a_result_as_last_expression_is_a_table_with_units_and_its_convention_is_read(session: Session) -> None:
    await session.inject("sheet_1", sheet(PRICES))
    events, outcome = await run(session, "finance.max_drawdown(sheet_1)")
    [display] = [event for event in events if isinstance(event, Display)]
    assert json.loads(display.data)["units"] == {"drawdown": "fraction"}
    assert "Convention: deepest fall" in outcome.result


async def test_a_cell_calculates_in_steps_and_shows_them_as_json(session: Session) -> None:
    await session.inject("sheet_1", sheet(PRICES))
    code = """
from finance.steps import *
x = line(sheet_1, "AAPL.close_adj", "Apple")
_1 = ret(within(x, period("2020-02", "2020-04")))
show(1, _1)
show(2, first_if(x, "above", 500))
"""
    events, outcome = await run(session, code)
    assert outcome.status is Status.OK, outcome.error_value
    found = [json.loads(text) for text in join_output(events).splitlines()]
    assert [one["value"] for one in found] == [pytest.approx(130 / 120 * 100 - 100), None]
    assert found[0]["convention_zh"]
    _, outcome = await run(session, "finance.steps.ret(finance.steps.within(x, finance.steps.period('2030', '2030')))")
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "InvalidArgument")
    assert "it has values from 2020-01-31 to 2020-04-30" in outcome.error_value
