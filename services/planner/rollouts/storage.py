"""Stored rollout results, keyed by request id, so that a retried ``Rollout`` call resumes instead of replaying."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.core.errors import Conflict, NotFound
from fathom.core.ids import sha256
from fathom.transport.store import ObjectStore

PROTOBUF = "application/x-protobuf"
Place = tuple[int, int]
"""Task index and sample index."""


def format_key(task: int, sample: int) -> str:
    """Format a place for keys and subjects."""
    return f"{task:04d}-{sample:02d}"


def format_trajectory_key(rollout_id: str, task: int, sample: int) -> str:
    """Return the object key of an episode's trajectory."""
    return f"rollouts/{rollout_id}/{format_key(task, sample)}.pb"


async def register_request(store: ObjectStore, rollout_id: str, request: pb.RolloutRequest) -> bool:
    """Store the request's hash under the id; return False when the same request was stored before.

    Raises ``Conflict`` when the id was used for a different request.
    """
    key = f"rollouts/{rollout_id}/request.sha256"
    # Of the serialized request, deterministic: maps have no order of their own in protobuf.
    digest = sha256(request.SerializeToString(deterministic=True)).encode()
    try:
        before = await store.get(key)
    except NotFound:
        await store.put(key, digest, "text/plain")
        return True
    if before != digest:
        raise Conflict(f"request_id {rollout_id!r} was used for another rollout", metadata={"field": "request_id"})
    return False


async def load_stored(store: ObjectStore, rollout_id: str, request: pb.RolloutRequest) -> dict[Place, Trajectory]:
    """Register the request under the id and return the episodes stored before.

    Failed episodes are excluded, so that they run again. Raises ``Conflict`` when the id was used for a different
    request.
    """
    if await register_request(store, rollout_id, request):
        return {}
    found = {}
    for item in await store.list(f"rollouts/{rollout_id}/"):
        if item.key.endswith(".pb"):
            message = Trajectory.FromString(await store.get(item.key, item.sha256))
            # A failure may be the service's, and the trainer asks again to get an episode.
            if message.stop_reason != STOP_REASON_FAILED:
                found[(message.task_index, message.sample_index)] = message
    return found
