"""Measure what a chart costs: seconds from question to answer with one, as a ratio to the same answer without.

A scripted model at the network edge asks for the same table, runs one cell and answers, so nothing differs but that
one cell draws what the other only computes. The whole local stack plays the runs, the two forms taking turns; medians.
Needs the bundled data (``make data``).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run as run_events
from tests.bench.planner.questions import MODELS, local_stack
from tests.integration.stack.scripted_model import Line, ScriptedModel, entry

WITHOUT, WITH = "without a chart", "with a chart"
LIMIT = 2.0
TURNS = 12
ANSWER = "Both series were read [1]."
DATA: Line = ("data", {"question": "adjusted close of Apple and Microsoft from 2015-01-01 to 2020-12-31"})
COMPUTE = "growth = sheet_1.set_index('date')\ngrowth = growth / growth.iloc[0] * 100\n"
SCRIPTS: dict[str, Sequence[Line]] = {
    WITHOUT: [DATA, ("python", {"code": COMPUTE + "print(growth.tail(1))"}), ("finish", {"answer": ANSWER})],
    WITH: [DATA, ("python", {"code": f"import plotly.express as px\n{COMPUTE}px.line(growth)"}), ("finish", {"answer": ANSWER})],
}  # fmt: skip


async def run() -> None:
    """Print the median seconds of both forms and their ratio; the first of each warms up and is printed apart."""
    model = ScriptedModel(SCRIPTS)
    async with model.running() as url, local_stack({**MODELS, "scripted": entry(url)}) as (clients, _):
        seconds: dict[str, list[float]] = {WITHOUT: [], WITH: []}
        for _turn in range(TURNS + 1):
            for form, figures in ((WITHOUT, 0), (WITH, 1)):
                model.seen.clear()
                seconds[form].append(await time_answer(clients, form, figures))
    print(f"{'':<20}{'first s':>10}{'median s':>10}{'slowest s':>11}")
    medians = {}
    for form, values in seconds.items():
        medians[form] = statistics.median(values[1:])
        print(f"{form:<20}{values[0]:>10.2f}{medians[form]:>10.3f}{max(values[1:]):>11.3f}")
    print(f"with / without, limit {LIMIT:.0f}: {medians[WITH] / medians[WITHOUT]:.2f}")


async def time_answer(clients: Clients, form: str, figures: int) -> float:
    """Return the seconds that one question takes; raise ``AssertionError`` unless it ends with that many figures."""
    started, finished = time.perf_counter(), None
    request = pb.RunRequest(question=f"{form}: how did Apple and Microsoft grow from 2015 to 2020?", model="scripted")
    async for event in run_events(clients, request):
        if event.HasField("finished"):
            finished = event.finished
    took = time.perf_counter() - started
    assert finished is not None
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    found = sum(len(item.code.figures) for item in finished.material)
    assert found == figures, f"{form}: {found} figures"
    return took
