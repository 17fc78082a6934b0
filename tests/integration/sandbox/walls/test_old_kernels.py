"""The level ``landlock`` on kernels that offer less of Landlock: what it says, and what it keeps from cells there.

This machine's kernel stands in for them, with its ABI capped in the supervisor and in the fork server: what a cell may
do beyond a capped ABI, no rule of its session has asked to refuse.
"""

from __future__ import annotations

import os

import pytest

from fathom.services.sandbox.inside.jail import landlock
from fathom.services.sandbox.ipc import programs
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.isolation.probe import IsolationTooWeak
from tests.integration.sandbox.conftest import alive, make_engine, run_cell

CAPPED = (
    "import sys; sys.path.insert(0, sys.argv[2]); from {module} import landlock; landlock.find_abi = lambda: {abi}; "
)
ATTEMPTS = """
import os, signal, socket
def attempt(name, action):
    try: action()
    except OSError as error: print(name, type(error).__name__)
    else: print(name, "went through")
child = os.fork()
if child == 0:
    import time; time.sleep(600)
attempt("supervisor", lambda: os.kill({supervisor}, 0))
attempt("neighbour", lambda: os.kill({neighbour}, signal.SIGKILL))
attempt("first process", lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt("everybody", lambda: os.kill(-1, signal.SIGKILL))
attempt("child", lambda: os.kill(child, signal.SIGKILL))
attempt("handle", lambda: signal.pidfd_send_signal(os.pidfd_open({neighbour}), signal.SIGKILL))
attempt("TCP", lambda: socket.socket().connect(("127.0.0.1", 1)))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0fathom"))
attempt("reading", lambda: open("/etc/passwd").read())
attempt("writing", lambda: open("/var/tmp/fathom-escaped", "w"))
attempt("own file", lambda: open("mine", "w"))
attempt("renaming", lambda: (os.mkdir("folder"), os.rename("mine", "mine2")))
"""
REFUSED = (
    "supervisor",
    "neighbour",
    "first process",
    "everybody",
    "child",
    "handle",
    "TCP",
    "abstract",
    "reading",
    "writing",
)


def cap_abi(monkeypatch: pytest.MonkeyPatch, abi: int) -> None:
    """Let this process and the fork servers that it starts see no more of Landlock than that."""
    if landlock.find_abi() < landlock.SCOPES:
        pytest.skip("this kernel has not what is to be taken away here")
    monkeypatch.setattr(landlock, "find_abi", lambda: abi)
    capped = CAPPED.format(module="fathom.services.sandbox.inside.jail", abi=abi)
    monkeypatch.setattr(programs, "FORK_SERVER", capped + programs.FORK_SERVER)


@pytest.mark.parametrize("abi", [5, 3, 1])
async def test_before_linux_6_12_the_filter_keeps_signals_in_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch, abi: int
) -> None:
    cap_abi(monkeypatch, abi)
    engine = make_engine(walls="landlock", min_isolation="landlock", max_sessions=2, spares=0, cgroups=False)
    await engine.start()
    try:
        assert f"landlock ABI {abi}" in engine.report.layers
        assert any(text.startswith(f"signals: Landlock ABI {abi} does not") for text in engine.report.missing)
        session, neighbour = [await engine.create() for _ in range(2)]
        names = {"supervisor": os.getpid(), "neighbour": neighbour.worker.pid}
        code = ATTEMPTS
        for name, pid in names.items():
            code = code.replace(f"{{{name}}}", str(pid))
        printed, outcome = await run_cell(session, code)
        assert outcome.status is Status.OK, outcome.traceback
        ends = dict(line.rsplit(" ", 1) for line in printed.splitlines() if not line.endswith("went through"))
        assert {name: ends.get(name) for name in REFUSED} == dict.fromkeys(REFUSED, "PermissionError"), printed
        assert "own file went through\nrenaming went through\n" in printed
        # What it may not signal itself goes with its session all the same.
        started = [pid for pid in [session.worker.pid, session.worker.init_pid] if alive(pid)]
        assert len(started) == 2
        await engine.close_session(session.id)
        assert [pid for pid in started if alive(pid)] == []
        assert (await run_cell(neighbour, "1 + 1"))[1].result == "2"
    finally:
        await engine.close()


async def test_without_landlock_the_level_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cap_abi(monkeypatch, 0)
    engine = make_engine(walls="landlock", min_isolation="landlock", spares=0)
    with pytest.raises(IsolationTooWeak, match="Landlock is not offered by this kernel"):
        await engine.start()
