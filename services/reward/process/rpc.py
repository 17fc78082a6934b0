"""RPCs ScoreProcess and UpdateModel: proto to and from the process model, no logic."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.errors import CorruptData, InvalidField
from fathom.core.ids import checked_id, sha256
from fathom.services.reward.process.model import ProcessModel
from fathom.services.reward.process.network import ProcessItem
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref

# A batch of some thousand episodes: ids of two to four bytes and a mask.
MAX_BATCH_BYTES = 256 << 20


async def score(model: ProcessModel, request: pb.ScoreProcessRequest) -> pb.ScoreProcessResponse:
    """Return rewards aligned with the items and their tokens."""
    rewards, version, metrics = await model.score(parse_items(request), request.group_size)
    return pb.ScoreProcessResponse(
        scores=[pb.ProcessScore(rewards=row) for row in rewards], model_version=version, metrics=metrics
    )


async def update(model: ProcessModel, store: ObjectStore, request: pb.UpdateModelRequest) -> pb.UpdateModelResponse:
    """Read the batch and take a step; raise ``CorruptData`` for bytes that are no batch."""
    checked_id("request_id", request.request_id)
    if not request.batch.key:
        raise InvalidField("batch", "names no object")
    data = await read_ref(store, request.batch, MAX_BATCH_BYTES)
    try:
        batch = pb.ScoreProcessRequest.FromString(data)
    except DecodeError as error:
        raise CorruptData(request.batch.key, "is not a serialized ScoreProcessRequest") from error
    # The hash of the bytes as stored: protobuf does not promise to serialise equal messages alike.
    step = await model.update(request.request_id, parse_items(batch), batch.group_size, sha256(data))
    return pb.UpdateModelResponse(model_version=step.version, metrics=step.metrics)


def parse_items(request: pb.ScoreProcessRequest) -> list[ProcessItem]:
    return [ProcessItem(tuple(item.token_ids), tuple(item.mask), item.outcome) for item in request.items]
