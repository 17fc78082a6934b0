"""Cells that mean harm or simply go wrong, in real workers; judged by what the host sees, not by what they print."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd
import pytest

from fathom.core import errors
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.supervisor import session as session_module
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Status
from fathom.services.sandbox.supervisor.files import list_files
from fathom.services.sandbox.supervisor.servicer import outcome_to_proto
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import alive, descendants, join_output, run, sheet
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 1024 * 1024


async def test_code_that_swallows_the_interrupt_is_still_out_of_time(session: Session) -> None:
    # A cell that catches everything: the interrupt alone would leave it "finished".
    code = "import time\ntry:\n    time.sleep(60)\nexcept BaseException:\n    print('swallowed')"
    events, outcome = await run(session, code, wall_ms=200)
    assert (outcome.status, outcome.session_lost, join_output(events)) == (Status.TIMEOUT, False, "swallowed\n")
    # The cell's own time, not a clock of the test.
    assert outcome.duration_ms >= 200
    # An error raised while handling the interrupt keeps its name, and the outcome stays "out of time".
    code = "import time\ntry:\n    time.sleep(60)\nexcept BaseException as e:\n    raise ValueError('mine') from e"
    _, outcome = await run(session, code, wall_ms=200)
    assert (outcome.status, outcome.error_name) == (Status.TIMEOUT, "ValueError")


async def test_an_exhausted_cpu_budget_ends_the_session(engine: Engine) -> None:
    # CPU time and not wall time: a session that sleeps uses none.
    session = await engine.create(cpu_ms=300)
    _, outcome = await run(session, "while True: pass")
    assert (outcome.status, outcome.session_lost) == (Status.TIMEOUT, True)
    assert "0.3 s of CPU" in outcome.cause
    await engine.close_session(session.id)


async def test_memory_error_is_the_codes_own(lasting: Session) -> None:
    # A terabyte that the allocator refuses is the code's mistake and kills nothing.
    _, outcome = await run(lasting, "x = bytearray(1 << 40)")
    assert (outcome.status, outcome.error_name, outcome.session_lost) == (Status.ERROR, "MemoryError", False)


async def test_children_count_but_shared_pages_count_once(engine: Engine) -> None:
    session = await engine.create(memory_bytes=400 * MIB)
    # Six children share the interpreter's pages; counted once each they would be over 400 MiB.
    code = "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        time.sleep(60); os._exit(0)\ntime.sleep(0.4)"
    _, outcome = await run(session, code)
    assert outcome.status is Status.OK
    # 600 MiB of a child's own are.
    hog = "if os.fork() == 0:\n    x = bytearray(b'1') * (600 << 20); time.sleep(60)\ntime.sleep(60)"
    _, outcome = await run(session, hog)
    assert (outcome.status, outcome.session_lost) == (Status.OOM, True)
    await engine.close_session(session.id)


async def test_peak_memory_is_seen_also_when_it_is_short(lasting: Session) -> None:
    # Released before the cell ends: only a high-water mark sees it.
    _, outcome = await run(lasting, "x = bytearray(b'1') * (200 << 20); del x")
    assert outcome.peak_memory_bytes > 200 * MIB
    _, outcome = await run(lasting, "1")
    # The mark is reset per cell, or every later cell would look as large.
    assert outcome.peak_memory_bytes < 200 * MIB


async def test_a_fork_bomb_stays_within_its_session(engine: Engine, session: Session) -> None:
    # 2,000 forks against a limit of 24 processes.
    bomb = "import os, time\nfor _ in range(2000):\n    if os.fork() == 0:\n        time.sleep(60)"
    _, outcome = await run(session, bomb, wall_ms=5_000)
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "BlockingIOError"), outcome
    held = descendants(session.worker.init_pid)
    # At least ten, or the limit would be so low that ordinary code fails.
    assert 10 < len(held) <= 24
    other = await engine.create()
    # Another session can fork while this one cannot.
    assert (await run(other, "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]"))[
        1
    ].result == "0"
    await engine.close_session(other.id)
    await session.close()
    assert not any(alive(pid) for pid in held)


@pytest.mark.parametrize("end", ["import os; os._exit(1)", "1"])
async def test_a_child_that_left_the_session_goes_with_it(engine: Engine, end: str) -> None:
    session = await engine.create()
    code = (
        "import os, subprocess, sys\n"
        "sleep = [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)']\n"
        # setsid, and no environment: neither the process group nor the marker of the session finds it, only its user
        # does.
        "subprocess.Popen(['/usr/bin/setsid', *sleep], env={}, start_new_session=True)"
    )
    await run(session, code)
    await eventually(lambda: len(descendants(session.worker.init_pid)) >= 2)
    held = descendants(session.worker.init_pid)
    await run(session, end)
    await engine.close_session(session.id)
    assert not any(alive(pid) for pid in held)


async def test_a_worker_that_dies_between_cells_is_a_lost_session(session: Session) -> None:
    # Ends behind the cell, so nobody is waiting when it dies.
    code = "import os, threading\nthreading.Timer(0.1, os._exit, [7]).start()"
    assert (await run(session, code))[1].status is Status.OK
    await asyncio.wait_for(session.worker.exited.wait(), 10)
    with pytest.raises(errors.SessionLost, match="exited with status 7"):
        await run(session, "1")


async def test_a_page_fault_behind_the_end_of_a_mapped_file_costs_its_session_alone(
    engine: Engine, session: Session
) -> None:
    other = await engine.create()
    # Mapped, then made shorter: the page is still in the map and no longer in the file, and reading it is SIGBUS.
    code = """
