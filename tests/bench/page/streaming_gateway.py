"""A gateway in a process of its own whose runs tell something when they are told to: ``python -m`` this, with pipes.

It prints its address, then reads lines: ``tell EVENTS EVERY_S`` lets each run tell so many events, with their times;
``end`` lets all of them finish. Each line is answered with ``done``.
"""

from __future__ import annotations

import asyncio
import sys

from tests.e2e.doubles.planner import ReplayPlanner
from tests.e2e.replay import serve_script
from tests.e2e.script import Script


async def tell(planner: ReplayPlanner, events: int, every_s: float) -> None:
    """Let each run tell something, all of them spread over every period, as people's runs are."""
    runs = list(planner.runs)

    async def tell_one(place: int, run_id: str) -> None:
        await asyncio.sleep(every_s * place / len(runs))
        for number in range(events):
            started = asyncio.get_running_loop().time()
            await planner.tell(run_id, thought={"text": f"Step {number}. " * 20, "kind": "plan"})
            await asyncio.sleep(max(0.0, every_s - (asyncio.get_running_loop().time() - started)))

    await asyncio.gather(*(tell_one(place, run_id) for place, run_id in enumerate(runs)))


async def main() -> None:
    """Serve until standard input ends."""
    async with serve_script(Script(days=5)) as house:
        house.planner.hold(before=2)
        print(house.url, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, *numbers = line.split()
            if command == "tell":
                await tell(house.planner, int(numbers[0]), float(numbers[1]))
            else:
                house.planner.release()
            print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
