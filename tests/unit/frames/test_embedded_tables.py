"""Tables that travel with the call, for sandboxes that reach no object store."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import tables
from fathom.clients.tables import embed_table
from fathom.core.errors import PayloadTooLarge
from fathom.domain import frames
from fathom.transport.store import open_store
from fathom.transport.store.refs import to_ref

TABLE = pa.table({"year": [2019, 2020], "revenue": [1.5, 2.5]})


async def test_arrow_and_parquet_arrive_as_the_same_table() -> None:
    store, sink = open_store("memory://"), pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    for data, kind in (
        (frames.write_table(TABLE), frames.ARROW_STREAM),
        (sink.getvalue().to_pybytes(), frames.PARQUET),
    ):
        ref = to_ref(await store.put("sheets/a", data, kind))
        sent = await embed_table(pb.PutFrameRequest(session_id="s", name="sheet_1", ref=ref, lazy=True), store)
        assert sent.WhichOneof("data") == "arrow"
        assert (sent.session_id, sent.name, sent.lazy) == ("s", "sheet_1", True)
        assert frames.read_table(sent.arrow).equals(TABLE)


async def test_without_a_store_the_reference_goes_as_it_is() -> None:
    request = pb.PutFrameRequest(name="sheet_1", ref=to_ref(await open_store("memory://").put("a", b"x")))
    assert await embed_table(request, None) is request


async def test_what_no_message_holds_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://")
    ref = to_ref(await store.put("a", frames.write_table(TABLE), frames.ARROW_STREAM))
    monkeypatch.setattr(tables, "MOST_BYTES", 100)
    with pytest.raises(PayloadTooLarge):
        await embed_table(pb.PutFrameRequest(name="sheet_1", ref=ref), store)
