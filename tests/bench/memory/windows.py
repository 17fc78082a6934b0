"""GetWindow under a hundred conversations at once against one alone, in one run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from fathom.services.memory.engine import Engine, Turn

CONVERSATIONS, TURNS, ROUNDS, ALONE = 100, 12, 5, 500
ANSWER = "Revenue rose by 5.5% to 12.3 billion. " * 40


async def fill(engine: Engine) -> None:
    """Give each conversation some turns."""
    for number in range(CONVERSATIONS):
        for turn in range(TURNS):
            await engine.append(f"r-{number}-{turn}", f"c{number}", Turn(f"Question {turn}?", "", ANSWER, ""))


def find_p99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.99)]


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

        alone = [await ask(number % CONVERSATIONS) for number in range(ALONE)]

        async def converse(conversation: int) -> list[float]:
            # A user reads an answer before the next question: the hundred do not ask in one moment, but soon after.
            found = []
            for _ in range(ROUNDS):
                await asyncio.sleep(hash((conversation, len(found))) % 1000 / 1000)
                found.append(await ask(conversation))
            return found

        began = time.perf_counter()
        together = await asyncio.gather(*(converse(number) for number in range(CONVERSATIONS)))
        took = time.perf_counter() - began
        every = [one for part in together for one in part]
        return find_p99(alone), find_p99(every), len(every) / took
    finally:
        await engine.close()
