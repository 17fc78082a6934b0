"""Queued rollouts: one trajectory per task and sample, whichever planners die, sleep or fail meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane
from fathom.core.errors import (
    Cancelled,
    Conflict,
    DeadlineExceeded,
    DependencyFailed,
    FathomError,
    InvalidField,
    NotFound,
    NotReady,
    Overloaded,
    VersionMismatch,
)
from fathom.services.planner.config import Config
from fathom.services.planner.engine import Engine
from fathom.services.planner.rollouts import queue
from fathom.services.planner.rollouts.leases import WatcherLeases
from fathom.services.planner.rollouts.queue import RolloutQueue
from fathom.services.planner.rollouts.service import Rollouts
from fathom.transport.bus.base import Message
from fathom.transport.bus.log import Log
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import MAX_DELIVER, Retention, Stream, topology, trajectory_subject
from fathom.transport.store.memory import MemoryStore
from tests.support.clock import loop_time, pass_time, simulate_time
from tests.support.waiting import eventually, settle
from tests.unit.planner.house import House, Script, echo, finish

LINES = (echo("a"), finish("It is so."))
# A lease of 0.4 s renewed four times over; simulated where a test waits for its end.
LEASE_S, RENEW_S = 0.4, 0.1


class Planner:
    """One of several planners over a house's bus and store; it counts the episodes that it samples for."""

    def __init__(self, house: House, **settings: Any) -> None:
        self.policy = Script(house.policy.lines)
        config = Config(**{"heartbeat_s": 0.05, **settings})
        engine = Engine(lambda protocol: self.policy, house.stage)
        log = house.telemetry.log
        rollouts = Rollouts(config, engine, house.protocols(), house.record, house.clients, log)
        waiting = WatcherLeases(house.store, house.bus, log, RENEW_S)
        self.queue = RolloutQueue(config, rollouts, house.store, house.bus, log, waiting)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.queue.work(Lane.TRAINING))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def begun_runs(self) -> list[str]:
        """Return runs whose first step was sampled here."""
        # The first sampling of a run has index 0: whoever makes it has begun the run.
        return sorted(name.removesuffix("-0") for name in self.policy.sampled if name.endswith("-0"))


class PassedOnce(asyncio.Event):
    """Lets the first one pass that waits for it, and holds all others."""

    is_passed = False

    async def wait(self) -> Literal[True]:
        if self.is_passed:
            return await super().wait()
        self.is_passed = True
        return True


def request(tasks: int = 2, group_size: int = 2, **fields: Any) -> pb.RolloutRequest:
    asked = [pb.RolloutTask(id=f"t{at}", question=f"why {at}?") for at in range(tasks)]
    return pb.RolloutRequest(**{"request_id": "ro_1", "tasks": asked, "group_size": group_size, "model": "s", **fields})


async def watch_queue(
    planner: Planner, after: int = 0, most: int = 0, within_s: float = 10.0
) -> list[tuple[int, trajectory.Trajectory]]:
    found = []
    async with asyncio.timeout(within_s), aclosing(planner.queue.watch("ro_1", after)) as items:
        async for item in items:
            found.append(item)
            if len(found) == most:
                break
    return found


def places(found: list[tuple[int, trajectory.Trajectory]]) -> list[tuple[int, int]]:
    return sorted((item.task_index, item.sample_index) for _, item in found)


