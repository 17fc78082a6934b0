"""Queued rollouts over a real nats-server: a planner is killed in the middle, another one plays what is missing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.services.local import Endpoints
from fathom.transport.bus import open_bus
from fathom.transport.bus.streams import AWAITED
from fathom.transport.store import ObjectStore, open_store
from tests.integration.stack.planners import Planners, planners, start
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "What is maximum drawdown?"


def make_submission(rollout_id: str, tasks: int, group_size: int) -> pb.SubmitRolloutRequest:
    rollout = pb.RolloutRequest(
        request_id=rollout_id,
        tasks=[pb.RolloutTask(id=f"t{at}", question=QUESTION) for at in range(tasks)],
        group_size=group_size,
        protocol=trajectory.PROTOCOL_RESEARCH,
        model="rules",
        prompts={"answer": "evidence"},
        as_of=Timestamp(seconds=1_700_000_000),
    )
    return pb.SubmitRolloutRequest(rollout=rollout)


def list_tasks(found: Planners, name: str) -> set[int]:
    """Return the tasks that a planner has taken up."""
    lines = [line for line in found.logs[name].read_text().splitlines() if "queued task acquired" in line]
    return {json.loads(line)["task"] for line in lines}


async def test_a_queued_rollout_outlives_the_planner_that_plays_it(stack: Stack, tmp_path: Path) -> None:
    endpoints, _ = stack
    tasks, group_size = 2, 2
    every = sorted((task, sample) for task in range(tasks) for sample in range(group_size))
    async with planners(endpoints, tmp_path, "first", "second") as (found, clients):
        killed: list[str] = []
        submitted = asyncio.Event()

        async def before(method: str, request_id: str) -> None:
            # The second submission must not meet the planner that is killed.
            await submitted.wait()
            # The second round of an episode: none of its group has ended.
            if method == "Generate" and request_id.endswith("-1") and not killed:
                killed.append(next(name for name in ("first", "second") if list_tasks(found, name)))
                found.processes[killed[0]].send_signal(signal.SIGKILL)

        found.on_call.append(before)
        request = make_submission("ro-killed", tasks, group_size)
        for _ in range(2):
            assert (await clients.planner.submit_rollout(request)).rollout_id == "ro-killed"
        submitted.set()
        await eventually(lambda: killed, within_s=60)
        async with asyncio.timeout(60):
            survivor = "second" if killed == ["first"] else "first"
            others = connect({"planner": found.urls[survivor]})
            try:
                responses = []
                watch = pb.WatchRolloutRequest(rollout_id="ro-killed")
                async with aclosing(others.planner.watch_rollout(watch)) as stream:
                    responses = [response async for response in stream]
                watch.after_sequence = responses[-2].sequence
                assert [response async for response in others.planner.watch_rollout(watch)] == responses[-1:]
            finally:
                await others.close()
        items = [response.trajectory for response in responses]
        assert sorted((item.task_index, item.sample_index) for item in items) == every, "each exactly once"
        assert {item.stop_reason for item in items} == {trajectory.STOP_REASON_FINISHED}
        assert list_tasks(found, killed[0]) & list_tasks(found, survivor), (
            "what the killed one had begun, the other has played"
        )
        store = open_store(endpoints.store)
        kept = Counter(item.key.rpartition("/")[2][:7] for item in await store.list("rollouts/ro-killed/0"))
        assert set(kept.values()) == {1}
        assert len(kept) == len(every)
        await left_without_its_watcher(found, survivor, store)


async def test_a_planner_that_joins_gets_work_and_one_that_leaves_loses_none(stack: Stack, tmp_path: Path) -> None:
    """One planner plays as many tasks as it may; another one joins, plays the rest, and then those of the first."""
    endpoints, _ = stack
    tasks, places = 6, 4
    async with AsyncExitStack() as contexts, planners(endpoints, tmp_path, "first") as (found, clients):
        free = asyncio.Event()

        async def hold(method: str, request_id: str) -> None:
            if method == "Generate":
                await free.wait()

        found.on_call.append(hold)
        await clients.planner.submit_rollout(make_submission("ro-elastic", tasks, 1))
        await eventually(lambda: len(list_tasks(found, "first")) == places, within_s=60)
        await start(contexts, found, "second", tmp_path, endpoints.store)
        await eventually(lambda: len(list_tasks(found, "second")) == tasks - places, within_s=60)
        found.processes["first"].terminate()
        free.set()
        others = connect({"planner": found.urls["second"]})
        contexts.push_async_callback(others.close)
        watch = pb.WatchRolloutRequest(rollout_id="ro-elastic")
        async with asyncio.timeout(60):
            items = [response.trajectory async for response in others.planner.watch_rollout(watch)]
            await found.processes["first"].wait()
    assert {item.stop_reason for item in items} == {trajectory.STOP_REASON_FINISHED}
    assert sorted(item.task_index for item in items) == list(range(tasks)), "each exactly once"


async def left_without_its_watcher(found: Planners, name: str, store: ObjectStore) -> None:
    """A trainer that was killed: its lease ends, what is played is cut short; it comes back, and all is played."""
    free = asyncio.Event()

    async def hold(method: str, request_id: str) -> None:
        if method == "Generate" and request_id.startswith("ro-left") and not free.is_set():
            await free.wait()

    found.on_call.append(hold)
    clients, bus = connect({"planner": found.urls[name]}), await open_bus(found.bus, store)
    try:
        request = make_submission("ro-left", 2, 1)
        await clients.planner.submit_rollout(request)
        await eventually(lambda: "ro-left" in found.logs[name].read_text())
        await bus.bucket(AWAITED).delete("ro-left")  # as its age would

        async def are_left() -> bool:
            return len(await store.list("rollouts/ro-left/left/")) >= 2

        await eventually(are_left)
        async with asyncio.timeout(30):
            free.set()
            await clients.planner.submit_rollout(request)
            watch = pb.WatchRolloutRequest(rollout_id="ro-left")
            responses = [response async for response in clients.planner.watch_rollout(watch)]
    finally:
        await bus.close()
        await clients.close()
    assert {item.trajectory.stop_reason for item in responses} == {trajectory.STOP_REASON_FINISHED}
    assert sorted(item.trajectory.task_index for item in responses) == [0, 1]


async def test_a_queued_rollout_is_the_rollout_that_is_streamed(stack: Stack) -> None:
    """The same episodes, bit for bit; in the stack's own planner, in its training lane."""
    _, clients = stack
    request = make_submission("ro-same", 1, 1)
    await clients.planner.submit_rollout(request)
    watch = pb.WatchRolloutRequest(rollout_id="ro-same")
    async with asyncio.timeout(30):
        [response] = [response async for response in clients.planner.watch_rollout(watch)]
    request.rollout.request_id = "ro-streamed"
    [streamed] = [response.trajectory async for response in clients.planner.rollout(request.rollout)]
    assert response.trajectory.hash == streamed.hash
    stop = pb.StopRolloutRequest(rollout_id="ro-same")
    assert [(await clients.planner.stop_rollout(stop)).was_queued for _ in range(2)] == [True, False]
