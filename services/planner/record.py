"""Record of a run in the object store: a header, one object per step, its legs, the trajectory at the end.

A step counts once its object is written; a redelivered run resumes from there. Partial results of the open step are
stored beside the steps until the step is complete (see ``journal``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.errors import CorruptData, NotFound
from fathom.store import ObjectStore, StoredObject

PROTOBUF, JSON = "application/x-protobuf", "application/json"


@dataclass(frozen=True)
class Header:
    """Request of a run, written once before it is queued. ``start_time`` is in seconds since the epoch."""

    run_id: str
    question: str
    conversation_id: str
    protocol: str
    model: str
    start_time: float
    request: str
    """Serialized RunRequest in hexadecimal, so that any worker can take the run over."""
    parent_run_id: str = ""
    """The run that delegated this one; empty for a user's."""
    depth: int = 0
    """Number of runs above it."""
    tenant: str = "default"
    """Tenant of the run, the same for all planners and resumptions."""
    traceparent: str = ""
    """Trace context of the original call, continued by all legs and attempts of the run."""

    @property
    def spoken(self) -> pb.Protocol:
        """Return the run's protocol; if the request left it open, the chosen one."""
        # The stubs give enum values as plain ints.
        return cast(pb.Protocol, pb.Protocol.Value(self.protocol))

    def run_request(self) -> planner.RunRequest:
        return planner.RunRequest.FromString(bytes.fromhex(self.request))


HEADER_FIELDS = frozenset(known.name for known in fields(Header))


@dataclass(frozen=True)
class Leg:
    """Part of a run: number 0 starts with the question, each further one with a resumption.

    ``start_time`` is in seconds since the epoch; rounds, tokens, milliseconds and cost are limits, 0 for the server's
    own; ``steps`` is the number of steps of earlier legs.
    """

    number: int
    request_id: str
    start_time: float
    max_rounds: int = 0
    max_tokens: int = 0
    max_ms: int = 0
    max_cost: float = 0.0
    steps: int = 0

    @classmethod
    def of(cls, number: int, request_id: str, start_time: float, budget: planner.Budget, steps: int = 0) -> Leg:
        spend = (budget.max_rounds, budget.max_tokens, budget.max_ms, budget.max_cost)
        return cls(number, request_id, start_time, *spend, steps)

    def budget(self) -> planner.Budget:
        return planner.Budget(
            max_rounds=self.max_rounds, max_tokens=self.max_tokens, max_ms=self.max_ms, max_cost=self.max_cost
        )


@dataclass(frozen=True)
class Taken:
    """Takeover of a run by a planner: its ``epoch`` (see ``fence``), the leg, and the number of steps it found."""

    epoch: int
    leg: int
    steps: int