import mmap, os
descriptor = os.open("scratch.bin", os.O_RDWR | os.O_CREAT)
os.ftruncate(descriptor, 2 * mmap.PAGESIZE)
pages = mmap.mmap(descriptor, 2 * mmap.PAGESIZE)
os.ftruncate(descriptor, mmap.PAGESIZE)
pages[mmap.PAGESIZE]
"""
    _, outcome = await run(session, code)
    assert (outcome.status, outcome.session_lost) == (Status.KILLED, True)
    assert "SIGBUS" in outcome.cause or "Bus error" in outcome.cause, outcome.cause
    with pytest.raises(errors.SessionLost):
        await run(session, "1")
    assert (await run(other, "1 + 1"))[1].result == "2"
    await engine.close_session(other.id)


async def test_a_worker_that_hangs_up_is_ended(session: Session) -> None:
    pid = session.worker.pid
    # The socket to the supervisor closed by hand, with the process alive.
    _, outcome = await run(session, FORGER + "import time\nos.close(channel._sock.fileno())\ntime.sleep(60)")
    assert (outcome.status, outcome.session_lost) == (Status.KILLED, True)
    assert not alive(pid)


# Finds the worker's channel and nonce in its own memory, as hostile code can.
FORGER = """
import gc, os, struct, time
channel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')
RESULT, DISPLAY = 1, 2
def send(kind, *texts, data=b'', nonce=None):
    body = b''.join(struct.pack('>I', len(text)) + text for text in map(str.encode, texts))
    head = struct.pack('>16sBII', bytes.fromhex(nonce or channel.nonce), kind, len(body), len(data))
    channel._sendall(head + body + data)
