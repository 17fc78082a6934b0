"""Sessions as a caller lives with them: interrupts, restarts, repeats, displays, tracebacks."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import pandas as pd
import pytest

from fathom.core import errors
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Output, Status
from fathom.services.sandbox.supervisor.session import Session
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess
from tests.integration.sandbox.conftest import FIGURE, begin_cell, is_gone, join_output, make_engine, run, sheet
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_interrupted_cell_leaves_its_session_as_it_was(lasting: Session) -> None:
    await run(lasting, "kept = 1")
    cell = await begin_cell(lasting, "import time; time.sleep(60)")
    assert await lasting.interrupt()
    outcome = (await cell)[1]
    assert (outcome.status, outcome.session_lost, outcome.error_name) == (
        Status.INTERRUPTED, False, "KeyboardInterrupt",
    )  # fmt: skip
    # Nothing is left that would kill the worker when the grace of the ended cell is over.
    assert not [task for task in asyncio.all_tasks() if "_kill_later" in repr(task.get_coro())]
    assert (await run(lasting, "kept"))[1].result == "1"


async def test_late_interrupts_hit_nothing(lasting: Session) -> None:
    # Interrupts at every moment of a cell's life: before it begins, while it runs, after its end.
    for number in range(30):
        cell = asyncio.create_task(run(lasting, f"n = {number}"))
        # One round of the event loop: the cell is sent and not begun.
        await asyncio.sleep(0)
        await lasting.interrupt()
        outcome = (await cell)[1]
        assert outcome.status in (Status.OK, Status.INTERRUPTED)
        assert not outcome.session_lost
    assert (await run(lasting, "1 + 1"))[1].result == "2"


@contextmanager
def no_collector() -> Iterator[None]:
    """Let go of what nobody refers to any more, and of no circles."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def test_what_a_session_has_shown_is_freed_with_it(engine: Engine) -> None:
    with no_collector():
        session = await engine.create()
        # Long enough that the watch has looked at it, and one that is ended from outside.
        code = "import time\ntime.sleep(0.3)\nprint('y' * 100_000)"
        shown = [weakref.ref(event) for event in (await run(session, code, "first"))[0]]
        cell = await begin_cell(session, "time.sleep(60)", "second")
        assert await session.interrupt()
        shown += [weakref.ref(event) for event in (await cell)[0]]
        assert len(shown) > 2
        assert all(event() is not None for event in shown)  # its recordings answer a repeated request
        del cell
        await engine.close_session(session.id)
        del session
        await eventually(lambda: all(event() is None for event in shown))


async def test_a_slow_reader_costs_the_cell_nothing(engine: Engine) -> None:
    session = await engine.create(cell_wall_ms=150)
    async with aclosing(session.execute("", "print('a')\n7", 0)) as events:
        assert await anext(events) == Output("stdout", "a\n")
        await eventually(lambda: not session.is_busy)
        other = await engine.create(cell_wall_ms=150)
        # Takes as long as the first cell's limit, by the same clock, without a timed assertion.
        assert (await run(other, "while True: pass"))[1].status is Status.TIMEOUT  # so has the first cell's time passed
        rest = [event async for event in events]
    assert rest[-1].status is Status.OK  # type: ignore[union-attr]
    assert (await run(session, "8"))[1].result == "8"
    for one in (session, other):
        await engine.close_session(one.id)


async def test_a_repeated_request_sees_the_cell_that_still_runs(lasting: Session) -> None:
    await run(lasting, "runs = 0")
    code = "runs += 1\nimport time; time.sleep(0.3)\nruns"
    first = await begin_cell(lasting, code, "repeated")
    second = await begin_cell(lasting, code, "repeated")
    # Equal events and outcome: the second reader saw the same run.
    assert (await first) == (await second)
    assert (await run(lasting, "runs"))[1].result == "1"


async def test_one_of_two_readers_may_leave(lasting: Session) -> None:
    code = "import time; time.sleep(0.3)\n'finished'"
    first = await begin_cell(lasting, code, "shared")
    second = await begin_cell(lasting, code, "shared")
    first.cancel()
    # The cell goes on for the one that stays.
    assert (await second)[1].result == "'finished'"


