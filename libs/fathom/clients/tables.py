"""Passing tables to a sandbox that cannot read the object store."""

from __future__ import annotations

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import PayloadTooLarge
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref

# A message has 32 MiB; the rest of it is small.
MOST_BYTES = 31 * 1024**2


def make_frame_request(
    session_id: str, name: str, sheet: Sheet, *, is_lazy: bool, run_id: str = ""
) -> pb.PutFrameRequest:
    """Return the request that gives a session a sheet under a name, with what is known of its columns."""
    return pb.PutFrameRequest(
        # A repeated call is one with the first.
        request_id=f"{session_id}-{name}",
        session_id=session_id,
        run_id=run_id,
        name=name,
        ref=sheet.data,
        description=sheet.title,
        lazy=is_lazy,
        columns=[
            pb.ColumnFacts(name=column.name, unit=column.unit, indicator=column.indicator)
            for column in sheet.columns
            if column.unit or column.indicator
        ],
    )


async def embed_table(request: pb.PutFrameRequest, store: ObjectStore | None) -> pb.PutFrameRequest:
    """Return the request with the table's Arrow bytes in place of its reference; unchanged without a store.

    Raises ``PayloadTooLarge`` for a table over 31 MiB, and the errors of reading the store.
    """
    if store is None or request.WhichOneof("data") != "ref":
        return request
    from fathom.domain import frames

    data = await read_ref(store, request.ref, MOST_BYTES)
    if request.ref.content_type == frames.PARQUET:
        # The sandbox takes Arrow IPC alone from a message: its workers map the bytes without decoding them.
        data = frames.write_table(frames.decode_table(data, frames.PARQUET, request.name, MOST_BYTES))
    if len(data) > MOST_BYTES:
        raise PayloadTooLarge(len(data), MOST_BYTES)
    changed = pb.PutFrameRequest()
    changed.CopyFrom(request)
    changed.arrow = data
    return changed