"""


async def test_forged_outcomes_change_no_fact(session: Session) -> None:
    forged = FORGER + "send(RESULT, 'forged', '', '', '')\nos._exit(9)"
    _, outcome = await run(session, forged)
    # Either end may come first; both are the session's own loss.
    assert outcome.status in (Status.OK, Status.KILLED)
    # The count of cells is the supervisor's: no frame can set it.
    assert outcome.cell == 1
    await asyncio.wait_for(session.worker.exited.wait(), 10)
    with pytest.raises(errors.SessionLost):
        await run(session, "1")


@pytest.mark.parametrize(
    "frame",
    [
        "send(3)",
        "send(RESULT)",
        "send(RESULT, '', '', '', '', 'a variable without type and shape')",
        "send(DISPLAY, 'application/javascript', data=b'1')",
        "send(DISPLAY, 'text/html')",
        "send(RESULT, '', '', '', '', nonce='ab' * 16)",
        "channel._sendall(struct.pack('>16sBIII', bytes.fromhex(channel.nonce), RESULT, 4, 0, 9))",
        "channel._sendall(struct.pack('>16sBIII', bytes.fromhex(channel.nonce), RESULT, 5, 0, 1) + bytes((255,)))",
    ],
)
async def test_frames_of_a_wrong_shape_end_the_session(session: Session, frame: str) -> None:
    # Right nonce, wrong shape: from the worker itself, so the worker is broken or taken over.
    _, outcome = await run(session, f"{FORGER}\n{frame}\ntime.sleep(60)")
    assert (outcome.status, outcome.session_lost) == (Status.KILLED, True)
    assert "broke the protocol" in outcome.cause


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        # A million empty texts in four megabytes take thirteen times as much in the memory of who reads them.
        ("send(RESULT, *[''] * 1_000_000)", "4,000,000 bytes of texts"),
        ("send(RESULT, *[''] * 10_000)", "or too many"),
        ("send(RESULT, 'x' * (2 << 20))", "2,097,156 bytes of texts"),
        ("send(RESULT, data=b'x' * 100)", "100 bytes of data"),
        ("send(DISPLAY, 'text/html', data=b'x' * (9 << 20))", "9,437,184 bytes of data"),
        ("send(DISPLAY, 'x' * 300, data=b'x')", "304 bytes of texts"),
    ],
)
async def test_frames_that_would_fill_the_supervisor_end_the_session(session: Session, frame: str, cause: str) -> None:
    _, outcome = await run(session, f"{FORGER}\n{frame}\ntime.sleep(60)")
    assert (outcome.status, outcome.session_lost) == (Status.KILLED, True)
    assert cause in outcome.cause


async def test_a_forger_is_ended_at_once_and_answered_later(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "FORGERY_PAUSE_S", 600.0)
    cell = asyncio.create_task(run(session, f"{FORGER}\nsend(3)\ntime.sleep(60)"))
    await asyncio.wait_for(session.worker.exited.wait(), 60)
    await eventually(lambda: bool(session.lost_cause))
    # Who would open the next session for it waits, and may go.
    assert not cell.done()
    cell.cancel()
    await asyncio.gather(cell, return_exceptions=True)
    assert "broke the protocol" in session.lost_cause
    await eventually(lambda: not session.is_busy)


# Thirty of at most twenty; the second ones are no pictures and are shown to nobody.
@pytest.mark.parametrize(("media_type", "data", "shown"), [("text/html", b"a", 20), ("image/png", b"no picture", 0)])
async def test_more_displays_than_allowed_cannot_be_forged(
    session: Session, media_type: str, data: bytes, shown: int
) -> None:
    code = f"for _ in range(30): send(DISPLAY, {media_type!r}, data={data!r})"
    events, outcome = await run(session, FORGER + code)
    assert (outcome.status, outcome.session_lost) == (Status.KILLED, True)
    assert len([event for event in events if isinstance(event, Display)]) == shown


async def test_a_flood_leaves_the_supervisor_free(engine: Engine, session: Session) -> None:
    other = await engine.create()
    flood = asyncio.create_task(run(session, "import os\nwhile True: os.write(1, b'x' * 65536)"))
    # While one session floods, another one gets its answer.
    assert (await run(other, "6 * 7"))[1].result == "42"
    events, outcome = await flood
    assert outcome.status is Status.OUTPUT_LIMIT
    assert len(join_output(events)) <= Config().output_bytes
    await engine.close_session(other.id)


@pytest.mark.parametrize(
    "code",
    [
        # Exceptions whose text, name or class fail when they are looked at, or that cannot be encoded, or are huge.
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E()",
        "class E(Exception):\n    __str__ = None\nraise E()",
        "raise ValueError('\\ud800')",
        "raise ValueError('x' * 10_000_000)",
        "def f(): f()\nf()",
        "raise BaseException('base')",
        "import sys; sys.exit(3)",
        "exit()",
        "raise ExceptionGroup('many', [ValueError(1), KeyError(2)])",
        "class M(type):\n    __name__ = property(lambda self: 1/0)\nclass E(Exception, metaclass=M): pass\nraise E()",
    ],
)
async def test_exceptions_of_any_kind_are_errors_that_can_be_sent(lasting: Session, code: str) -> None:
    _, outcome = await run(lasting, code)
    assert (outcome.status, outcome.session_lost) == (Status.ERROR, False)
    assert outcome.error_name
    # gRPC's messages end at 4 MiB, and a traceback is for a reader.
    assert len(outcome_to_proto(outcome).SerializeToString()) < 200_000
    assert (await run(lasting, "1 + 1"))[1].result == "2"


@pytest.mark.parametrize(
    # What a worker needs for its own work, broken by the cell: repr, streams, json, signals, the namespace.
    "code",
    [
        "class A:\n    def __repr__(self): raise ValueError\nA()",
        "class A:\n    shape = property(lambda self: 1/0)\n    def __len__(self): raise ValueError\na = A()",
        "'x' * 100_000_000",
        "import sys; sys.stdout.close(); sys.stderr = None",
        "import json, builtins\njson.dumps = json.JSONEncoder = None\nbuiltins.print = None",
        "import signal; signal.signal = signal.default_int_handler = None",
        "get_ipython().user_ns[3] = 4\nget_ipython().user_ns['a b'] = 5",
        "display({'image/png': 'no png', 'text/html': 3}, raw=True)",
        "del get_ipython, pd, np, to_date",
    ],
)
async def test_mischief_inside_the_worker_stays_there(session: Session, code: str) -> None:
    _, outcome = await run(session, code)
    assert (outcome.status, outcome.traceback) == (Status.OK, "")
    events, after = await run(session, "import os; os.write(1, b'here')\n1 + 1")
    assert (after.result, join_output(events)) == ("2", "here")
    outcome_to_proto(outcome)


async def test_a_frame_cannot_be_written_outside_the_scratch_folder(session: Session, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    # Links with every name under which the frame might be written, all to a file outside.
    code = f"import os\nfor name in ('.sheet_1.arrow', 'sheet_1', 'sheet_1.arrow'): os.symlink({str(canary)!r}, name)"
    await run(session, code)
    await session.inject("sheet_1", sheet(pd.DataFrame({"a": [1]})))
    assert (await run(session, "int(sheet_1.a[0])"))[1].result == "1"
    assert canary.read_text() == "untouched"
    # Nothing was left over either.
    assert list_files(session.worker.scratch) == []