async def test_the_outcome_of_a_cell_that_was_left_is_recorded(lasting: Session) -> None:
    code = "import time; time.sleep(60)"
    cell = await begin_cell(lasting, code, "left")
    cell.cancel()
    # Asked again under its id, the cell tells how it ended, and why.
    again = await begin_cell(lasting, code, "left")
    assert (await again)[1].status is Status.INTERRUPTED
    assert (await again)[1].cause == "the caller went away"


async def test_a_waiting_cell_that_nobody_wants_is_not_run(lasting: Session) -> None:
    # Long enough for the second one to queue behind it and be given up.
    first = await begin_cell(lasting, "import time; time.sleep(0.3)")
    second = asyncio.create_task(run(lasting, "wanted = False", "second"))
    await asyncio.sleep(0)
    second.cancel()
    await first
    assert "wanted" not in [item.name for item in await lasting.list_variables()]


async def test_restart_ends_the_running_cell_and_keeps_the_record(engine: Engine, session: Session) -> None:
    await session.inject("sheet_1", sheet(pd.DataFrame({"a": [1, 2]})))
    await run(session, "x = 1; x", "recorded")
    cell = await begin_cell(session, "import time; time.sleep(60)")
    assert await engine.restart(session.id) == ["sheet_1"]
    outcome = (await cell)[1]
    assert (outcome.status, outcome.cause) == (Status.KILLED, "the session was restarted")
    assert [item.name for item in await session.list_variables()] == ["sheet_1"]
    # The record outlives the restart: a repeated request must not run twice.
    assert (await run(session, "x = 1; x", "recorded"))[1].result == "1"
    assert (await run(session, "int(sheet_1.a.sum())"))[1].result == "3"


