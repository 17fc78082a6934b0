"""A trainer and people at one stack, and the account of what came of all that they asked for."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import FathomError, NotFound
from fathom.transport.store import ObjectStore
from tests.bench.chaos.model import count_expected, make_question

TASKS, SIBLINGS, ROUNDS, PERSON_ROUNDS = 2, 4, 20, 6
# As a trainer has: a batch is being learnt from while the next ones are played.
ROLLOUTS_AT_ONCE = 4
PERSON_EVERY_S = 4.0
# As long as the gateway and a trainer's client go on asking.
PATIENCE_S = 180.0
FINISHED, FAILED = trajectory.STOP_REASON_FINISHED, trajectory.STOP_REASON_FAILED
Place = tuple[str, int, int]
# A queued trajectory: its place, and the beginning of its checksum.
STORED = re.compile(r"/\d{4}-\d{2}-[0-9a-f]{16}\.pb$")


@dataclass
class Account:
    """Count what was asked and what came of it."""

    steps: int = 0
    samples: int = 0
    refilled: int = 0
    """Episodes that ended as failures of the plane, which a trainer asks for again."""
    causes: Counter[str] = field(default_factory=Counter)
    """The texts of those episodes."""
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    poisoned: list[str] = field(default_factory=list)
    people: int = 0
    failed: list[str] = field(default_factory=list)
    """Users' runs that did not end with their answer."""

    def check_sample(self, place: Place, item: trajectory.Trajectory, rounds: int) -> None:
        """Count a trajectory of a trainer."""
        if item.stop_reason == FAILED:
            self.refilled += 1
            self.causes[item.error[:100]] += 1
            return
        self.samples += 1
        self.steps += len(item.steps)
        if wrong := find_wrong(item, rounds):
            self.poisoned.append(f"{place}: {wrong}")

    def is_within_bounds(self) -> bool:
        """Return whether nothing is lost, duplicated or poisoned, and at most 1 % of people's runs failed."""
        return not (self.lost or self.duplicated or self.poisoned) and len(self.failed) <= 0.01 * self.people

    def describe(self) -> str:
        """Return the account in a few lines."""
        share = len(self.failed) / max(1, self.people)
        lines = [
            f"{self.samples} samples with {self.steps} steps; {self.refilled} episodes ended as failures of the plane",
            f"lost {len(self.lost)}, duplicated {len(self.duplicated)}, poisoned samples {len(self.poisoned)}",
            f"users' runs {self.people}, failed {len(self.failed)} ({share:.1%})",
        ]
        details = [*self.lost, *self.duplicated, *self.poisoned, *self.failed]
        causes = [f"{count} times: {cause}" for cause, count in self.causes.most_common(5)]
        return "\n".join([*lines, *(f"  {detail[:300]}" for detail in [*details[:20], *causes])])


def find_wrong(item: trajectory.Trajectory, rounds: int) -> str:
    """Return what a finished episode would teach of our own failures; "" for a sound one."""
    if item.stop_reason != FINISHED:
        return f"{trajectory.StopReason.Name(item.stop_reason)} {item.error}"
    for step in item.steps:
        for result in step.tool_results:
            if result.status not in (trajectory.TOOL_STATUS_OK, trajectory.TOOL_STATUS_EMPTY):
                return f"step {step.index}: {result.tool}: {result.content[:200]}"
    return find_wrong_answer(item.answer.markdown, rounds)


def find_wrong_answer(markdown: str, rounds: int) -> str:
    """Return an answer that does not count each of its cells once; "" for the right one."""
    said = re.search(r"Counted ([\d ]+) in all", markdown)
    counted = [int(number) for number in said.group(1).split()] if said else []
    return "" if counted == count_expected(rounds) else f"answers {markdown[:200]!r}"


class Trainer:
    """Queues rollouts and reads their trajectories, through broken streams, and asks again for what failed."""

    def __init__(self, clients: Clients, account: Account, rounds: int = ROUNDS, grader: str = "") -> None:
        self._clients, self.account, self._rounds, self._grader = clients, account, rounds, grader
        self._number = 0
        self.open: list[str] = []
        """Rollouts that are being played."""

    async def train(self, is_enough: Callable[[], bool]) -> None:
        """Ask for rollouts until it is enough."""

        async def feed() -> None:
            while not is_enough():
                self._number += 1
                await self._play(f"ro-{self._number:05d}")

        async with asyncio.TaskGroup() as feeding:
            for _ in range(ROLLOUTS_AT_ONCE):
                feeding.create_task(feed())

    async def _play(self, name: str) -> None:
        rollout = pb.RolloutRequest(
            request_id=name,
            tasks=[
                pb.RolloutTask(id=f"t{at}", question=make_question(self._rounds, f"{name} {at}"), references=["none"])
                for at in range(TASKS)
            ],
            grader=self._grader,
            group_size=SIBLINGS,
            protocol=trajectory.PROTOCOL_RESEARCH,
            model="scripted",
            budget=pb.Budget(max_rounds=self._rounds + 2),
        )
        self.open.append(name)
        seen: dict[Place, str] = {}
        try:
            await insist(lambda: self._clients.planner.submit_rollout(pb.SubmitRolloutRequest(rollout=rollout)))
            await self._watch(name, seen)
        except FathomError as error:
            self.account.lost.append(f"{name}: {error.code} {error.message}")
        finally:
            self.open.remove(name)
        missing = TASKS * SIBLINGS - len(seen)
        self.account.lost += [f"{name}: {missing} episodes never came"] if missing else []

    async def _watch(self, name: str, seen: dict[Place, str]) -> None:
        """Read all trajectories; every second stream is left in the middle and taken up where it stood."""
        after, sequences, broken_at, drops = 0, set[int](), time.monotonic(), 0
        while len(seen) < TASKS * SIBLINGS:
            request = pb.WatchRolloutRequest(rollout_id=name, after_sequence=after)
            try:
                async with aclosing(self._clients.planner.watch_rollout(request)) as responses:
                    async for response in responses:
                        broken_at, item = time.monotonic(), response.trajectory
                        place = (name, item.task_index, item.sample_index)
                        if place in seen or response.sequence in sequences:
                            self.account.duplicated.append(f"{place} came twice")
                        sequences.add(response.sequence)
                        after, seen[place] = max(after, response.sequence), item.hash
                        self.account.check_sample(place, item, self._rounds)
                        if drops < 1 and len(seen) == TASKS * SIBLINGS // 2:
                            drops += 1
                            break
            except FathomError:
                if time.monotonic() - broken_at > PATIENCE_S:
                    raise
                await asyncio.sleep(0.5)


