"""Sessions as a caller lives with them: interrupts, restarts, repeats, displays, tracebacks; and the RPCs."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import pytest_asyncio

from fathom import errors, frames
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.call import Call
from fathom.obs import Telemetry
from fathom.store import open_store
from fathom.store.refs import read_ref, to_ref
from services.sandbox import procfs
from services.sandbox.config import Config
from services.sandbox.engine import Engine
from services.sandbox.events import Display, Event, Outcome, Output, Status
from services.sandbox.process import WorkerProcess
from services.sandbox.server import SandboxServicer
from services.sandbox.session import Session

pytestmark = pytest.mark.asyncio(loop_scope="module")
FIGURE = "import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(x=list(range({n})), y=list(range({n}))))\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(Config(max_sessions=3, spares=1, interrupt_grace_s=1.0), telemetry())
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def session(engine: Engine) -> AsyncIterator[Session]:
    session = await engine.create(0, 0, 0, 0)
    yield session
    await engine.close_session(session.id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting() -> AsyncIterator[Session]:
    """One session for all tests that must leave it alive."""
    engine = Engine(Config(max_sessions=1, spares=0), telemetry())
    await engine.start()
    yield await engine.create(0, 0, 0, 0)
    await engine.close()


@pytest.fixture
def rpc(engine: Engine) -> SandboxServicer:
    return SandboxServicer(engine, open_store("memory://"))


def telemetry() -> Telemetry:
    return Telemetry("sandbox", stream=io.StringIO())


async def run(session: Session, code: str, request_id: str = "") -> tuple[list[Event], Outcome]:
    events = [event async for event in session.execute(request_id, code, 0)]
    assert isinstance(events[-1], Outcome)
    return events[:-1], events[-1]


def printed(events: list[Event], stream: str = "stdout") -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == stream)


def is_gone(worker: WorkerProcess) -> bool:
    """Neither its processes nor its descriptors are left."""
    left = [pid for pid in (worker.pid, worker.init_pid) if pid and procfs.process(pid) is not None]
    return not left and worker.scratch < 0


async def begun(session: Session, code: str, request_id: str = "") -> asyncio.Task[tuple[list[Event], Outcome]]:
    """The cell as a task, once it has printed its first line."""
    started = asyncio.Event()

    async def work() -> tuple[list[Event], Outcome]:
        events: list[Event] = []
        async for event in session.execute(request_id, f"print('begun', flush=True)\n{code}", 0):
            events.append(event)
            started.set()
        assert isinstance(events[-1], Outcome)
        return events[:-1], events[-1]

    task = asyncio.create_task(work())
    await started.wait()
    return task


async def test_an_interrupted_cell_leaves_its_session_as_it_was(lasting: Session) -> None:
    await run(lasting, "kept = 1")
    cell = await begun(lasting, "import time; time.sleep(60)")
    assert await lasting.interrupt()
    outcome = (await cell)[1]
    assert (outcome.status, outcome.session_lost, outcome.error_name) == (
        Status.INTERRUPTED, False, "KeyboardInterrupt",
    )  # fmt: skip
    # Longer than the grace after which a cell that goes on would be killed.
    assert (await run(lasting, "import time; time.sleep(1.2); kept"))[1].result == "1"


async def test_late_interrupts_hit_nothing(lasting: Session) -> None:
    for number in range(30):
        cell = asyncio.create_task(run(lasting, f"n = {number}"))
        await asyncio.sleep(0)
        await lasting.interrupt()
        outcome = (await cell)[1]
        assert outcome.status in (Status.OK, Status.INTERRUPTED)
        assert not outcome.session_lost
    assert (await run(lasting, "1 + 1"))[1].result == "2"


async def test_a_slow_reader_costs_the_cell_nothing(engine: Engine) -> None:
    session = await engine.create(150, 0, 0, 0)
    async with aclosing(session.execute("", "print('a')\n7", 0)) as events:
        assert await anext(events) == Output("stdout", "a\n")
        while session.busy:
            await asyncio.sleep(0.02)
        # Now the cell's time has long passed.
        await asyncio.sleep(0.2)
        rest = [event async for event in events]
    assert rest[-1].status is Status.OK  # type: ignore[union-attr]
    assert (await run(session, "8"))[1].result == "8"
    await engine.close_session(session.id)


async def test_a_repeated_request_sees_the_cell_that_still_runs(lasting: Session) -> None:
    await run(lasting, "runs = 0")
    code = "runs += 1\nimport time; time.sleep(0.3)\nruns"
    first = await begun(lasting, code, "repeated")
    second = await begun(lasting, code, "repeated")
    assert (await first) == (await second)
    assert (await run(lasting, "runs"))[1].result == "1"


async def test_one_of_two_readers_may_leave(lasting: Session) -> None:
    code = "import time; time.sleep(0.3)\n'finished'"
    first = await begun(lasting, code, "shared")
    second = await begun(lasting, code, "shared")
    first.cancel()
    assert (await second)[1].result == "'finished'"


async def test_the_outcome_of_a_cell_that_was_left_is_recorded(lasting: Session) -> None:
    code = "import time; time.sleep(60)"
    cell = await begun(lasting, code, "left")
    cell.cancel()
    again = await begun(lasting, code, "left")
    assert (await again)[1].status is Status.INTERRUPTED
    assert (await again)[1].cause == "the caller went away"


async def test_a_waiting_cell_that_nobody_wants_is_not_run(lasting: Session) -> None:
    first = await begun(lasting, "import time; time.sleep(0.3)")
    second = asyncio.create_task(run(lasting, "wanted = False", "second"))
    await asyncio.sleep(0)
    second.cancel()
    await first
    assert "wanted" not in [item.name for item in await lasting.variables()]


async def test_restart_ends_the_running_cell_and_keeps_the_record(engine: Engine, session: Session) -> None:
    await session.inject("sheet_1", frames.to_arrow(pd.DataFrame({"a": [1, 2]})))
    await run(session, "x = 1; x", "recorded")
    cell = await begun(session, "import time; time.sleep(60)")
    assert await engine.restart(session.id) == ["sheet_1"]
    outcome = (await cell)[1]
    assert (outcome.status, outcome.cause) == (Status.KILLED, "the session was restarted")
    assert [item.name for item in await session.variables()] == ["sheet_1"]
    assert (await run(session, "x = 1; x", "recorded"))[1].result == "1"
    assert (await run(session, "int(sheet_1.a.sum())"))[1].result == "3"


async def test_closing_ends_the_running_cell_and_frees_its_place(engine: Engine) -> None:
    sessions = [await engine.create(0, 0, 0, 0) for _ in range(3)]
    cell = await begun(sessions[0], "import time; time.sleep(60)")
    worker = sessions[0].worker
    await engine.close_session(sessions[0].id)
    assert (await cell)[1].cause == "the session was closed"
    assert is_gone(worker)
    sessions[0] = await engine.create(0, 0, 0, 0)
    for session in sessions:
        await engine.close_session(session.id)


async def test_cells_and_queue_are_bounded(engine: Engine) -> None:
    session = await engine.create(0, 0, 0, 10)
    first = await begun(session, "import time; time.sleep(60)")
    waiting = [asyncio.create_task(run(session, "1")) for _ in range(7)]
    await asyncio.sleep(0)
    with pytest.raises(errors.Overloaded):
        await run(session, "1")
    await session.interrupt()
    await asyncio.gather(first, *waiting)
    await run(session, "1")
    await run(session, "1")
    with pytest.raises(errors.InvalidField, match="10 cells"):
        await run(session, "1")
    await engine.close_session(session.id)


async def test_frames_together_are_bounded(engine: Engine, session: Session) -> None:
    session.config = session.config.model_copy(update={"frames_bytes": 100_000})
    frame = frames.to_arrow(pd.DataFrame({"a": range(10_000)}))
    await session.inject("a", frame)
    await session.inject("a", frame)
    with pytest.raises(errors.PayloadTooLarge):
        await session.inject("b", frame)
    assert [item.name for item in await session.variables()] == ["a"]


async def test_an_idle_engine_closes_sessions_and_leaves_nothing() -> None:
    engine = Engine(Config(spares=1, idle_s=0.2), telemetry())
    await engine.start()
    session = await engine.create(0, 0, 0, 0)
    outcome = (await run(session, "import time; time.sleep(0.5); 1"))[1]
    assert outcome.status is Status.OK
    async with asyncio.timeout(10):
        await session.worker.exited.wait()
    with pytest.raises(errors.NotFound):
        engine.session(session.id)
    workers = [session.worker, *engine._spares]
    await engine.close()
    assert len(workers) >= 2
    assert all(is_gone(worker) for worker in workers)


async def test_tracebacks_show_the_cell_and_where_a_library_failed(session: Session) -> None:
    await run(session, "def f(frame):\n    return frame['missing']")
    _, outcome = await run(session, "y = 1\nf(pd.DataFrame({'a': [1]}))")
    assert outcome.error_name == "KeyError"
    assert 'File "<cell 2>", line 2, in <module>' in outcome.traceback
    assert "File \"<cell 1>\", line 2, in f\n    return frame['missing']" in outcome.traceback
    assert "direct cause" in outcome.traceback
    assert outcome.traceback.count("site-packages") == 1
    assert len(outcome.traceback) < 1_500
    _, broken = await run(session, "x = (")
    assert broken.traceback.startswith('  File "<cell 3>", line 1')


async def test_displays_keep_their_place_and_semicolons_hide(lasting: Session) -> None:
    code = "from IPython.display import display, HTML\nprint('before')\ndisplay(HTML('<b>x</b>'))\nprint('after')\n3;"
    events, outcome = await run(lasting, code)
    # What is printed right after a display may overtake it: the two come by different ways.
    assert str(events[0]).startswith("Output(stream='stdout', text='before")
    assert [event for event in events if isinstance(event, Display)] == [Display("text/html", b"<b>x</b>")]
    assert printed(events) == "before\nafter\n"
    assert outcome.result == ""
    events, _ = await run(lasting, "display(pd.DataFrame({'a': [1]}))")
    assert "0  1" in printed(events)
    _, outcome = await run(lasting, "pd.DataFrame({'a': [1]})")
    assert outcome.result == "   a\n0  1"


async def test_ipython_semantics(session: Session) -> None:
    assert (await run(session, "41\n_ + 1"))[1].status is Status.ERROR
    await run(session, "41")
    assert (await run(session, "_ + 1"))[1].result == "42"
    events, outcome = await run(session, "import asyncio\nawait asyncio.sleep(0)\n!echo shell\n%precision 2\n'价'")
    assert (outcome.status, outcome.result, printed(events)) == (Status.OK, "'价'", "shell\n")
    assert (await run(session, "input()"))[1].status is Status.ERROR
    _, outcome = await run(session, "b = 1\na = np.zeros((2, 3))\npd = 3")
    assert [(item.name, item.shape) for item in outcome.changed] == [("a", "(2, 3)"), ("b", "")]


async def test_a_figure_that_is_shown_and_named_comes_twice(session: Session) -> None:
    events, _ = await run(session, FIGURE.format(n=3) + "fig.show()\nfig")
    assert [type(event) for event in events] == [Display, Display]


# The RPCs themselves.


async def answered(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


async def test_rpcs_from_create_to_close(rpc: SandboxServicer) -> None:
    call = Call.new()
    opened = await rpc.CreateSession(pb.CreateSessionRequest(limits=pb.Limits(output_bytes=1024)), call)
    sid = opened.session_id
    assert opened.isolation == pb.ISOLATION_LEVEL_NAMESPACE
    arrow = frames.to_arrow(pd.DataFrame({"a": [1, None]}))
    put = pb.PutFrameRequest(session_id=sid, name="sheet_1", arrow=arrow, description="Two rows.")
    reply = await rpc.PutFrame(put, call)
    assert (reply.rows, reply.digest.splitlines()[:2]) == (2, ["Two rows.", "sheet_1: 2 rows × 1 columns"])
    stored = await rpc._store.put("t", arrow, frames.ARROW_STREAM)
    assert (await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="s2", ref=to_ref(stored)), call)).rows == 2
    request = pb.ExecuteRequest(session_id=sid, code="print('x' * 2_000)\nq = len(sheet_1) + len(s2)\nq")
    events = await answered(rpc.Execute(request, call))
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert events[1].output.text == "\n[… 977 bytes left out …]\n"
    outcome = events[-1].outcome
    assert (outcome.status, outcome.result, outcome.dropped_output_bytes) == (pb.EXECUTE_STATUS_OK, "4", 977)
    names = [item.name for item in (await rpc.ListVariables(pb.ListVariablesRequest(session_id=sid), call)).variables]
    assert names == ["q", "s2", "sheet_1"]
    assert not (await rpc.Interrupt(pb.InterruptRequest(session_id=sid), call)).interrupted
    assert list((await rpc.Restart(pb.RestartRequest(session_id=sid), call)).frames) == ["sheet_1", "s2"]
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)
    with pytest.raises(errors.NotFound):
        await rpc.ListVariables(pb.ListVariablesRequest(session_id=sid), call)


async def test_files_by_rpc(rpc: SandboxServicer) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    content = bytes(300_000)
    put = await rpc.PutFile(pb.PutFileRequest(session_id=sid, path="in.bin", content=content), call)
    assert put.size_bytes == 300_000
    await answered(rpc.Execute(pb.ExecuteRequest(session_id=sid, code="open('out.txt', 'w').write('done')"), call))
    listed = await rpc.ListFiles(pb.ListFilesRequest(session_id=sid), call)
    assert [(file.path, file.size_bytes) for file in listed.files] == [("in.bin", 300_000), ("out.txt", 4)]
    chunks = [part.chunk async for part in rpc.GetFile(pb.GetFileRequest(session_id=sid, path="in.bin"), call)]
    assert (len(chunks), b"".join(chunks)) == (2, content)
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)


async def test_large_figures_go_by_reference(rpc: SandboxServicer) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    code = FIGURE.format(n=60_000).replace("list(range(60000))", "[str(i) for i in range(60000)]") + "fig"
    events = await answered(rpc.Execute(pb.ExecuteRequest(session_id=sid, code=code), call))
    display = next(event.display for event in events if event.HasField("display"))
    assert display.data == b""
    assert display.ref.size_bytes > 256 * 1024
    figure = json.loads(await read_ref(rpc._store, display.ref))
    assert len(figure["data"][0]["x"]) == 60_000
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)


async def test_requests_that_are_wrong_name_their_field(rpc: SandboxServicer, session: Session) -> None:
    call = Call.new()
    arrow = frames.to_arrow(pd.DataFrame({"a": [1]}))
    bad = [
        (pb.PutFrameRequest(session_id=session.id, name="x"), "data"),
        (pb.PutFrameRequest(session_id=session.id, name="x", arrow=b"garbage"), "data"),
        (pb.PutFrameRequest(session_id=session.id, name="a b", arrow=arrow), "name"),
        (pb.PutFrameRequest(session_id=session.id, name="x", arrow=arrow, description="d" * 1_001), "description"),
    ]
    for request, field in bad:
        with pytest.raises(errors.InvalidField) as refused:
            await rpc.PutFrame(request, call)
        assert refused.value.field == field
    with pytest.raises(errors.PayloadTooLarge):
        await rpc.PutFrame(pb.PutFrameRequest(session_id=session.id, name="x", arrow=bytes(512 * 1024 + 1)), call)
    for request in (
        pb.ExecuteRequest(session_id=session.id),
        pb.ExecuteRequest(session_id=session.id, code="1", wall_ms=-1),
    ):
        with pytest.raises(errors.InvalidField):
            await answered(rpc.Execute(request, call))
    with pytest.raises(errors.InvalidField, match="limits"):
        await rpc.CreateSession(pb.CreateSessionRequest(limits=pb.Limits(cpu_ms=-1)), call)
    isolation = await rpc.GetIsolation(pb.GetIsolationRequest(), call)
    assert isolation.level == pb.ISOLATION_LEVEL_NAMESPACE
    assert {"seccomp allow-list", "no capabilities", "no network", "net namespace"} <= set(isolation.layers)


async def test_a_display_store_that_fails_leaves_the_cell_to_be_asked_for_again(
    engine: Engine, session: Session
) -> None:
    async def refuse(*args: object) -> None:
        raise errors.DependencyFailed("store", "is away")

    request = pb.ExecuteRequest(
        request_id="figure",
        session_id=session.id,
        code=FIGURE.format(n=60_000).replace("list(", "list(str(i) for i in ") + "fig",
    )
    broken = SandboxServicer(engine, SimpleNamespace(put=refuse))  # type: ignore[arg-type]
    with pytest.raises(errors.DependencyFailed):
        await answered(broken.Execute(request, Call.new()))
    events = await answered(SandboxServicer(engine, open_store("memory://")).Execute(request, Call.new()))
    assert events[-1].outcome.status in (pb.EXECUTE_STATUS_OK, pb.EXECUTE_STATUS_INTERRUPTED)
