"""Cells in real workers: state, output, figures, frames; limits, deaths and forgeries, judged from outside."""

from __future__ import annotations

import asyncio
import json
import os

import pandas as pd
import pytest

from fathom.core import errors
from fathom.services.sandbox.ipc.frames import FrameKind, pack_frame
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Status
from fathom.services.sandbox.supervisor.files import list_files, read_file, write_file
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import alive, begin_cell, join_output, run, sheet

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_state_output_and_result(session: Session) -> None:
    _, first = await run(session, "x = 20\ny = [1, 2]")
    assert first.status is Status.OK
    assert {(item.name, item.type, item.shape) for item in first.changed} == {("x", "int", ""), ("y", "list", "2")}
    # A print, the error stream, and a child that writes past Python to the same descriptor.
    code = "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo child')\nx + 22"
    events, second = await run(session, code)
    assert (join_output(events), join_output(events, "stderr")) == ("out\nchild\n", "err\n")
    assert (second.result, second.cell) == ("42", 2)
    assert second.duration_ms >= 0


async def test_errors_come_back_trimmed_and_the_session_lives(session: Session) -> None:
    _, outcome = await run(session, "def f(a):\n    return a / 0\n\nf(1)")
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "ZeroDivisionError")
    assert "return a / 0" in outcome.traceback
    # A reader wants the cell's lines, not those of IPython and of the worker around them.
    assert "interactiveshell" not in outcome.traceback
    assert "worker.py" not in outcome.traceback
    _, broken = await run(session, "def f(:")
    assert (broken.status, broken.error_name) == (Status.ERROR, "SyntaxError")
    assert (await run(session, "1 + 1"))[1].result == "2"


async def test_frames_are_variables(session: Session) -> None:
    # A missing price among others: NaN in pandas, null in Arrow.
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-01", "2020-01-02"]), "AAPL.close": [1.5, None]})
    await session.inject("sheet_1", sheet(frame))
    events, _ = await run(session, "print(sheet_1.shape, sheet_1['AAPL.close'].isna().sum(), to_date('2025/7/27'))")
    assert join_output(events) == "(2, 2) 1 2025-07-27 00:00:00\n"
    assert [item.name for item in await session.list_variables()] == ["sheet_1"]


async def test_a_lazy_frame_waits_until_a_cell_names_it(engine: Engine, session: Session) -> None:
    for name, lazy in (("sheet_1", True), ("sheet_2", False)):
        await engine.inject(session.id, name, sheet(pd.DataFrame({"a": [1, 2]})), lazy=lazy)
    assert [(item.name, item.shape) for item in await session.list_variables()] == [
        ("sheet_1", "(2, 1)"),
        ("sheet_2", "(2, 1)"),
    ]
    # The globals of the frame, so that looking does not name the lazy one.
    code = "import sys\n[name for name in sys._getframe().f_globals if name[:5] == 'sheet']"
    assert (await run(session, code))[1].result == "['sheet_2']"
    _, outcome = await run(session, "int(sheet_1.a.sum())")
    # Loaded by the mention, and no change of the cell's own.
    assert (outcome.result, outcome.changed) == ("3", ())


# Three ways to write a day, as vendors mix them in one column.
async def test_dirty_dates_and_nulls_can_be_read(session: Session) -> None:
    """A table as vendors send it, with dates in three formats and missing ones."""
    dirty = {
        "date": ["2025/7/27", "20250207", "2025-02-07", None],
        "close": [1.5, None, 2.5, 3.0],
        "note": ["", None, "x", "y"],
    }
    await session.inject("sheet_1", sheet(pd.DataFrame(dirty)))
    code = "days = to_date(sheet_1['date'])\nprint(list(days.dt.strftime('%Y-%m-%d')), int(sheet_1.isna().sum().sum()))"
    events, outcome = await run(session, code)
    assert outcome.status is Status.OK
    assert join_output(events) == "['2025-07-27', '2025-02-07', '2025-02-07', nan] 3\n"


