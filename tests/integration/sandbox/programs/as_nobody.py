"""Runs sessions at one level as a user without any privilege, and prints what it saw as JSON; started as root.

Python may live where that user cannot go (/root, say). In a mount namespace of this process's own the way
there is opened, without changing anything on the machine.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 65_534


def open_the_way(paths: list[str]) -> None:
    """Puts an empty folder over the first one that others may not enter, with only the wanted path in it."""
    from fathom.services.sandbox.inside.jail import kernel

    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    for path in paths:
        shut = next((parent for parent in [*reversed(Path(path).parents)] if not parent.stat().st_mode & 0o001), None)
        if shut is None:
            continue
        source = os.open(path, os.O_PATH)
        kernel.mount("tmpfs", str(shut), "tmpfs", 0, "size=1m,mode=755")
        os.makedirs(path)
        kernel.mount(f"/proc/self/fd/{source}", path, "", kernel.MS_BIND | kernel.MS_REC)
        os.close(source)


def become_nobody() -> None:
    """Become a user without privileges that can read Python and the checkout."""
    open_the_way(sorted({sys.base_prefix, sys.prefix, str(ROOT)}))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.environ["HOME"] = "/nonexistent"


async def sessions(level: str) -> dict[str, object]:
    """Isolation, and how a few cells ended."""
    from fathom.core.telemetry import Telemetry
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.metrics import Metrics
    from fathom.services.sandbox.supervisor.engine import Engine
    from fathom.services.sandbox.supervisor.events import Outcome

    telemetry = Telemetry("sandbox", stream=io.StringIO())
    config = Config(walls=level, min_isolation=level, spares=1, processes=16, memory_bytes=300 << 20)
    engine = Engine(config, telemetry.log, Metrics.register(telemetry.registry).note)
    await engine.start()
    try:
        seen: dict[str, object] = {"level": engine.report.level.word, "layers": engine.report.layers}
        cells = {
            "state": "x = 6 * 7\nx",
            "uid": "import os; os.getuid()",
            "forks": "import time\nfor _ in range(100):\n    if os.fork() == 0: time.sleep(30)",
            "host file": "open('/proc/1/environ').read()",
            "memory": "y = bytearray(b'1') * (900 << 20)",
            "many files": "i = 0\nwhile True:\n    open(f'f{i}', 'w').close(); i += 1",
        }
        session = await engine.create()
        for name, code in cells.items():
            if session.lost_cause:
                await engine.close_session(session.id)
                session = await engine.create()
            outcome = [event async for event in session.execute("", code, 30_000)][-1]
            assert isinstance(outcome, Outcome)
            seen[name] = [outcome.status.name, outcome.result or outcome.error_name]
        return seen
    finally:
        await engine.close()


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "libs"), str(ROOT)]
    become_nobody()
    print(json.dumps(asyncio.run(sessions(sys.argv[1]))))
