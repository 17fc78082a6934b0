"""A session's cells beside eight that attack, against the same cells in quiet: p50, p99 and their ratio; the goal is 3.

Quiet and attack take turns, so that what else this machine does meets both. An attacker whose session ends opens
another one at once. All are people's, so that no lane gives way to another.

``NEIGHBOURS=spinning,forking`` runs these attacks alone; ``NEIGHBOURS_CGROUPS=0`` does without control groups, and
``NEIGHBOURS_NOBODY=1``, as root, runs it as nobody at level landlock, without control groups: as in the chart.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import numpy as np

from fathom.core.errors import FathomError
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.host.scheduling import go_first
from fathom.services.sandbox.supervisor.main import THREADS
from tests.bench.sandbox import engine, execute
from tests.integration.sandbox.programs.as_nobody import become_nobody

ATTACKERS, CELLS, ROUNDS, GOAL = 8, 100, 2, 3.0
# Attacks begin within this time; what is measured before it would be quiet.
LEAD_S = 1.0
CHANNEL = "import gc\nchannel = next(x for x in gc.get_objects() if type(x).__name__ == 'Channel')\n"
FIGURES = """
figure = b'{"data": [' + b'[0],' * 99_000 + b'0]}'
for _ in range(20): channel.send_display('application/vnd.plotly.v1+json', figure)
"""
ATTACKS: Mapping[str, str] = {
    "spinning": "while True: pass",
    "forking": """
import os
while True:
    try:
        if os.fork() == 0:
            while True: pass
    except OSError: pass
""",
    "allocating": "while True: block = bytearray(b'x') * (500 << 20)",
    "flooding the output": "while True: print('x' * 100_000)",
    # What costs the reader most and ends no session: twenty figures of lists in each cell, up to the limits.
    "flooding with figures": CHANNEL + FIGURES,
    # The longest result that can be, of as many texts; then one text too much, and the session ends.
    "flooding the socket": CHANNEL
    + """
texts = ['x' * 1_500] * 604
while True: channel._sendall(channel._pack(1, channel.nonce, texts))
""",
    "flooding with forged frames": CHANNEL + "while True: channel._sendall(bytes(range(256)) * 2_000)",
}


async def attack(walled: Engine, code: str) -> None:
    """Run an attack for ever, in one session after the other."""
    while True:
        with suppress(FathomError):
            session = await walled.create()
            try:
                while not session.lost_cause:
                    await execute(session, code)
            finally:
                with suppress(FathomError):
                    await walled.close_session(session.id)


@asynccontextmanager
async def attackers(walled: Engine, code: str) -> AsyncIterator[None]:
    """Keep the attackers at work for the duration of the context."""
    tasks = [asyncio.create_task(attack(walled, code)) for _ in range(ATTACKERS)]
    try:
        await asyncio.sleep(LEAD_S)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(walled: Engine) -> list[float]:
    """Return the seconds of a neighbour's cells, one after the other."""
    session, found = await walled.create(), []
    for _ in range(CELLS):
        started = time.perf_counter()
        await execute(session, "1 + 1")
        found.append(time.perf_counter() - started)
    assert not session.lost_cause, session.lost_cause
    await walled.close_session(session.id)
    return found


async def compare(walled: Engine, code: str) -> tuple[list[float], list[float]]:
    """Return a neighbour's seconds in quiet and beside an attack."""
    quiet: list[float] = []
    beside: list[float] = []
    for _ in range(ROUNDS):
        quiet += await measure(walled)
        async with attackers(walled, code):
            beside += await measure(walled)
    return quiet, beside


async def run() -> None:
    names = os.environ.get("NEIGHBOURS", ",".join(ATTACKS)).split(",")
    # As the supervisor's own process does.
    go_first()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, initializer=go_first))
    has_groups = os.environ.get("NEIGHBOURS_CGROUPS", "1") != "0"
    walls = "namespace"
    if os.environ.get("NEIGHBOURS_NOBODY", "0") != "0":
        become_nobody()
        walls = "landlock"
    async with engine(spares=2, cell_wall_ms=20_000, cgroups=has_groups, walls=walls, min_isolation=walls) as walled:
        print(f"isolation {walled.report.level.word}; {walled.report.missing or 'nothing missing'}")
        for name in names:
            quiet, beside = (np.array(seconds) * 1000 for seconds in await compare(walled, ATTACKS[name]))
            p50, p99 = ((np.percentile(quiet, share), np.percentile(beside, share)) for share in (50, 99))
            print(
                f"{name:28} p50 {p50[0]:6.1f} ms quiet, {p50[1]:6.1f} beside {ATTACKERS}; p99 {p99[0]:6.1f} ms,"
                f" {p99[1]:6.1f}: {p99[1] / p99[0]:5.2f} times (goal {GOAL:g})",
                flush=True,
            )
