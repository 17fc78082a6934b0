"""The example analyses of rows R24 and R33, end to end: real services and data; the model says what a script says.

The script stands for a model at the network edge (an OpenAI-compatible endpoint on loopback). What it writes is
code; what the code finds is compared with a calculation of this test's own on the same table.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fathom import frames
from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import connect
from fathom.clients.runs import run
from fathom.codestyle import check
from fathom.store import open_store
from fathom.store.refs import read_ref
from services.local import LocalSettings, LocalStack
from tests.integration.stack.conftest import prepare

Line = tuple[str, dict[str, Any]]

TOP_THREE = """
def highest_days(sheet, column, count):
    \"\"\"The days with the highest values, and how far apart they lie.\"\"\"
    best = sheet.dropna(subset=[column]).nlargest(count, column).sort_values("date")
    days = to_date(best["date"])
    gaps = days.diff().dt.days.dropna().astype(int).tolist()
    return {"days": [str(day.date()) for day in days], "values": best[column].tolist(), "gaps": gaps}

import json
print(json.dumps(highest_days(sheet_1, "AAPL.close_adj", 3)))
"""
GROWTH = """
import plotly.graph_objects as go

def growth_chart(sheet, column):
    \"\"\"Growth of 100 and the price itself over the whole period, on two axes.\"\"\"
    rows = sheet.dropna(subset=[column])
    dates, price = to_date(rows["date"]), rows[column]
    figure = go.Figure()
    figure.add_scatter(x=dates, y=price / price.iloc[0] * 100, name="growth of 100")
    figure.add_scatter(x=dates, y=price, name="price", yaxis="y2")
    figure.update_layout(title="Apple, five years", yaxis2={"overlaying": "y", "side": "right"})
    return figure

fig = growth_chart(sheet_1, "AAPL.close_adj")
fig.show()
"""
SWEEP = """
import json
import numpy as np
import plotly.graph_objects as go

def best_moving_averages(sheet, columns, fee):
    \"\"\"All fast and slow windows over equally weighted names; signals act one bar later, each turn costs a fee.\"\"\"
    prices = sheet.set_index(to_date(sheet["date"]))[columns].dropna()
    returns = prices.pct_change().fillna(0.0)
    results, curves = {}, {}
    for fast in range(2, 11):
        for slow in range(fast + 3, 41, 3):
            signal = (prices.rolling(fast).mean() > prices.rolling(slow).mean()).astype(float)
            held = signal.shift(1).fillna(0.0)
            daily = (held * returns - held.diff().abs().fillna(0.0) * fee).mean(axis=1)
            curve = (1 + daily).cumprod()
            results[fast, slow], curves[fast, slow] = float(curve.iloc[-1] - 1), curve
    pair = max(results, key=results.get)
    hold = (1 + returns.mean(axis=1)).cumprod()
    figure = go.Figure()
    figure.add_scatter(x=prices.index, y=curves[pair], name=f"moving averages {pair}")
    figure.add_scatter(x=prices.index, y=hold, name="buy and hold")
    figure.update_layout(title="Equity curves")
    figure.show()
    return {"pair": list(pair), "return": results[pair], "hold": float(hold.iloc[-1] - 1), "tried": len(results)}

print(json.dumps(best_moving_averages(sheet_1, ["AAPL.close_adj", "AMD.close_adj", "MSFT.close_adj"], 0.0005)))
"""
PATTERN_ANSWER = "The three highest closes lie close together [1][2]: see {{table:sheet_1}} and {{figure:fig_1}} [3]."
SWEEP_ANSWER = (
    "The best pair of windows earned more than buy and hold [2]; the equity curves are in {{figure:fig_1}}."
    " The pair was chosen after the fact among many: it is fitted to these three months, and says little of the next [2]."
)
SCRIPTS: dict[str, list[Line]] = {
    "highest share price": [
        (
            "data",
            {
                "intent": "Get the prices",
                "entities": ["AAPL"],
                "indicators": ["close_adj"],
                "start_date": "2015-01-01",
                "end_date": "2019-12-31",
            },
        ),
        ("python", {"intent": "Find the days", "code": TOP_THREE}),
        ("python", {"intent": "Draw the growth", "code": GROWTH}),
        ("finish", {"intent": "Answer", "answer": PATTERN_ANSWER}),
    ],
    "moving-average": [
        (
            "data",
            {
                "intent": "Get the prices",
                "entities": ["AAPL", "AMD", "MSFT"],
                "indicators": ["close_adj"],
                "start_date": "2022-06-01",
                "end_date": "2022-12-28",
            },
        ),
        ("python", {"intent": "Sweep the windows", "code": SWEEP}),
        ("finish", {"intent": "Answer", "answer": SWEEP_ANSWER}),
    ],
}


@asynccontextmanager
async def scripted() -> AsyncIterator[str]:
    """A chat endpoint that says the next line of the script whose key is in the question; gives its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        body = json.loads(await reader.readexactly(int(size.group(1)))) if size else {}
        name, arguments = line(body["messages"])
        call = {"name": name, "arguments": json.dumps(arguments)}
        delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": call}]}
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for chunk in (
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {**base, "choices": [], "usage": usage},
        ):
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def line(messages: Sequence[dict[str, Any]]) -> Line:
    """The script's line after as many turns as the model has had."""
    question = next(str(message["content"]) for message in messages if message["role"] == "user")
    script = next(lines for key, lines in SCRIPTS.items() if key in question)
    return script[sum(message["role"] == "assistant" for message in messages)]