async def test_a_cell_finds_what_was_injected_and_no_tool(session: Session) -> None:
    """Injection is the only way in; nothing in the namespace reaches a tool or a service."""
    await session.inject("sheet_1", sheet(pd.DataFrame({"a": [1]})))
    code = "print(sorted(n for n in globals() if n[0] != '_' and n not in ('In', 'Out', 'exit', 'quit', 'get_ipython', 'open')))"
    events, _ = await run(session, code)
    assert join_output(events) == "['finance', 'np', 'pd', 'sheet_1', 'show_table', 'to_date']\n"
    # A model that believes it can call its tools from code gets a NameError at once.
    for name in ("search", "fetch", "data", "finish", "think", "tools", "clients", "fathom"):
        assert (await run(session, name))[1].error_name == "NameError"
    assert (await run(session, "import fathom.clients"))[1].error_name in ("ModuleNotFoundError", "PermissionError")


@pytest.mark.parametrize("show", ["fig", "fig.show()"])
async def test_plotly_figures_come_back_as_json(session: Session, show: str) -> None:
    code = f"import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))\n{show}"
    events, outcome = await run(session, code)
    displays = [event for event in events if isinstance(event, Display)]
    assert (outcome.status, outcome.traceback) == (Status.OK, "")
    assert [display.media_type for display in displays] == ["application/vnd.plotly.v1+json"]
    assert json.loads(displays[0].data)["data"][0]["type"] == "scatter"


async def test_a_slow_cell_is_interrupted_and_keeps_its_session(session: Session) -> None:
    await run(session, "kept = 1")
    events, outcome = await run(session, "print('begun', flush=True)\nwhile True: pass", wall_ms=200)
    assert (outcome.status, outcome.session_lost) == (Status.TIMEOUT, False)
    assert "longer than 0.2 s" in outcome.cause
    assert join_output(events) == "begun\n"
    assert (await run(session, "kept"))[1].result == "1"


async def test_a_cell_that_ignores_interrupts_loses_its_worker_and_restart_brings_the_frames(
    engine: Engine, session: Session
) -> None:
    await session.inject("sheet_1", sheet(pd.DataFrame({"a": [1]})))
    pid = session.worker.pid
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    # The interrupt is ignored; what is left is to kill the worker.
    _, outcome = await run(session, stubborn, wall_ms=100)
    assert (outcome.status, outcome.session_lost) == (Status.TIMEOUT, True)
    assert not alive(pid)
    with pytest.raises(errors.SessionLost):
        await run(session, "1")
    # Frames are kept outside the worker, so a restart gives them back; variables are lost.
    assert await engine.restart(session.id) == ["sheet_1"]
    assert (await run(session, "int(sheet_1.a.sum())"))[1].result == "1"


@pytest.mark.parametrize(
    ("code", "status", "cause"),
    [
        ("import os; os._exit(3)", Status.KILLED, "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", Status.KILLED, "SIGKILL"),
        # 2 GiB touched page by page: only touched memory counts. 805,306,368 is 768 MiB, the default limit.
        ("x = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", Status.OOM, "805,306,368"),
        ("while True: print('x' * 100_000)", Status.OUTPUT_LIMIT, "of output"),
    ],
)
async def test_deaths_are_named(session: Session, code: str, status: Status, cause: str) -> None:
    _, outcome = await run(session, code)
    assert (outcome.status, outcome.session_lost) == (status, True)
    assert cause in outcome.cause


async def test_output_is_bounded_and_what_is_dropped_is_counted(engine: Engine) -> None:
    session = await engine.create(output_bytes=2048)
    events, outcome = await run(session, "print('x' * 10_000)")
    # 10,000 characters and a line break, of which 2,048 are kept.
    assert (len(join_output(events)), outcome.dropped_output_bytes) == (2048, 7953)
    await engine.close_session(session.id)


# Frames of a worker's own making; the supervisor must take none of them for an outcome.
FORGERY = """
import gc, socket
channel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')
sock = socket.socket(fileno=channel._sock.fileno())
sock.sendall({frame!r})
sock.detach()
print('went on')
"""


@pytest.mark.parametrize(
    "frame", [pack_frame(FrameKind.RESULT, "ab" * 16, ("forged", "", "", "")), b'{"kind": "done"}' * 9, b"\xff" * 99]
)
async def test_forged_frames_hurt_nobody_else(engine: Engine, session: Session, frame: bytes) -> None:
    other = await engine.create()
    # Only that the other session goes on; what becomes of the forger is another test's.
    await run(session, FORGERY.format(frame=frame))
    assert (await run(other, "6 * 7"))[1].result == "42"
    await engine.close_session(other.id)