async def test_a_restarted_session_keeps_its_tighter_memory_limit(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited: list[tuple[int, int]] = []
    original = WorkerProcess.limit_memory

    def limit(worker: WorkerProcess, memory_bytes: int) -> None:
        limited.append((id(worker), memory_bytes))
        original(worker, memory_bytes)

    monkeypatch.setattr(WorkerProcess, "limit_memory", limit)
    session = await engine.create(memory_bytes=200 << 20)
    first = session.worker
    await engine.restart(session.id)
    # Tightened once for the first worker and once for the one after it.
    assert limited == [(id(first), 200 << 20), (id(session.worker), 200 << 20)]
    await engine.close_session(session.id)


async def test_closing_ends_the_running_cell_and_frees_its_place(engine: Engine) -> None:
    sessions = [await engine.create() for _ in range(3)]
    cell = await begin_cell(sessions[0], "import time; time.sleep(60)")
    worker = sessions[0].worker
    await engine.close_session(sessions[0].id)
    assert (await cell)[1].cause == "the session was closed"
    assert is_gone(worker)
    # Without its place this would be refused.
    sessions[0] = await engine.create()
    for session in sessions:
        await engine.close_session(session.id)


async def test_cells_and_queue_are_bounded(engine: Engine) -> None:
    session = await engine.create(cells=10)
    # A busy machine may need longer than a service waits before it kills the worker.
    session.config = session.config.model_copy(update={"interrupt_grace_s": 60.0})
    first = await begin_cell(session, "import time; time.sleep(60)")
    # Seven wait behind the one that runs; the queue holds eight in all.
    waiting = [asyncio.create_task(run(session, "1")) for _ in range(7)]
    await asyncio.sleep(0)
    with pytest.raises(errors.Overloaded):
        await run(session, "1")
    await session.interrupt()
    await asyncio.gather(first, *waiting)
    # Eight have counted; the ninth and tenth are allowed, the eleventh is not.
    await run(session, "1")
    await run(session, "1")
    with pytest.raises(errors.InvalidField, match="10 cells"):
        await run(session, "1")
    await engine.close_session(session.id)


async def test_frames_together_are_bounded(engine: Engine, session: Session) -> None:
    session.config = session.config.model_copy(update={"frames_bytes": 100_000})
    frame = pd.DataFrame({"a": range(10_000)})
    await session.inject("a", sheet(frame))
    # The same name again replaces the frame, so its bytes count once.
    await session.inject("a", sheet(frame))
    with pytest.raises(errors.PayloadTooLarge):
        await session.inject("b", sheet(frame))
    assert [item.name for item in await session.list_variables()] == ["a"]


async def test_an_idle_engine_closes_sessions_and_leaves_nothing() -> None:
    engine = make_engine(spares=1, idle_s=0.2)
    await engine.start()
    session = await engine.create()
    # Longer than the idle limit: a running cell is no idleness.
    outcome = (await run(session, "import time; time.sleep(0.5); 1"))[1]
    assert outcome.status is Status.OK
    async with asyncio.timeout(10):
        await session.worker.exited.wait()
    with pytest.raises(errors.NotFound):
        engine.get_session(session.id)
    workers = [session.worker, *engine._spares]
    await engine.close()
    # The session and at least one spare.
    assert len(workers) >= 2
    assert all(is_gone(worker) for worker in workers)


async def test_tracebacks_show_the_cell_and_where_a_library_failed(session: Session) -> None:
    await run(session, "def f(frame):\n    return frame['missing']")
    _, outcome = await run(session, "y = 1\nf(pd.DataFrame({'a': [1]}))")
    assert outcome.error_name == "KeyError"
    assert 'File "<cell 2>", line 2, in <module>' in outcome.traceback
    assert "File \"<cell 1>\", line 2, in f\n    return frame['missing']" in outcome.traceback
    assert "direct cause" in outcome.traceback
    # One frame of pandas, where it failed, of some fifteen that it has.
    assert outcome.traceback.count("site-packages") == 1
    assert len(outcome.traceback) < 1_500
    _, broken = await run(session, "x = (")
    assert broken.traceback.startswith('  File "<cell 3>", line 1')


# The semicolon hides the 3, as in a notebook.
async def test_displays_keep_their_place_and_semicolons_hide(lasting: Session) -> None:
    code = "from IPython.display import display, HTML\nprint('before')\ndisplay(HTML('<b>x</b>'))\nprint('after')\n3;"
    events, outcome = await run(lasting, code)
    # What is printed right after a display may overtake it: the two come by different ways.
    assert str(events[0]).startswith("Output(stream='stdout', text='before")
    assert [event for event in events if isinstance(event, Display)] == [Display("text/html", b"<b>x</b>")]
    # The text of a display is what a model reads of it.
    assert join_output(events) == "before\nx\nafter\n"
    assert outcome.result == ""
    events, _ = await run(lasting, "display(pd.DataFrame({'a': [1]}))")
    assert "0  1" in join_output(events)
    _, outcome = await run(lasting, "pd.DataFrame({'a': [1]})")
    assert outcome.result == "   a\n0  1"


async def test_ipython_semantics(session: Session) -> None:
    # No result yet: the underscore is not defined.
    assert (await run(session, "41\n_ + 1"))[1].status is Status.ERROR
    await run(session, "41")
    assert (await run(session, "_ + 1"))[1].result == "42"
    events, outcome = await run(session, "import asyncio\nawait asyncio.sleep(0)\n!echo shell\n%precision 2\n'价'")
    assert (outcome.status, outcome.result, join_output(events)) == (Status.OK, "'价'", "shell\n")
    # Nobody sits at the terminal of a cell.
    assert (await run(session, "input()"))[1].status is Status.ERROR
    _, outcome = await run(session, "b = 1\na = np.zeros((2, 3))\npd = 3")
    # pd is part of the namespace: what a cell does to it is no new variable.
    assert [(item.name, item.shape) for item in outcome.changed] == [("a", "(2, 3)"), ("b", "")]


async def test_a_figure_that_is_shown_and_named_comes_twice(session: Session) -> None:
    events, _ = await run(session, FIGURE.format(n=3) + "fig.show()\nfig")
    assert [type(event) for event in events] == [Display, Display]
