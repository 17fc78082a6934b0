"""GetWindow under a hundred conversations at once against one alone, in one run.

One alone asks after pauses, as each of the hundred does: behind a pause caches are cold and the processor sleeps, which
is not the doing of the others. One that asks without pauses is measured as well.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.services.memory.engine import Engine, Turn

CONVERSATIONS, TURNS, ROUNDS = 100, 12, 10
ANSWER = "Revenue rose by 5.5% to 12.3 billion. " * 40


async def fill(engine: Engine) -> None:
    """Give each conversation some turns."""
    for number in range(CONVERSATIONS):
        for turn in range(TURNS):
            await engine.append(f"r-{number}-{turn}", f"c{number}", Turn(f"Question {turn}?", "", ANSWER, ""))


def find_p99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.99)]


async def converse(ask: Callable[[int], Awaitable[float]], conversation: int, number: int) -> float:
    """Ask once within a second: a hundred users do not ask in one moment, since each reads before the next question."""
    await asyncio.sleep(random.Random(f"{conversation} {number}").random())
    return await ask(conversation)


@dataclass(frozen=True)
class Waits:
    """99th percentiles in seconds, and windows per second of the hundred."""

    without_pauses: float
    alone: float
    together: float
    rate: float


async def measure(place: Path | str) -> Waits:
    """Return how long a caller alone waits, without and with pauses, and one among a hundred."""
    engine = Engine(place)
    await engine.start()
    try:
        await fill(engine)

        async def ask(conversation: int) -> float:
            began = time.perf_counter()
            await engine.get_window(f"c{conversation}", 2, 10)
            return time.perf_counter() - began

        # Connections are made once, by the first who ask together.
        await asyncio.gather(*(ask(number) for number in range(CONVERSATIONS)))
        hurried: list[float] = []
        alone: list[float] = []
        every: list[float] = []
        took = 0.0
        for number in range(ROUNDS):
            # In turns, so that whatever else the machine does meets both.
            hurried += [await ask(other) for other in range(CONVERSATIONS)]
            for other in range(CONVERSATIONS):
                # On average as long as between two questions of the hundred.
                await asyncio.sleep(random.Random(f"{number} {other}").random() * 2 / CONVERSATIONS)
                alone.append(await ask(other))
            began = time.perf_counter()
            every += await asyncio.gather(*(converse(ask, other, number) for other in range(CONVERSATIONS)))
            took += time.perf_counter() - began
        return Waits(find_p99(hurried), find_p99(alone), find_p99(every), len(every) / took)
    finally:
        await engine.close()
