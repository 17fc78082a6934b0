"""The example analyses, end to end: real services and data; the model says what a script says.

The script stands for a model at the network edge (an OpenAI-compatible endpoint on loopback). What it writes is
code; what the code finds is compared with a calculation of this test's own on the same table.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.domain import frames
from fathom.domain.grading.code_style import check
from fathom.services.local import Endpoints
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref
from tests.integration.stack.scripted_model import Line, Said, ScriptedModel

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]

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
import pandas as pd
import plotly.graph_objects as go

def best_moving_averages(sheet, columns, fee):
    \"\"\"All fast and slow windows over equally weighted names, judged on the last three months.

    Signals act one bar later, each turn costs a fee; the months before only warm the averages up.
    \"\"\"
    prices = sheet.set_index(to_date(sheet["date"]))[columns].dropna()
    judged = prices.index > prices.index[-1] - pd.DateOffset(months=3)
    returns = prices.pct_change().fillna(0.0)
    results, curves = {}, {}
    for fast in range(2, 11):
        for slow in range(fast + 3, 41, 3):
            signal = (prices.rolling(fast).mean() > prices.rolling(slow).mean()).astype(float)
            held = signal.shift(1).fillna(0.0)
            daily = (held * returns - held.diff().abs().fillna(0.0) * fee).mean(axis=1)
            curve = (1 + daily[judged]).cumprod()
            results[fast, slow], curves[fast, slow] = float(curve.iloc[-1] - 1), curve
    pair = max(results, key=results.get)
    hold = (1 + returns.mean(axis=1)[judged]).cumprod()
    figure = go.Figure()
    figure.add_scatter(x=hold.index, y=curves[pair], name=f"moving averages {pair}")
    figure.add_scatter(x=hold.index, y=hold, name="buy and hold")
    figure.update_layout(title="Equity curves")
    figure.show()
    beaten = sum(value < hold.iloc[-1] - 1 for value in results.values())
    return {"pair": list(pair), "return": results[pair], "hold": float(hold.iloc[-1] - 1), "tried": len(results),
            "worse_than_hold": int(beaten), "first": str(hold.index[0].date()), "last": str(hold.index[-1].date())}

"""
CALL_SWEEP = "\nprint(json.dumps(best_moving_averages(sheet_1, {columns}, 0.0005)))\n"
SHARES = ("AAPL.close_adj", "AMD.close_adj", "MSFT.close_adj")


def pattern_answer(results: Sequence[dict[str, Any]]) -> str:
    """Return what a model makes of the days that its code has found."""
    found = results[0]
    days = ", ".join(f"{day} ({value:.2f})" for day, value in zip(found["days"], found["values"], strict=True))
    gaps = " and ".join(str(gap) for gap in found["gaps"])
    near = "lie close together" if max(found["gaps"]) <= 31 else "do not lie together"
    return (
        f"The three highest closes were on {days} [2]: they are {gaps} days apart, so they {near} [2]. The prices are in"
        " {{table:sheet_1}} [1], the growth in {{figure:fig_1}} [3]."
    )


def sweep_answer(results: Sequence[dict[str, Any]]) -> str:
    """Return what a model makes of the sweep that its code has run."""
    found = results[0]
    fast, slow = found["pair"]
    return (
        f"From {found['first']} to {found['last']} the best pair of windows, {fast} and {slow} days, earned"
        f" {found['return']:.2%}, buy and hold {found['hold']:.2%} [2]; the equity curves are in {{{{figure:fig_1}}}}."
        f" The pair was chosen after the fact among {found['tried']}, of which {found['worse_than_hold']} earned less than"
        " buy and hold: it is fitted to these three months, and says little of the next [2]."
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
        # Twice: an answer may come back once with what it leaves open.
        *[("finish", {"intent": "Answer", "answer": pattern_answer})] * 2,
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
        ("python", {"intent": "Sweep the windows", "code": SWEEP + CALL_SWEEP.format(columns=list(SHARES))}),
        *[("finish", {"intent": "Answer", "answer": sweep_answer})] * 2,
    ],
}


def fill_line(line: Line, messages: Said) -> Line:
    """Return the line of the script; the answer is made of what the tools have said."""
    name, arguments = line
    said = [str(message["content"]) for message in messages if message["role"] == "tool"]
    results = [json.loads(found) for text in said for found in re.findall(r"^## stdout\n(\{.*\})$", text, re.MULTILINE)]
    return name, {key: value(results) if callable(value) else value for key, value in arguments.items()}


@pytest.fixture(scope="module", autouse=True)
def scripts(scripted_door: tuple[ScriptedModel, str]) -> Iterator[None]:
    lines = {key: [functools.partial(fill_line, line) for line in lines] for key, lines in SCRIPTS.items()}
    with scripted_door[0].telling(lines):
        yield