EVERY = [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_a_queued_rollout_is_played_once_however_often_it_is_submitted() -> None:
    house = House(*LINES)
    planner = Planner(house)
    # A trainer that is restarted submits again.
    for _ in range(2):
        assert await planner.queue.submit(request(), Lane.TRAINING) == "ro_1"
    async with planner.working():
        found = await watch_queue(planner)
        assert await planner.queue.submit(request(), Lane.TRAINING) == "ro_1"
        assert places(found) == EVERY
        assert planner.begun_runs == [f"ro_1-{task}-{sample}" for task, sample in EVERY]
        assert all(item.stop_reason == trajectory.STOP_REASON_FINISHED for _, item in found)
        sequences = [sequence for sequence, _ in found]
        assert sequences == sorted(sequences)
        # A watcher names the last number it has seen; what comes after it is the rest, equal and in order.
        assert await watch_queue(planner, after=sequences[1]) == found[2:], "a broken stream goes on"
    with pytest.raises(Conflict, match="another rollout"):
        await planner.queue.submit(request(group_size=3), Lane.TRAINING)


async def test_what_a_lost_planner_has_not_kept_another_plays() -> None:
    house = House(*LINES)
    # One task and one rollout at a time, so that the loss falls into a known place.
    first, second = Planner(house, concurrent_tasks=1, concurrent_rollouts=1), Planner(house)
    await first.queue.submit(request(), Lane.TRAINING)
    # The second episode hangs in its second sampling, as in a planner that is killed in the middle.
    first.policy.hold = {1: PassedOnce()}
    async with first.working():
        await watch_queue(first, most=1)
        await eventually(lambda: len(first.begun_runs) == 2)
    async with second.working():
        assert places(await watch_queue(second)) == EVERY
    assert "ro_1-0-0" in first.begun_runs
    assert "ro_1-0-0" not in second.begun_runs, "what is kept is not played again"
    assert Counter([*first.begun_runs, *second.begun_runs])["ro_1-0-1"] == 2, "what was cut short is"


@simulate_time
async def test_a_planner_that_wakes_up_late_changes_nothing() -> None:
    """Its lease has lapsed, another planner has played the task: the place is taken, its own trajectory goes."""
    house = House(*LINES, ack_wait_s=0.3)
    # A minute between heartbeats: the sleeper does not notice that its lease is over.
    asleep, awake = Planner(house, heartbeat_s=60, concurrent_tasks=1), Planner(house)
    # Another answer than the other planner's, to see whose is kept.
    asleep.policy.lines = (echo("a"), finish("Another answer."))
    asleep.policy.hold = {1: asyncio.Event()}
    await asleep.queue.submit(request(tasks=1), Lane.TRAINING)
    async with asleep.working():
        await eventually(lambda: len(asleep.begun_runs) == 2)
        async with awake.working():
            found = await watch_queue(awake)
        asleep.policy.hold[1].set()
        # Two samples of two rounds each: the sleeper has played to its end, late.
        await eventually(lambda: len(asleep.policy.sampled) == 4)
        await pass_time(0.2)
    assert {item.answer.markdown for _, item in found} == {"It is so."}
    assert await watch_queue(awake) == found
    kept = [item.key for item in await house.store.list("rollouts/ro_1/0")]
    assert len(kept) == 2, "one trajectory per sample"


async def test_a_kept_trajectory_that_was_not_told_is_told_and_not_played_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(*LINES)
    planner = Planner(house)
    await planner.queue.submit(request(tasks=1), Lane.TRAINING)
    publish = house.bus.publish

    async def silent(subject: str, *arguments: Any, **named: Any) -> int:
        if subject.startswith("fathom.trajectories."):
            raise NotReady("no stream")
        return int(await publish(subject, *arguments, **named))

    # The store takes the trajectory, the stream does not: the planner dies between the two.
    monkeypatch.setattr(house.bus, "publish", silent)
    monkeypatch.setattr(queue, "AGAIN_S", 0.3)
    async with planner.working():
        await eventually(lambda: house.store.list("rollouts/ro_1/0000"))
    monkeypatch.setattr(house.bus, "publish", publish)
    before = {item.key for item in await house.store.list("rollouts/ro_1/0000")}
    async with planner.working():
        found = await watch_queue(planner)
    assert places(found) == [(0, 0), (0, 1)]
    # The same objects: it was told, not played again.
    assert before <= {item.key for item in await house.store.list("rollouts/ro_1/0000")}


# Fewer failures than deliveries, and more.
@pytest.mark.parametrize("failures", [2, 99])
async def test_failed_episodes_are_played_again_and_in_the_end_told(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    house = House(*LINES)
    planner = Planner(house)
    monkeypatch.setattr(queue, "AGAIN_S", 0.01)
    generate, left = planner.policy.generate, failures

    async def failing(request_id: str, *arguments: Any) -> Any:
        nonlocal left
        if request_id.startswith("ro_1-0-1-") and left:
            left -= 1
            raise NotReady("policy is starting", metadata={"culprit": "policy"})
        return await generate(request_id, *arguments)

    monkeypatch.setattr(planner.policy, "generate", failing)
    await planner.queue.submit(request(tasks=1), Lane.TRAINING)
    async with planner.working():
        found = dict((item.sample_index, item) for _, item in await watch_queue(planner))
    assert found[0].stop_reason == trajectory.STOP_REASON_FINISHED
    if failures == 2:
        assert found[1].stop_reason == trajectory.STOP_REASON_FINISHED
    else:
        assert found[1].stop_reason == trajectory.STOP_REASON_FAILED
        assert (found[1].culprit, found[1].error_code) == ("policy", "")
        # The first success apart, each delivery was one attempt.
        assert left == 99 - (MAX_DELIVER - 1), "a bounded number of attempts"


async def test_a_contract_error_is_told_for_each_episode_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    planner = Planner(house)

    async def refuse(*arguments: Any) -> None:
        raise InvalidField("items[0].grader", "no grader is called 'nope'")

    # As the reward service refuses an unknown grader: no attempt would help.
    monkeypatch.setattr("fathom.services.planner.rollouts.service.grade_episodes", refuse)
    await planner.queue.submit(request(tasks=1), Lane.TRAINING)
    async with planner.working():
        found = await watch_queue(planner)
    assert [item.error_code for _, item in found] == ["INVALID_ARGUMENT"] * 2
    assert all("items[0].grader" in item.error for _, item in found)


async def test_an_episode_that_no_attempt_would_mend_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy version that the rollout is pinned to is served no more: by the queue and by the stream."""
    house = House(*LINES)
    planner = Planner(house)
    asked: list[str] = []

    async def fail_for_good(request_id: str, *arguments: Any) -> Any:
        asked.append(request_id)
        raise VersionMismatch("s", 3, 4)

    monkeypatch.setattr(planner.policy, "generate", fail_for_good)
    await planner.queue.submit(request(tasks=1), Lane.TRAINING)
    async with planner.working():
        queued = [item for _, item in await watch_queue(planner)]
    assert sorted(asked) == ["ro_1-0-0-0", "ro_1-0-1-0"], "each was tried once"
    call = Call.new(lane=Lane.TRAINING)
    responses = planner.queue.rollouts.run(request(tasks=1, request_id="ro_2"), call)
    streamed = [response.trajectory async for response in responses]
    for item in [*queued, *streamed]:
        assert (item.stop_reason, item.error_code) == (trajectory.STOP_REASON_FAILED, "FAILED_PRECONDITION")
        assert (item.culprit, item.error) == ("policy", "policy: model 's' serves version 4, not 3")


async def test_a_grader_that_answers_too_late_is_an_outage_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    planner = Planner(house)
    monkeypatch.setattr(queue, "AGAIN_S", 0.01)
    # Late twice; the third answer is in time.
    late = 2

    async def grade(*arguments: Any) -> None:
        nonlocal late
        if late:
            late -= 1
            raise DeadlineExceeded("reward did not answer in time", metadata={"culprit": "reward"})

    monkeypatch.setattr("fathom.services.planner.rollouts.service.grade_episodes", grade)
    await planner.queue.submit(request(tasks=1, group_size=1), Lane.TRAINING)
    async with planner.working():
        [(_, item)] = await watch_queue(planner)
    assert (item.stop_reason, late) == (trajectory.STOP_REASON_FINISHED, 0)


@simulate_time
async def test_a_stopped_rollout_is_cut_short_and_its_watchers_are_told() -> None:
    house = House(*LINES)
    planner = Planner(house, concurrent_tasks=1)
    # Both samples hang in their second round, so the stop meets a running task and a waiting one.
    planner.policy.hold = {1: asyncio.Event()}
    await planner.queue.submit(request(), Lane.TRAINING)
    async with planner.working():
        await eventually(lambda: len(planner.begun_runs) == 2)
        watching = asyncio.create_task(watch_queue(planner))
        assert await planner.queue.stop("ro_1")
        # Stopped already.
        assert not await planner.queue.stop("ro_1")
        with pytest.raises(Cancelled, match="ro_1 was stopped"):
            await watching
        planner.policy.hold = {}
        await pass_time(0.3)
        # The next rollout is played, the tasks of the one that was stopped are not.
        other = request(tasks=1)
        other.request_id = "ro_2"
        await planner.queue.submit(other, Lane.TRAINING)
        await eventually(lambda: "ro_2-0-1" in planner.begun_runs)
    assert [name for name in planner.begun_runs if name.startswith("ro_1")] == ["ro_1-0-0", "ro_1-0-1"]


# Half a second without a renewal is enough to be left.
def forgetful() -> House:
    """Its leases are short."""
    store = MemoryStore()
    bus = MemoryBus(store, topology(ack_wait_s=0.3, rollout_lease_s=LEASE_S), loop_time)
    return House(*LINES, store=store, bus=bus)


async def until_left(house: House, count: int) -> None:
    async def are_left() -> bool:
        return len(await house.store.list("rollouts/ro_1/left/")) >= count

    await eventually(are_left)


@simulate_time
async def test_what_nobody_waits_for_is_left_and_played_when_somebody_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watcher is killed: it stops nothing, it is only there no more."""
    house = forgetful()
    planner = Planner(house, concurrent_tasks=1, concurrent_rollouts=1)
    generate, slow, tried = planner.policy.generate, asyncio.Event(), list[str]()

    async def first_is_quick(request_id: str, *arguments: Any) -> Any:
        tried.append(request_id)
        # Everything but the very first episode hangs until the watcher is gone.
        if not request_id.startswith("ro_1-0-0-"):
            await slow.wait()
        return await generate(request_id, *arguments)

    monkeypatch.setattr(planner.policy, "generate", first_is_quick)
    await planner.queue.submit(request(tasks=3), Lane.TRAINING)
    async with planner.working():
        kept = await watch_queue(planner, most=1)
        # All three tasks are set aside: the one under way, and the two behind it.
        await until_left(house, 3)
        assert set(tried) == {"ro_1-0-0-0", "ro_1-0-0-1", "ro_1-0-1-0"}, "what had not begun is not begun"
        slow.set()
        # The same trainer after its restart: what was kept is there, the rest is played.
        await planner.queue.submit(request(tasks=3), Lane.TRAINING)
        found = await watch_queue(planner)
    # What was kept before the break comes first, bit for bit.
    assert found[: len(kept)] == kept
    assert places(found) == [*EVERY, (2, 0), (2, 1)]
    assert Counter(planner.begun_runs)["ro_1-0-0"] == 1
    assert await house.store.list("rollouts/ro_1/left/") == []


@simulate_time
async def test_a_watcher_alone_brings_back_what_was_left_and_holds_it() -> None:
    house = forgetful()
    planner = Planner(house)
    await planner.queue.submit(request(), Lane.TRAINING)
    # Longer than the lease that the submission took.
    await pass_time(LEASE_S + 0.1)
    async with planner.working():
        await until_left(house, 2)
        assert planner.begun_runs == []
        planner.policy.hold = {1: asyncio.Event()}
        watching = asyncio.create_task(watch_queue(planner))
        await pass_time(2 * LEASE_S)  # longer than a lease: it is renewed
        planner.policy.hold[1].set()
        assert places(await watching) == EVERY
    assert planner.begun_runs == [f"ro_1-{task}-{sample}" for task, sample in EVERY], "each once"


@simulate_time
async def test_a_store_that_is_away_for_a_while_uses_up_no_tasks_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were used up within eight seconds: nobody played the group, and its trainer waited for five minutes."""
    house = forgetful()
    planner = Planner(house)
    get_request, back_at = planner.queue.get_request, loop_time() + 10.0

    async def fail_for_a_while(rollout_id: str) -> pb.RolloutRequest:
        if loop_time() < back_at:
            raise DependencyFailed("object store", "cannot be reached")
        return await get_request(rollout_id)

    await planner.queue.submit(request(), Lane.TRAINING)
    watching = asyncio.create_task(watch_queue(planner, within_s=60.0))
    await settle()
    monkeypatch.setattr(planner.queue, "get_request", fail_for_a_while)
    async with planner.working():
        assert places(await watching) == EVERY
    assert loop_time() >= back_at


class LateSummary:
    """A summary of the data that a planner's first requests for it do not get."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def load(self, as_of: Any) -> str:
        if self.failures:
            self.failures -= 1
            raise DependencyFailed("datafetch", "is away")
        return "Data: gold"


@simulate_time
async def test_no_episode_is_asked_without_the_summary_of_the_data_that_its_repetition_would_have() -> None:
    """Episodes that had begun without it, and were repeated with it, were refused as other requests under one key."""
    house = forgetful()
    planner = Planner(house)
    planner.queue.rollouts.summary = LateSummary(2)  # type: ignore[assignment]
    await planner.queue.submit(request(), Lane.TRAINING)
    async with planner.working():
        found = await watch_queue(planner, within_s=60.0)
    assert places(found) == EVERY
    assert len({item.prompts["data"] for _, item in found}) == 1
    assert planner.begun_runs == [f"ro_1-{task}-{sample}" for task, sample in EVERY], "each once"


@simulate_time
async def test_a_lease_that_ended_with_the_bus_away_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watcher never noticed: what a planner left meanwhile is queued again by the next renewal."""
    house = forgetful()
    planner = Planner(house)
    away = True
    begin = planner.queue.leases.begin

    async def unreachable(rollout_id: str) -> None:
        if away:
            raise NotReady("no bus")
        await begin(rollout_id)

    await planner.queue.submit(request(), Lane.TRAINING)
    watching = asyncio.create_task(watch_queue(planner))
    await settle()
    monkeypatch.setattr(planner.queue.leases, "begin", unreachable)
    await pass_time(LEASE_S + 0.1)
    async with planner.working():
        await until_left(house, 2)
        away = False
        assert places(await watching) == EVERY


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"request_id": ""}, "rollout.request_id"), ({"tasks": 0}, "tasks"), ({"group_size": 65}, "group_size")],
)
async def test_what_no_planner_would_play_is_refused_at_once(changes: dict[str, Any], field: str) -> None:
    planner = Planner(House(*LINES))
    with pytest.raises(InvalidField) as bad:
        await planner.queue.submit(request(**changes), Lane.TRAINING)
    assert bad.value.field == field
    for asked in (planner.queue.stop("ro_9"), anext(planner.queue.watch("ro_9", 0))):
        with pytest.raises(NotFound, match="queued rollout"):
            await asked


async def test_a_full_queue_takes_no_more() -> None:
    log = Log(Stream("ROLLOUTS", ("r",), Retention.WORK_QUEUE, max_messages=2))
    message = Message("r", b"")
    assert [log.append(message, str(number), 0.0) for number in range(2)] == [1, 2]
    with pytest.raises(Overloaded, match="ROLLOUTS is full"):
        log.append(message, "3", 0.0)
    assert log.append(message, "1", 0.0) == 2, "what is there may be said again"


async def test_notices_of_one_rollout_are_its_own() -> None:
    house = House(*LINES)
    bus: MemoryBus = house.bus
    for rollout_id in ("ro_1", "ro_2"):
        await bus.publish(trajectory_subject(rollout_id, "0000-00"), b"", message_id=rollout_id)
    async with asyncio.timeout(5), aclosing(bus.follow(trajectory_subject("ro_2"))) as notices:
        assert (await anext(notices)).subject == "fathom.trajectories.ro_2.0000-00"
    with pytest.raises(FathomError):
        trajectory_subject("ro_1", "a.b")


@simulate_time
async def test_an_episode_whose_tool_failed_for_our_reasons_is_no_sample_and_its_group_is_filled_again() -> None:
    house = House(*LINES)
    house.failures += [Overloaded("all sandbox sessions are in use", 1.0)] * 2
    planner = Planner(house)
    await planner.queue.submit(request(tasks=1, group_size=4), Lane.TRAINING)
    async with planner.working():
        found = await watch_queue(planner)
    assert [item.stop_reason for _, item in found] == [trajectory.STOP_REASON_FINISHED] * 4
    assert all("sessions are in use" not in item.SerializeToString().decode("latin-1") for _, item in found)
    assert len(planner.begun_runs) == 6, "two episodes were played again"


@simulate_time
async def test_an_episode_waits_for_a_tool_that_is_away_and_the_wait_costs_it_no_time() -> None:
    house = House(*LINES)
    house.patience_s = 60.0
    house.failures += [NotReady("the sandbox restarts")] * 4
    planner = Planner(house, max_run_ms=2_000)
    await planner.queue.submit(request(tasks=1, group_size=1), Lane.TRAINING)
    async with planner.working():
        [(_, item)] = await watch_queue(planner)
    assert asyncio.get_running_loop().time() > 5
    assert item.stop_reason == trajectory.STOP_REASON_FINISHED, item.error
    assert planner.begun_runs == ["ro_1-0-0"]


async def test_an_episode_that_failed_is_streamed_as_failed_and_not_graded() -> None:
    house = House(*LINES)
    house.failures.append(DeadlineExceeded("the sandbox did not answer"))
    rollouts = Planner(house).queue.rollouts
    items = rollouts.run(request(tasks=1, group_size=1, grader="exact_match"), Call.new(lane=Lane.INTERACTIVE))
    async with aclosing(items) as played:
        [item] = [response.trajectory async for response in played]
    # A grader would have been asked, of which this house has none.
    assert (item.stop_reason, item.error_code, item.reward) == (trajectory.STOP_REASON_FAILED, "", 0.0)
    assert "the sandbox did not answer" in item.error
