"""Messages of export, erasure and judgements to and from what the engine takes and gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core.call import Call
from fathom.services.memory.feedback import Filter
from fathom.services.memory.retaining.exporting import Row
from fathom.services.memory.retaining.scope import Scope, choose_scope
from fathom.services.memory.times import to_seconds


def scope_from_proto(message: pb.MemoryScope, call: Call) -> Scope:
    """Return whose memory is meant; raise ``PermissionDenied`` and ``InvalidField``."""
    return choose_scope(call, message.tenant, message.principal, everybody=message.everybody)


def rows_to_proto(rows: Sequence[Row]) -> list[pb.ExportedRow]:
    """Return exported rows, each as a JSON object."""
    return [pb.ExportedRow(table=row.table, row_json=json.dumps(dict(row.values), ensure_ascii=False)) for row in rows]


def erased_to_proto(rows: Mapping[str, int]) -> list[pb.ErasedTable]:
    """Return the number of deleted rows by table, without tables that had none."""
    return [pb.ErasedTable(table=table, rows=count) for table, count in sorted(rows.items()) if count]


def filter_from_proto(request: pb.ListFeedbackRequest) -> Filter:
    """Return which judgements a request asks for."""
    helpful = request.helpful if request.HasField("helpful") else None
    times = (to_seconds(request.after), to_seconds(request.before))
    return Filter(
        helpful, request.tag, request.run_id, request.edited, *times,
        is_own=request.own, conversation=request.conversation_id,
    )  # fmt: skip