async def ask_stack(question: str, stack: Stack) -> tuple[trajectory.Answer, dict[str, Any]]:
    """Return the stack's answer, with its sheets as frames, its code records and its figures as JSON."""
    endpoints, clients = stack
    store = open_store(endpoints.store)
    events = [event async for event in run(clients, pb.RunRequest(question=question, model="scripted"))]
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error

    async def read(ref: ObjectRef) -> bytes:
        return await read_ref(store, ref)

    sheets = {m.variable: m.sheet for m in finished.material if m.HasField("sheet")}
    codes = [m.code for m in finished.material if m.HasField("code")]
    found = {
        "sheets": {
            name: frames.to_frame(frames.decode_table(await read(s.data), s.data.content_type, name))
            for name, s in sheets.items()
        },
        "codes": codes,
        "figures": [json.loads(await read(f.ref)) for code in codes for f in code.figures],
    }
    await store.close()
    return finished.answer, found


async def test_highest_days_and_a_five_year_curve(stack: Stack) -> None:
    """Both analyses on bundled data, the second with a figure of at least 1,200 points."""
    question = "Is there a pattern in the three days with the highest share price of Apple? Draw its five-year growth."
    answer, found = await ask_stack(question, stack)
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
    assert said["gaps"] == [int(days) for days in pd.to_datetime(best["date"]).diff().dt.days.dropna()]
    assert not answer.unresolved
    assert "{{figure:fig_1}}" in answer.markdown
    for day, value in zip(best["date"], best["AAPL.close_adj"], strict=True):
        assert f"{pd.Timestamp(day).date()} ({value:.2f})" in answer.markdown
    assert f"{said['gaps'][0]} and {said['gaps'][1]} days apart" in answer.markdown
    assert cites_code(answer, 2)


def cites_code(answer: trajectory.Answer, number: int) -> bool:
    """Return whether the answer cites a material, as numbers that come from code must."""
    return f"[{number}]" in answer.markdown and number in answer.cited


def points(trace: dict[str, Any]) -> int:
    """Number of values of a trace, which plotly may have packed."""
    values = trace["y"]
    if isinstance(values, dict):
        import base64

        return len(base64.b64decode(values["bdata"])) // np.dtype(values["dtype"]).itemsize
    return len(values)


async def test_the_best_moving_averages(stack: Stack) -> None:
    """On an embedded price panel of three technology shares: equal to a reference to 1e-9."""
    question = "What would the best dual moving-average rule have earned on the three technology giants?"
    answer, found = await ask_stack(question, stack)
    record = found["codes"][0]
    assert record.ok, record.traceback
    said = json.loads(record.stdout)
    wanted, hold = reference(found["sheets"]["sheet_1"], 0.0005)
    best = max(wanted, key=lambda pair: wanted[pair])
    assert tuple(said["pair"]) == best
    assert said["return"] == pytest.approx(wanted[best], abs=1e-9)
    assert said["hold"] == pytest.approx(hold, abs=1e-9)
    assert said["tried"] == len(wanted)
    assert said["worse_than_hold"] == sum(value < hold for value in wanted.values())
    assert (said["first"], said["last"]) == ("2022-09-29", "2022-12-28")
    names = [trace["name"] for trace in found["figures"][0]["data"]]
    assert names == [f"moving averages {best}", "buy and hold"]
    text = answer.markdown
    assert f"{best[0]} and {best[1]} days, earned {wanted[best]:.2%}" in text
    assert f"buy and hold {hold:.2%}" in text
    assert f"among {len(wanted)}" in text
    assert "fitted to these three months" in text
    assert "{{figure:fig_1}}" in text
    assert cites_code(answer, 2)
    assert not answer.unresolved


def reference(
    sheet: pd.DataFrame, fee: float, columns: Sequence[str] = SHARES, after: str = "2022-09-28"
) -> tuple[dict[tuple[int, int], float], float]:
    """Return of every pair of windows, and of holding, by plain array arithmetic instead of pandas' rolling windows."""
    rows = sheet.dropna(subset=list(columns))
    prices = rows[list(columns)].to_numpy()
    judged = np.array([pd.Timestamp(day) > pd.Timestamp(after) for day in rows["date"]])
    returns = np.vstack([np.zeros(3), prices[1:] / prices[:-1] - 1])
    found = {}
    for fast in range(2, 11):
        for slow in range(fast + 3, 41, 3):
            held = np.zeros_like(prices)
            for day in range(slow, len(prices)):
                quick, calm = prices[day - fast : day].mean(axis=0), prices[day - slow : day].mean(axis=0)
                held[day] = quick > calm
            turns = np.abs(np.diff(held, axis=0, prepend=np.zeros((1, 3))))
            found[fast, slow] = float(np.prod(1 + (held * returns - turns * fee).mean(axis=1)[judged]) - 1)
    return found, float(np.prod(1 + returns.mean(axis=1)[judged]) - 1)
