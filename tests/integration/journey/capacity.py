"""Cost of one question and one rollout for each pod of a release, on the simulated cluster.

As a program in a pod, ``python3 -m tests.integration.journey.capacity PREFIX WORK FIRST COUNT``, it is those who ask and
train: ``USERS`` at once, until COUNT questions or rollouts have ended.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.ids import new_id
from tests.integration.cluster.cluster import Cluster
from tests.integration.cluster.load import Wrong, browse, connect_services
from tests.integration.cluster.manifests import hook, running
from tests.integration.cluster.scenarios import ONE_OF_EACH, PREFIX, cluster, make_environ, measure_pods

USERS = 4
# The first ones load encoders and open sessions, which no later one pays.
WARM, COUNT = 4, 24
READY_S = 300.0
COMPANIES, YEARS = ("Apple", "Microsoft", "Walmart", "Pfizer"), range(2001, 2021)
WORK = ("question", "rollout")


def compose_questions() -> Iterator[str]:
    """Yield questions that the bundled data answer, each once: what is asked twice is found in caches."""
    for year, company in itertools.product(YEARS, COMPANIES):
        yield f"What was the maximum drawdown of {company} in {year}?"


async def ask_questions(prefix: str, questions: Sequence[str]) -> None:
    """Ask as the page does, ``USERS`` at once, each to its answer. Raises ``Wrong`` for one that cites nothing."""
    left = iter(questions)

    async def use() -> None:
        for question in left:
            await browse(f"http://{prefix}-gateway", question)

    await asyncio.gather(*(use() for _ in range(USERS)))


async def play_rollouts(prefix: str, questions: Sequence[str]) -> None:
    """Play the questions as episodes, ``USERS`` at once, as a trainer asks for them. Raises ``Wrong`` for one that fails."""
    request = planner.RolloutRequest(
        request_id=new_id("ro"), tasks=[planner.RolloutTask(id=new_id("task"), question=asked) for asked in questions],
        group_size=1, protocol=trajectory.PROTOCOL_RESEARCH, model="rules", concurrency=USERS,
    )  # fmt: skip
    clients = connect_services(prefix, sandboxes=1)
    try:
        played = [reply.trajectory async for reply in clients.planner.rollout(request)]
    finally:
        await clients.close()
    failed = [item.error for item in played if item.stop_reason == trajectory.STOP_REASON_FAILED]
    if failed or len(played) != len(questions):
        raise Wrong(f"{len(failed)} of {len(played)} failed, {len(questions)} were asked for: {failed[:1]}")


async def capacity(folder: Path) -> dict[str, Any]:
    """Measure both kinds of work on one pod of each service; return processor seconds and memory by component."""
    async with cluster(folder, *ONE_OF_EACH, ready_s=READY_S) as found:
        places = itertools.accumulate([WARM, COUNT] * len(WORK), initial=0)
        measured = {}
        for work in WORK:
            await put_to_work(found, work, next(places), WARM)
            measured[work] = await measure_work(found, work, next(places))
        return measured


async def measure_work(found: Cluster, work: str, first: int) -> dict[str, Any]:
    """Return what ``COUNT`` questions or rollouts took of each pod, and of the time."""
    before, began = await measure_pods(found), time.monotonic()
    await put_to_work(found, work, first, COUNT)
    seconds, after = time.monotonic() - began, await measure_pods(found)
    return {
        "count": COUNT,
        "seconds": seconds,
        "processor_s": {name: after[name]["processor_s"] - before[name]["processor_s"] for name in after},
        "memory_mib": {name: after[name]["memory_mib"] for name in after},
    }


async def put_to_work(found: Cluster, work: str, first: int, count: int) -> None:
    """Run the program of those who ask in a pod of its own; raise ``Wrong`` when it fails."""
    asked = [PREFIX, work, str(first), str(count)]
    command = ["env", *make_environ(), "python3", "-m", "tests.integration.journey.capacity", *asked]
    status, said = await found.run(running(hook(found.documents, "test"), f"{work}-{first}", command))
    if status:
        raise Wrong(said[-2000:])


async def main(prefix: str, work: str, first: str, count: str) -> None:
    questions = list(itertools.islice(compose_questions(), int(first), int(first) + int(count)))
    await {"question": ask_questions, "rollout": play_rollouts}[work](prefix, questions)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
