"""A ``<figure>`` of an answer runs in the run's own kernel, with its sheets; broken code is mended once or shown as such."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry, Counter

from fathom.clients import Clients
from fathom.protocol.messages import Completion, FinishReason, Sampling, ToolCall, Usage
from fathom.store import open_store
from fathom.store.refs import read_ref
from services.local import Endpoints
from services.planner.answering.ending import CheckedEnding
from services.planner.answering.evidence import Evidence
from services.planner.answering.figures import Figures
from services.planner.model import Answer, Doubt, Episode, Limits, Material, Step, Task, ToolResult, ToolState
from services.planner.tools.data import Data
from services.planner.tools.python import Python
from services.planner.tools.session import Session
from services.planner.tools.tool import Reply

pytestmark = pytest.mark.asyncio(loop_scope="package")
GOOD = "import plotly.express as px\npx.line(sheet_1, x='date', y='AAPL.close_adj', title='Apple')"
BROKEN = "import plotly.express as px\npx.line(sheet_1, x='Date', y='nothing')"


@dataclass
class Coder:
    """Mends with one code, and keeps the tracebacks that it was shown."""

    code: str
    asked: list[str] = field(default_factory=list)

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str:
        self.asked.append(traceback)
        return self.code


def block(code: str) -> str:
    return f"<figure>\n```python\n{code}\n```\n</figure>"


@pytest.mark.parametrize(
    ("first", "mended", "drawn", "asked"), [(GOOD, "", 1, 0), (BROKEN, GOOD, 1, 1), (BROKEN, BROKEN + "\n", 0, 1)]
)
async def test_figures_of_an_answer(
    stack: tuple[Endpoints, Clients], first: str, mended: str, drawn: int, asked: int
) -> None:
    endpoints, clients = stack
    store = open_store(endpoints.store)
    run_id = f"run_figure_{time.monotonic_ns()}"
    session = Session(clients, run_id, 60.0)
    python = Python(session, store, Counter("cells", "x", ("style",), registry=CollectorRegistry()), run_id)
    coder = Coder(mended)
    try:
        made = await Data(clients, session, None, 60.0)(f"{run_id}-0-0", {"question": "Apple adjusted close in 2020"})
        reply = made if isinstance(made, Reply) else made(1)
        material = tuple(Material(n, f.kind, f.item, f.variable) for n, f in enumerate(reply.findings, start=1))
        task = Task(run_id, "Apple in 2020?", "m", Sampling(), Limits(5, 10_000, time.monotonic() + 120))
        episode = Episode(task, ())
        completion = Completion((), (), (), "", (), FinishReason.STOP, 0, 0, Usage(), True, "m")
        episode.append(
            Step(0, (), completion, (ToolResult(ToolCall("c", "data", "{}"), "", "", ToolState.OK, 0, material),))
        )
        text = f"Apple closed 2020 at 130.74 USD [1].\n\n{block(first)}\n\nThe end."
        answer = await CheckedEnding(Evidence(store), Figures(python, coder), correct=False).finish(
            text, episode, False
        )
    finally:
        await session.close()
    assert isinstance(answer, Answer)
    records = [item.item for item in answer.material]
    assert sum(len(record.figures) for record in records) == drawn
    assert len(coder.asked) == asked
    if drawn:
        figure = json.loads(await read_ref(store, records[-1].figures[0].ref))
        assert figure["layout"]["title"]["text"] == "Apple"
        assert answer.markdown.split("\n\n")[1] == "{{figure:fig_1}}"
        assert answer.findings == ()
    else:
        assert answer.markdown.split("\n\n")[1:3] == [
            f"{{{{figure:code_{answer.material[-1].number}}}}}",
            "{{table:sheet_1}}",
        ]
        assert [mark.kind for mark in answer.findings] == [Doubt.FIGURE]
        assert "ValueError" in coder.asked[0]
    await store.close()