class People:
    """Questions that come one after the other, whatever becomes of those before them."""

    def __init__(self, clients: Clients, account: Account, prefix: str = "person") -> None:
        self._clients, self._account, self._prefix = clients, account, prefix
        self._asking: set[asyncio.Task[None]] = set()
        self.asked: list[str] = []
        self.begun: dict[str, None] = {}
        """Runs that have said something, in order: they are recorded."""
        self.seconds: list[float] = []

    async def come(self, every_s: float = PERSON_EVERY_S) -> None:
        """Ask until cancelled."""
        while True:
            self.ask()
            await asyncio.sleep(every_s)

    def ask(self) -> None:
        name = f"run_{self._prefix}{len(self.asked):05d}"
        self.asked.append(name)
        asking = asyncio.create_task(self._ask(name))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    def count_open(self) -> int:
        """Return the number of questions without an answer yet."""
        return len(self._asking)

    async def leave(self) -> None:
        """Wait for the answers to all questions."""
        await asyncio.gather(*self._asking)

    async def _ask(self, name: str) -> None:
        request = pb.RunRequest(
            request_id=name,
            question=make_question(PERSON_ROUNDS, name),
            protocol=trajectory.PROTOCOL_RESEARCH,
            model="scripted",
            prompts={"answer": "evidence"},
        )
        self._account.people += 1
        started, numbers, ended = time.monotonic(), Counter[int](), list[pb.RunFinished]()

        async def read() -> None:
            numbers.clear()
            async with aclosing(run(self._clients, request, patience_s=PATIENCE_S)) as events:
                async for event in events:
                    self.begun[name] = None
                    # What is said while a run waits has the number of the event before it.
                    numbers[event.sequence] += not event.HasField("waiting")
                    if event.HasField("finished"):
                        ended.append(event.finished)

        try:
            await insist(read)
        except FathomError as error:
            self._account.failed.append(f"{name}: {error.code} {error.message}")
            return
        self.seconds.append(time.monotonic() - started)
        finished = ended[-1]
        if any(count > 1 for count in numbers.values()):
            self._account.duplicated.append(f"{name}: an event came twice")
        if finished.stop_reason != FINISHED:
            why = f"{trajectory.StopReason.Name(finished.stop_reason)} {finished.error}"
            self._account.failed.append(f"{name}: {why}")
        elif wrong := find_wrong_answer(finished.answer.markdown, PERSON_ROUNDS):
            self._account.failed.append(f"{name}: {wrong}")


async def insist(call: Callable[[], Awaitable[object]]) -> None:
    """Call until it succeeds, for as long as a client goes on; raise the last error."""
    since = time.monotonic()
    while True:
        try:
            await call()
            return
        except FathomError as error:
            if not error.transient and error.code not in ("INTERNAL", "CANCELLED"):
                raise
            if time.monotonic() - since > PATIENCE_S:
                raise
            await asyncio.sleep(max(0.5, error.retry_after_s or 0.0))


async def check_effects(clients: Clients, store: ObjectStore, account: Account, runs: list[str]) -> None:
    """Look for what has no effect, or one twice: turns of conversations, and stored trajectories of one place."""
    failed = {line.partition(":")[0] for line in account.failed}
    for name in runs:
        turns = await count_turns(clients, name.replace("run_", "conv_", 1))
        if turns > 1:
            account.duplicated.append(f"{name}: {turns} turns in its conversation")
        elif not turns and name not in failed:
            account.lost.append(f"{name}: its turn is not in its conversation")
    # Of each place, a planner that comes second deletes what it has stored.
    places = Counter(key[:-20] for key in await store.keys("rollouts/") if STORED.search(key))
    account.duplicated += [f"{place} has {count} trajectories" for place, count in places.items() if count > 1]


async def count_turns(clients: Clients, conversation: str) -> int:
    """Return the number of turns in a conversation, however late the service answers."""
    found: list[memory.ListTurnsResponse] = []

    async def read() -> None:
        found.append(await clients.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation)))

    try:
        await insist(read)
    except NotFound:
        return 0
    return len(found[-1].turns)
