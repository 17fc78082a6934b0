"""Opens and closes sessions at one level as one user, and prints as JSON what they leave: ``LEVEL UID SESSIONS``.

It is started as root by a test and a benchmark, and becomes the user itself.
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
# Sessions of one cell that writes a file, starts a child that outlives it, and draws on the session's memory.
CELL = """
import subprocess, sys
open('left.bin', 'wb').write(b'x' * 100_000)
subprocess.Popen(['sleep', '600'], start_new_session=True)
sum(range(1_000))
"""
AT_ONCE = 4


def list_descendants() -> set[int]:
    """Return the living processes below this one, which adopts the orphans among them."""
    from fathom.services.sandbox.supervisor.host.procfs import read_snapshot

    children, found = read_snapshot().children, [os.getpid()]
    for pid in found:
        found += [item.pid for item in children.get(pid, [])]
    return set(found[1:])


def count_bytes() -> int:
    """Return the bytes of files, with their folders, in the place of temporary files, which is this program's own."""
    return sum(path.lstat().st_size for path in Path(tempfile.gettempdir()).rglob("*"))


async def open_and_close(level: str, sessions: int) -> dict[str, object]:
    """Return what is left when an engine has closed that many sessions and itself."""
    from fathom.core.telemetry import Telemetry
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.metrics import Metrics
    from fathom.services.sandbox.supervisor.engine import Engine
    from fathom.services.sandbox.supervisor.events import Outcome, Status

    telemetry = Telemetry("sandbox", stream=io.StringIO())
    config = Config(walls=level, min_isolation=level, spares=1, max_sessions=AT_ONCE, start_timeout_s=120.0)
    engine = Engine(config, telemetry.log, Metrics.register(telemetry.registry).note)
    await engine.start()
    gate, ended_well = asyncio.Semaphore(AT_ONCE), 0

    async def run_one() -> None:
        nonlocal ended_well
        async with gate:
            session = await engine.create()
            outcome = [event async for event in session.execute("", CELL, 0)][-1]
            assert isinstance(outcome, Outcome)
            ended_well += outcome.status is Status.OK and outcome.result == "499500"
            await engine.close_session(session.id)

    try:
        await asyncio.gather(*(run_one() for _ in range(sessions)))
        groups = 0
        # A worker that is being made has its group before it counts as kept ready.
        if engine._refilling is not None:
            await engine._refilling
        if engine._jailer is not None and engine._jailer.cgroups is not None:
            engine._jailer.cgroups.sweep()
            held = {folder.name for folder in engine._jailer.cgroups.list_groups()}
            # Of the worker that is kept ready.
            groups = sum(name.startswith(f"fathom-jail-{os.getpid()}-") for name in held) - len(engine._spares)
        open_sessions = len(engine._sessions)
    finally:
        await engine.close()
    return {"ok": ended_well, "open": open_sessions, "groups": groups}


async def measure(level: str, sessions: int) -> dict[str, object]:
    # A first engine opens what stays open once and for all, such as the event loop's own pipes.
    await open_and_close(level, 1)
    processes, files, size = list_descendants(), len(os.listdir("/proc/self/fd")), count_bytes()
    seen = await open_and_close(level, sessions)
    return seen | {
        "processes": len(list_descendants() - processes),
        "descriptors": len(os.listdir("/proc/self/fd")) - files,
        "bytes": count_bytes() - size,
    }


def main(level: str, uid: int, sessions: int) -> None:
    from fathom.services.sandbox.inside.jail import kernel

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        own = os.path.join(folder, "own")
        os.mkdir(own)
        os.chown(own, uid, uid)
        os.environ["TMPDIR"] = tempfile.tempdir = own
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        # What sessions leave becomes a child of this process, so that none is overlooked.
        kernel.adopt_orphans()
        if uid:
            from tests.integration.sandbox.programs.as_nobody import open_the_way

            open_the_way(sorted({sys.base_prefix, sys.prefix, str(ROOT)}))
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.environ["HOME"] = "/nonexistent"
        print(json.dumps(asyncio.run(measure(level, sessions))), flush=True)
        os._exit(0)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "libs"), str(ROOT)]
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
