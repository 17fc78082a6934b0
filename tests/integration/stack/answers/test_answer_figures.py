"""A ``<figure>`` of an answer runs in the run's own kernel, with its sheets; broken code is mended once or shown as such."""

from __future__ import annotations

import json
import time

import pytest
from prometheus_client import CollectorRegistry, Counter

from fathom.clients import Clients
from fathom.domain.chat.messages import Completion, FinishReason, Sampling, ToolCall, Usage
from fathom.services.local import Endpoints
from fathom.services.planner.answering.rendering.figures import Figures
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    FindingKind,
    Limits,
    Material,
    Step,
    Task,
    ToolResult,
    ToolStatus,
)
from fathom.services.planner.tools.data import Data
from fathom.services.planner.tools.figures import FigureStore
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables.results import ResultTables
from fathom.services.planner.tools.tool import Reply
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref
from tests.support.coder import Coder

pytestmark = pytest.mark.asyncio(loop_scope="package")
GOOD = "import plotly.express as px\npx.line(sheet_1, x='date', y='AAPL.close_adj', title='Apple')"
BROKEN = "import plotly.express as px\npx.line(sheet_1, x='Date', y='nothing')"


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
    styles = Counter("cells", "x", ("style",), registry=CollectorRegistry())
    python = Python(session, FigureStore(store, run_id), styles, ResultTables(clients, store, run_id, 60.0))
    coder = Coder(mended)
    try:
        made = await Data(clients, session, None, 60.0)(f"{run_id}-0-0", {"question": "Apple adjusted close in 2020"})
        reply = made if isinstance(made, Reply) else made(1)
        material = tuple(Material(n, f.kind, f.item, f.variable) for n, f in enumerate(reply.material, start=1))
        task = Task(run_id, "Apple in 2020?", "m", Sampling(), Limits(5, 10_000, time.monotonic() + 120))
        episode = Episode(task, ())
        completion = Completion((), (), (), "", (), FinishReason.STOP, 0, 0, Usage(), True, "m")
        episode.append(
            Step(0, (), completion, (ToolResult(ToolCall("c", "data", "{}"), "", "", ToolStatus.OK, 0, material),))
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
        assert [mark.kind for mark in answer.findings] == [FindingKind.FIGURE]
        assert "ValueError" in coder.asked[0]
    await store.close()
