"""Tries what cells may do where the kernel's Landlock is older, and prints it as JSON by ABI: ``UID ABI …``, started as root.

This machine's kernel stands in for older ones, with its ABI capped in the supervisor and in the fork server: what a
cell may do beyond a capped ABI, no rule of its session has asked to refuse.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
CAPPED = (
    "import sys; sys.path.insert(0, sys.argv[2]); from {module} import landlock; landlock.find_abi = lambda: {abi}; "
)
ATTEMPTS = """
import os, signal, socket
def attempt(name, action):
    try: action()
    except OSError as error: print(name, type(error).__name__, sep=": ")
    else: print(name, "went through", sep=": ")
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
attempt("moving", lambda: os.rename("mine2", "folder/mine2"))
attempt("truncating", lambda: os.truncate("{outside}", 0))
"""


def cap_abi(abi: int, fork_server: str) -> None:
    """Let this process and the fork servers that it starts by that program see no more of Landlock than that."""
    from fathom.services.sandbox.inside.jail import landlock
    from fathom.services.sandbox.ipc import programs

    landlock.find_abi = lambda: abi
    programs.FORK_SERVER = CAPPED.format(module="fathom.services.sandbox.inside.jail", abi=abi) + fork_server


async def try_everything() -> dict[str, object]:
    """Return what the attempts came to, and what is left of the session and its neighbour afterwards."""
    from fathom.core.telemetry import Telemetry
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.metrics import Metrics
    from fathom.services.sandbox.supervisor.engine import Engine
    from fathom.services.sandbox.supervisor.isolation.probe import IsolationTooWeak
    from tests.integration.sandbox.conftest import alive, run_cell

    telemetry = Telemetry("sandbox", stream=io.StringIO())
    config = Config(
        walls="landlock", min_isolation="landlock", max_sessions=2, spares=0, cgroups=False, start_timeout_s=120.0
    )
    engine = Engine(config, telemetry.log, Metrics.register(telemetry.registry).note)
    try:
        await engine.start()
    except IsolationTooWeak as error:
        return {"refused": error.message}
    try:
        session, neighbour = [await engine.create() for _ in range(2)]
        with tempfile.NamedTemporaryFile("w") as outside:
            # For everybody to write to: what keeps cells from it is no permission.
            os.chmod(outside.name, 0o666)
            names = {"supervisor": os.getpid(), "neighbour": neighbour.worker.pid, "outside": outside.name}
            code = ATTEMPTS
            for name, value in names.items():
                code = code.replace(f"{{{name}}}", str(value))
            printed, outcome = await run_cell(session, code)
        started = [pid for pid in [session.worker.pid, session.worker.init_pid] if alive(pid)]
        await engine.close_session(session.id)
        return {
            "layers": engine.report.layers,
            "missing": engine.report.missing,
            "status": outcome.status.name,
            "attempts": dict(line.split(": ") for line in printed.splitlines()),
            "started": len(started),
            "left": len([pid for pid in started if alive(pid)]),
            "neighbour": (await run_cell(neighbour, "1 + 1"))[1].result,
            "uid": os.getuid(),
        }
    finally:
        await engine.close()


async def try_kernels(abis: list[int]) -> dict[int, dict[str, object]]:
    """Return what was seen under each ABI, by an engine of its own; one process, since its imports take seconds."""
    from fathom.services.sandbox.ipc import programs

    fork_server, seen = programs.FORK_SERVER, {}
    for abi in abis:
        cap_abi(abi, fork_server)
        seen[abi] = await try_everything()
    return seen


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "libs"), str(ROOT)]
    if int(sys.argv[1]):
        from tests.integration.sandbox.programs.as_nobody import become_nobody

        become_nobody()
    print(json.dumps(asyncio.run(try_kernels([int(abi) for abi in sys.argv[2:]]))))