async def test_patching_the_interpreter_does_not_break_the_protocol(session: Session) -> None:
    events, outcome = await run(session, "import json\njson.dumps = lambda *a, **k: 1/0\nprint('still')")
    # Either the worker keeps its own copy of what it needs, or it dies: it never sends a wrong outcome.
    assert outcome.status in (Status.OK, Status.KILLED)
    assert join_output(events) == "still\n"


async def test_same_request_id_runs_once(session: Session) -> None:
    await run(session, "n = 0")
    first = await run(session, "n += 1; print(n)", "cell-1")
    assert await run(session, "n += 1; print(n)", "cell-1") == first
    assert (await run(session, "n"))[1].result == "1"
    # The same id with other code.
    with pytest.raises(errors.Conflict):
        await run(session, "n += 2", "cell-1")


async def test_admission_interrupt_and_leaving_nothing_behind(engine: Engine) -> None:
    # All three places of this engine.
    sessions = [await engine.create() for _ in range(3)]
    with pytest.raises(errors.Overloaded) as full:
        await engine.create()
    assert full.value.retry_after_s
    running = await begin_cell(sessions[0], "import time; time.sleep(60)")
    assert await sessions[0].interrupt()
    assert (await running)[1].status is Status.INTERRUPTED
    assert not await sessions[0].interrupt()
    pids = [pid for item in sessions for pid in (item.worker.pid, item.worker.init_pid)]
    for item in sessions:
        await engine.close_session(item.id)
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(errors.NotFound):
        engine.get_session(sessions[0].id)


async def test_a_caller_that_goes_away_interrupts_its_cell(lasting: Session) -> None:
    cell = await begin_cell(lasting, "import time; time.sleep(60)")
    cell.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cell
    # Had the cell gone on, this one would wait for a minute.
    assert (await run(lasting, "'here'"))[1].result == "'here'"


async def test_files_stay_beneath_the_scratch_folder(session: Session) -> None:
    root = session.worker.scratch
    assert write_file(root, "a.txt", b"hello") == 5
    # A symbolic link, a hard link and a folder: what is listed are plain files.
    await run(session, "import os\nos.symlink('/etc/passwd', 'link')\nos.link('a.txt', 'b.txt')\nos.mkdir('pipe')")
    assert [file.path for file in list_files(root)] == ["a.txt", "b.txt"]
    for path in ("../x", "/etc/passwd", "", "a/../../x"):
        with pytest.raises(errors.InvalidField):
            read_file(root, path)
    with pytest.raises(errors.NotFound):
        read_file(root, "link")
    for path in ("pipe", "b.txt"):
        # A hard link may lead to a file of another folder, and its count of links gives it away.
        with pytest.raises(errors.InvalidField):
            read_file(root, path)


async def test_the_environment_tells_nothing(session: Session) -> None:
    os.environ["FATHOM_CANARY"] = "secret"
    events, _ = await run(session, "import os; print(sorted(k for k in os.environ if 'FATHOM' in k))")
    assert join_output(events) == "[]\n"
    del os.environ["FATHOM_CANARY"]


async def test_a_frame_that_a_cell_shows_is_a_table_with_its_text(session: Session) -> None:
    frame = pd.DataFrame({"name": ["Apple", "Intel"], "return": [0.25, -0.5]})
    await session.inject("sheet_1", sheet(frame))
    code = "show_table(sheet_1.head(1), 'Best', units={'return': 'fraction'})\nsheet_1[sheet_1['return'] < 0]"
    events, outcome = await run(session, code)
    shown = [json.loads(event.data) for event in events if isinstance(event, Display)]
    assert [(table["title"], table["is_result"]) for table in shown] == [("Best", False), ("", True)]
    assert shown[1]["columns"][-1] == {"name": "return", "type": "number", "values": [-0.5]}
    assert "Intel" in outcome.result
    # A table that the model already has as a sheet would be a duplicate among its results.
    # The sheet itself is there already.
    events, outcome = await run(session, "sheet_1")
    assert not [event for event in events if isinstance(event, Display)]
    assert "Apple" in outcome.result
