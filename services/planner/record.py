"""The record of a run in the object store: a header, one object per step, the trajectory at the end.

A step counts when its object is written; a run that is delivered again goes on from there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.errors import CorruptData, NotFound
from fathom.store import ObjectStore, StoredObject

PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class Header:
    """What a run was asked; written once, before it is queued. ``start_time`` is in seconds since the epoch."""

    run_id: str
    question: str
    conversation_id: str
    protocol: str
    model: str
    start_time: float
    request: str
    """The serialized RunRequest in hexadecimal, so that any worker can take the run up."""


class Record:
    """Reads and writes the records of runs."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def begin(self, header: Header) -> Header:
        """Writes the header, unless the run has one: then gives that."""
        try:
            return await self.header(header.run_id)
        except NotFound:
            await self._store.put(header_key(header.run_id), json.dumps(asdict(header)).encode(), "application/json")
            return header

    async def header(self, run_id: str) -> Header:
        """Raises ``NotFound`` for an unknown run."""
        try:
            return Header(**json.loads(await self._store.get(header_key(run_id))))
        except NotFound:
            raise NotFound("run", run_id) from None
        except (ValueError, TypeError) as error:
            raise CorruptData(header_key(run_id), str(error)) from error

    async def headers(self) -> list[str]:
        """Run ids, newest first."""
        objects = await self._store.list("runs/headers/")
        return [item.key.removeprefix("runs/headers/").removesuffix(".json") for item in reversed(objects)]

    async def put_step(self, run_id: str, step: pb.Step) -> None:
        """Makes a step durable."""
        await self._store.put(step_key(run_id, step.index), step.SerializeToString(), PROTOBUF)

    async def steps(self, run_id: str) -> list[pb.Step]:
        """The recorded steps in order."""
        objects = await self._store.list(f"runs/steps/{run_id}/")
        return [pb.Step.FromString(await self._store.get(item.key, item.sha256)) for item in objects]

    async def finish(self, trajectory: pb.Trajectory, key: str = "") -> StoredObject:
        """Writes the whole trajectory."""
        return await self._store.put(key or trajectory_key(trajectory.run_id), trajectory.SerializeToString(), PROTOBUF)

    async def trajectory(self, run_id: str) -> pb.Trajectory | None:
        """The finished trajectory; None while the run is going on."""
        try:
            return pb.Trajectory.FromString(await self._store.get(trajectory_key(run_id)))
        except NotFound:
            return None


def header_key(run_id: str) -> str:
    return f"runs/headers/{run_id}.json"


def step_key(run_id: str, index: int) -> str:
    return f"runs/steps/{run_id}/{index:04d}.pb"


def trajectory_key(run_id: str) -> str:
    return f"runs/trajectories/{run_id}.pb"
