"""Recorded episode batches, for replaying a training run exactly.

Each batch is one object: the four bytes "FRB1", then length-prefixed parts (eight bytes, big endian): a JSON header,
followed by one serialized trajectory per episode. The header lists each group's ``uid`` and number of episodes; the
prompts' own fields come from the data set and are not repeated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.core.errors import Conflict, CorruptData, NotFound
from fathom.trainers.rollouts.groups import Group, Row
from fathom.trainers.rollouts.requests import SamplingSettings
from fathom.transport.store import ObjectStore

MAGIC = b"FRB1"
CONTENT_TYPE = "application/x-fathom-rollout-batch"


@dataclass(frozen=True)
class Recording:
    """The recorded batches of one run, by step; ``prefix`` is the run's folder in the store."""

    store: ObjectStore
    prefix: str

    def key(self, sampling: SamplingSettings, part: int = 0) -> str:
        """Return the object key of a batch; ``part`` numbers the batches within one step's validation."""
        kind = f"validation-{sampling.step:06d}-{part:04d}" if sampling.validate else f"step-{sampling.step:06d}"
        return f"{self.prefix}/{kind}.frb"

    async def write(self, key: str, groups: Sequence[Group], version: int) -> None:
        """Write a batch atomically, replacing any batch under the same key."""
        header = {"version": version, "groups": [{"uid": one.uid, "episodes": len(one.episodes)} for one in groups]}
        parts = [json.dumps(header).encode()]
        # Deterministic, so that the same batch is the same object, byte for byte.
        parts += [item.SerializeToString(deterministic=True) for one in groups for item in one.episodes]
        await self.store.put(key, MAGIC + b"".join([struct.pack(">Q", len(p)) + p for p in parts]), CONTENT_TYPE)

    async def read(self, key: str, rows: Mapping[str, Row]) -> tuple[list[Group], int]:
        """Read a batch and the policy version current at the time; ``rows`` maps ``uid`` to prompt.

        Raises ``NotFound``, ``CorruptData``, or ``Conflict`` when the batch has prompts that are not in ``rows``.
        """
        header, *episodes = split(key, await self.store.get(key))
        try:
            content = json.loads(header)
            named = [(str(one["uid"]), int(one["episodes"])) for one in content["groups"]]
            version, items = int(content["version"]), [Trajectory.FromString(part) for part in episodes]
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(key, f"is no record of a batch: {error}") from error
        if sum(count for _, count in named) != len(items):
            raise CorruptData(key, f"has {len(items)} episodes, not what its header says")
        groups, position = [], 0
        for uid, count in named:
            # A replay with other prompts would pair episodes with questions they do not answer.
            if uid not in rows:
                raise Conflict(f"{key} holds prompt {uid}, which this run has not asked: data, seed or settings differ")
            groups.append(Group(rows[uid], tuple(items[position : position + count])))
            position += count
        return groups, version

    async def steps(self) -> int:
        """Return the number of recorded steps; raises ``NotFound`` when there are none."""
        found = await self.store.list(f"{self.prefix}/step-")
        if not found:
            raise NotFound("recording", self.prefix)
        return len(found)


def split(key: str, data: bytes) -> Iterator[bytes]:
    """Yield the parts of a record; raises ``CorruptData``."""
    if not data.startswith(MAGIC):
        raise CorruptData(key, "is no record of a batch")
    position = len(MAGIC)
    while position < len(data):
        if position + 8 > len(data):
            raise CorruptData(key, "is cut short")
        (size,) = struct.unpack_from(">Q", data, position)
        position += 8
        # The length comes from the file: without the check a damaged one would yield a short part, which may still
        # parse.
        if position + size > len(data):
            raise CorruptData(key, "is cut short")
        yield data[position : position + size]
        position += size
