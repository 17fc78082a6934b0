"""Starts an engine where the kernel refuses further namespaces, and prints how that ended; started by a test.

The refusal is real: this process is in a user namespace of its own whose limit is nought.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path[:0] = [str(ROOT / "libs"), str(ROOT)]


def refuse_namespaces() -> None:
    """Enters a user namespace in which this user is itself, and forbids any below it."""
    from fathom.services.sandbox.inside.jail import kernel

    uid, gid = os.geteuid(), os.getegid()
    kernel.make_dumpable()
    kernel.unshare(kernel.CLONE_NEWUSER)
    kernel.write("/proc/self/setgroups", "deny")
    kernel.write("/proc/self/uid_map", f"{uid} {uid} 1")
    kernel.write("/proc/self/gid_map", f"{gid} {gid} 1")
    kernel.write("/proc/sys/user/max_user_namespaces", "0")


async def start(min_isolation: str) -> str:
    """The level achieved, or why there is none."""
    from fathom.services.sandbox.supervisor.isolation.probe import IsolationTooWeak
    from tests.integration.sandbox.conftest import make_engine

    engine = make_engine(min_isolation=min_isolation, spares=0)
    try:
        await engine.start()
    except IsolationTooWeak as error:
        return error.message
    await engine.close()
    return engine.report.level.word


if __name__ == "__main__":
    if os.geteuid() == 0:
        from tests.integration.sandbox.programs.as_nobody import NOBODY, open_the_way

        open_the_way(sorted({sys.base_prefix, sys.prefix, str(ROOT)}))
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    refuse_namespaces()
    print(asyncio.run(start(sys.argv[1])))