class Record:
    """Store of run records."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def store(self) -> ObjectStore:
        """Return the underlying object store."""
        return self._store

    async def begin(self, header: Header) -> Header:
        """Write the header unless the run has one; return the stored header."""
        try:
            return await self.header(header.run_id)
        except NotFound:
            if header.parent_run_id:
                await self._put_json(child_key(header.parent_run_id, header.run_id), {"depth": header.depth})
            await self._store.put(begun_key(header), b"", "text/plain")
            await self._put_json(header_key(header.run_id), asdict(header))
            return header

    async def header(self, run_id: str) -> Header:
        """Return the header; raise ``NotFound`` for an unknown run."""
        try:
            found = await self._json(header_key(run_id))
            # A newer planner's header may say more: in a rolling upgrade both take up each other's runs.
            return Header(**{name: value for name, value in found.items() if name in HEADER_FIELDS})
        except NotFound:
            raise NotFound("run", run_id) from None
        except TypeError as error:
            raise CorruptData(header_key(run_id), str(error)) from error

    async def headers(self) -> list[str]:
        """Return run ids, newest first; runs recorded before start times were indexed come last, by id."""
        known = {name_of(item) for item in await self._store.list("runs/headers/")}
        begun = [name_of(item).partition("-")[2] for item in reversed(await self._store.list("runs/begun/"))]
        ordered = list(dict.fromkeys(run_id for run_id in begun if run_id in known))
        return ordered + sorted(known.difference(ordered), reverse=True)

    async def children(self, run_id: str) -> list[str]:
        """Return the sorted ids of the runs that this one has delegated."""
        return [name_of(item) for item in await self._store.list(f"runs/children/{run_id}/")]

    async def put_leg(self, run_id: str, leg: Leg) -> None:
        """Store a resumption."""
        await self._put_json(f"runs/legs/{run_id}/{leg.number:04d}.json", asdict(leg))

    async def leg(self, header: Header) -> Leg:
        """Return the current leg."""
        return (await self.legs(header))[-1]

    async def legs(self, header: Header) -> list[Leg]:
        """Return all legs, the initial one first."""
        objects = await self._store.list(f"runs/legs/{header.run_id}/")
        resumed = [Leg(**await self._json(item.key)) for item in objects]
        return [Leg.of(0, header.run_id, header.start_time, header.run_request().budget), *resumed]

    async def take_up(self, run_id: str, taken: Taken) -> None:
        """Store a takeover; later steps and ends of this leg by previous planners are ignored from now on."""
        await self._put_json(f"runs/taken/{run_id}/{taken.epoch:012d}.json", asdict(taken))

    async def takings(self, run_id: str) -> list[Taken]:
        """Return all takeovers, oldest first."""
        objects = await self._store.list(f"runs/taken/{run_id}/")
        return [Taken(**await self._json(item.key)) for item in objects]

    async def put_step(self, run_id: str, step: pb.Step, epoch: int = 0) -> None:
        """Store a step under the epoch of the writing planner."""
        await self._store.put(step_key(run_id, step.index, epoch), step.SerializeToString(), PROTOBUF)

    async def steps(self, run_id: str) -> list[pb.Step]:
        """Return the recorded steps in order, each from the planner that owned the run then."""
        objects = {name_of(item): item for item in await self._store.list(f"runs/steps/{run_id}/")}
        takings = await self.takings(run_id)
        steps: list[pb.Step] = []
        while True:
            index = len(steps)
            epoch = max((taken.epoch for taken in takings if taken.steps <= index), default=0)
            item = objects.get(f"{index:04d}-{epoch:012d}")
            if item is None:
                return steps
            steps.append(pb.Step.FromString(await self._store.get(item.key, item.sha256)))

    async def note(self, run_id: str, name: str, note: pb.Step, epoch: int = 0) -> None:
        """Store a partial result of the open step."""
        await self._store.put(note_key(run_id, name, epoch), note.SerializeToString(), PROTOBUF)

    async def notes(self, run_id: str) -> dict[tuple[int, str], pb.Step]:
        """Return the partial results of open steps by epoch and name."""
        objects = await self._store.list(f"runs/open/{run_id}/")
        return {
            (int(item.key.split("/")[-2]), name_of(item)): pb.Step.FromString(await self._store.get(item.key))
            for item in objects
        }

    async def forget_note(self, run_id: str, name: str, epoch: int = 0) -> None:
        """Delete a partial result of a complete step."""
        await self._store.delete(note_key(run_id, name, epoch))

    async def mark_stopped(self, run_id: str, leg: int) -> None:
        """Request that the next worker of this leg ends it immediately."""
        await self._put_json(stop_key(run_id, leg), {"leg": leg})

    async def marked_stopped(self, run_id: str, leg: int) -> bool:
        return await self._store.head(stop_key(run_id, leg)) is not None

    async def put_edit(self, run_id: str, edit: planner.TodoChanged) -> None:
        """Store the user's latest todo list, until a step shows that the model has seen it."""
        await self._store.put(f"runs/edits/{run_id}.pb", edit.SerializeToString(), PROTOBUF)

    async def edit(self, run_id: str) -> planner.TodoChanged | None:
        """Return the user's latest todo list; None when there was no edit."""
        try:
            return planner.TodoChanged.FromString(await self._store.get(f"runs/edits/{run_id}.pb"))
        except NotFound:
            return None

    async def finish(self, trajectory: pb.Trajectory, key: str = "", epoch: int = 0) -> StoredObject:
        """Write the complete trajectory."""
        where = key or trajectory_key(trajectory.run_id, epoch)
        return await self._store.put(where, trajectory.SerializeToString(), PROTOBUF)

    async def trajectory(self, run_id: str) -> pb.Trajectory | None:
        """Return the trajectory of the latest end; None if the run has never ended. See ``finished``."""
        ended = await self._ended(run_id)
        return None if ended is None else ended[0]

    async def finished(self, run_id: str, leg: int) -> tuple[pb.Trajectory, StoredObject] | None:
        """Return the trajectory of a run whose leg has ended; None while it runs."""
        ended = await self._ended(run_id)
        return None if ended is None or ended[0].leg < leg else ended

    async def _ended(self, run_id: str) -> tuple[pb.Trajectory, StoredObject] | None:
        """Return the last valid end, ignoring those of planners that had lost the run before writing it."""
        objects = await self._store.list(f"runs/trajectories/{run_id}/")
        takings = await self.takings(run_id) if objects else []
        for item in reversed(objects):
            found = pb.Trajectory.FromString(await self._store.get(item.key, item.sha256))
            if not any(taken.epoch > int(name_of(item)) and taken.leg <= found.leg for taken in takings):
                return found, item
        return None

    async def _put_json(self, key: str, value: Mapping[str, Any]) -> None:
        await self._store.put(key, json.dumps(value).encode(), JSON)

    async def _json(self, key: str) -> dict[str, Any]:
        try:
            found = json.loads(await self._store.get(key))
        except ValueError as error:
            raise CorruptData(key, str(error)) from error
        if not isinstance(found, dict):
            raise CorruptData(key, "is no JSON object")
        return found


def name_of(item: StoredObject) -> str:
    """Return the last component of a key without its suffix."""
    return item.key.rpartition("/")[2].rpartition(".")[0]


def begun_key(header: Header) -> str:
    """Return a key that sorts by the start time of the run, in milliseconds since the epoch."""
    return f"runs/begun/{int(header.start_time * 1000):015d}-{header.run_id}.txt"


def header_key(run_id: str) -> str:
    return f"runs/headers/{run_id}.json"


def child_key(parent_run_id: str, run_id: str) -> str:
    return f"runs/children/{parent_run_id}/{run_id}.json"


def step_key(run_id: str, index: int, epoch: int) -> str:
    return f"runs/steps/{run_id}/{index:04d}-{epoch:012d}.pb"


def note_key(run_id: str, name: str, epoch: int) -> str:
    return f"runs/open/{run_id}/{epoch:012d}/{name}.pb"


def stop_key(run_id: str, leg: int) -> str:
    return f"runs/stops/{run_id}/{leg:04d}.json"


def trajectory_key(run_id: str, epoch: int) -> str:
    return f"runs/trajectories/{run_id}/{epoch:012d}.pb"