@asynccontextmanager
async def answered(question: str, home: Path) -> AsyncIterator[tuple[trajectory.FinalAnswer, dict[str, Any]]]:
    """The answer of a whole stack, with its sheets as frames, its code records and its figures as JSON."""
    async with scripted() as address:
        model = {"engine": "openai", "model": "scripted", "base_url": address, "api_key_env": ""}
        settings = LocalSettings(home=home, gateway_port=0, models={"rules": model})
        async with LocalStack(settings).running() as endpoints:
            clients, store = connect(endpoints.services), open_store(endpoints.store)
            events = [event async for event in run(clients, pb.RunRequest(question=question))]
            finished = events[-1].finished
            assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error

            async def read(ref: ObjectRef) -> bytes:
                return await read_ref(store, ref)

            sheets = {m.variable: m.sheet for m in finished.material if m.HasField("sheet")}
            codes = [m.code for m in finished.material if m.HasField("code")]
            found = {
                "sheets": {
                    name: frames.to_frame(frames.read_table(await read(s.data), name)) for name, s in sheets.items()
                },
                "codes": codes,
                "figures": [json.loads(await read(f.ref)) for code in codes for f in code.figures],
            }
            yield finished.answer, found
            await clients.close()
            await store.close()


async def test_highest_days_and_a_five_year_curve(tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> None:
    """Row R24: both analyses on bundled data, the second with a figure of at least 1,200 points."""
    question = "Is there a pattern in the three days with the highest share price of Apple? Draw its five-year growth."
    async with answered(question, prepare(tmp_path / "home", tables_dir, corpus_dir)) as (answer, found):
        assert all(code.ok for code in found["codes"]), [code.traceback for code in found["codes"]]
        assert all(check(code.code).ok for code in found["codes"])
        said = json.loads(found["codes"][0].stdout)
        sheet = found["sheets"]["sheet_1"]
        best = sheet.nlargest(3, "AAPL.close_adj").sort_values("date")
        assert said["days"] == [str(pd.Timestamp(day).date()) for day in best["date"]]
        assert said["values"] == best["AAPL.close_adj"].tolist()
        traces = found["figures"][0]["data"]
        assert [trace["name"] for trace in traces] == ["growth of 100", "price"]
        assert min(points(trace) for trace in traces) >= 1_200
        assert not answer.unresolved
        assert "{{figure:fig_1}}" in answer.markdown


def points(trace: dict[str, Any]) -> int:
    """Number of values of a trace, which plotly may have packed."""
    values = trace["y"]
    if isinstance(values, dict):
        import base64

        return len(base64.b64decode(values["bdata"])) // np.dtype(values["dtype"]).itemsize
    return len(values)


async def test_the_best_moving_averages(tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> None:
    """Row R33, on an embedded price panel of three technology shares: equal to a reference to 1e-9."""
    question = "What would the best dual moving-average rule have earned on the three technology giants?"
    async with answered(question, prepare(tmp_path / "home", tables_dir, corpus_dir)) as (answer, found):
        record = found["codes"][0]
        assert record.ok, record.traceback
        said = json.loads(record.stdout)
        wanted = reference(found["sheets"]["sheet_1"], 0.0005)
        assert tuple(said["pair"]) == max(wanted, key=lambda pair: wanted[pair])
        assert said["return"] == pytest.approx(max(wanted.values()), abs=1e-9)
        assert said["tried"] == len(wanted)
        names = [trace["name"] for trace in found["figures"][0]["data"]]
        assert names[0].startswith("moving averages")
        assert names[1] == "buy and hold"
        assert "fitted" in answer.markdown
        assert not answer.unresolved


def reference(sheet: pd.DataFrame, fee: float) -> dict[tuple[int, int], float]:
    """Return of every pair of windows, by plain array arithmetic instead of pandas' rolling windows."""
    prices = sheet[["AAPL.close_adj", "AMD.close_adj", "MSFT.close_adj"]].dropna().to_numpy()
    returns = np.vstack([np.zeros(3), prices[1:] / prices[:-1] - 1])
    found = {}
    for fast in range(2, 11):
        for slow in range(fast + 3, 41, 3):
            held = np.zeros_like(prices)
            for day in range(slow, len(prices)):
                quick, calm = prices[day - fast : day].mean(axis=0), prices[day - slow : day].mean(axis=0)
                held[day] = quick > calm
            turns = np.abs(np.diff(held, axis=0, prepend=np.zeros((1, 3))))
            found[fast, slow] = float(np.prod(1 + (held * returns - turns * fee).mean(axis=1)) - 1)
    return found
