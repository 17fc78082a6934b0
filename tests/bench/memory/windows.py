"""GetWindow under a hundred conversations at once against one alone, in one run."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
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


async def measure(place: Path | str) -> tuple[float, float, float]:
    """Return the p99 of a caller alone and of one among a hundred, and windows per second of the hundred."""
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
        alone: list[float] = []
        every: list[float] = []
        took = 0.0
        for number in range(ROUNDS):
            # In turns, so that whatever else the machine does meets both.
            alone += [await ask(other) for other in range(CONVERSATIONS)]
            began = time.perf_counter()
            every += await asyncio.gather(*(converse(ask, other, number) for other in range(CONVERSATIONS)))
            took += time.perf_counter() - began
        return find_p99(alone), find_p99(every), len(every) / took
    finally:
        await engine.close()
