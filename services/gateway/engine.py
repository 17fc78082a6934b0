"""What the routes do, without HTTP: runs, tables, figures, conversations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict

from fathom import frames
from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.runs import watch
from fathom.errors import FathomError, InvalidField, NotFound
from fathom.ids import new_id
from fathom.store import ObjectStore
from fathom.store.refs import read_ref
from services.gateway.config import Config

MAX_ROWS = 1_000
FORMATS = {"csv": data.EXPORT_FORMAT_CSV, "xlsx": data.EXPORT_FORMAT_XLSX}


@dataclass(frozen=True)
class File:
    """A download."""

    name: str
    media_type: str
    content: bytes


class Engine:
    """Answers the page's questions through the services' clients."""

    def __init__(self, config: Config, clients: Clients, store: ObjectStore) -> None:
        self._config, self._clients, self._store = config, clients, store

    async def start_run(self, request: planner.RunRequest) -> str:
        """Starts a run and gives its id; returns when the run exists, not when it ends."""
        if not request.question.strip():
            raise InvalidField("question", "is empty")
        if len(request.question) > self._config.max_question_chars:
            limit = self._config.max_question_chars
            raise InvalidField("question", f"has {len(request.question):,} characters; at most {limit:,} are allowed")
        request.request_id = request.request_id or new_id("run")
        async with aclosing(self._clients.planner.run(request, timeout_s=15.0)) as responses:
            await anext(responses)
        return request.request_id

    async def events(self, run_id: str, after: int) -> AsyncGenerator[dict[str, Any], None]:
        """Events of a run after a number; a failure to follow it is a last event of kind ``error``."""
        try:
            async with aclosing(watch(self._clients, run_id, after, patience_s=self._config.patience_s)) as events:
                async for event in events:
                    yield as_json(event)
        except FathomError as error:
            culprit = error.metadata.get("culprit", "")
            yield {"error": {"message": error.message, "reason": error.reason, "culprit": culprit}}

    async def run(self, run_id: str) -> dict[str, Any]:
        """A run with its trajectory, without token ids."""
        found = await self._trajectory(run_id)
        for name in ("token_ids", "mask", "log_probs"):
            found.trajectory.ClearField(name)
        for step in found.trajectory.steps:
            for name in ("prompt_token_ids", "sampled_token_ids", "log_probs"):
                step.completion.ClearField(name)
        return as_json(found)

    async def _trajectory(self, run_id: str) -> planner.GetRunResponse:
        return await self._clients.planner.get_run(planner.GetRunRequest(run_id=run_id))

    async def stop(self, run_id: str) -> dict[str, Any]:
        return as_json(await self._clients.planner.stop_run(planner.StopRunRequest(run_id=run_id)))

    async def runs(self, size: int, token: str) -> dict[str, Any]:
        return as_json(await self._clients.planner.list_runs(planner.ListRunsRequest(page_size=size, page_token=token)))

    async def figure(self, run_id: str, figure_id: str) -> bytes:
        """Plotly JSON of a figure of this run; only what the run's own record names can be read."""
        for figure in figures(await self._trajectory(run_id)):
            if figure.id == figure_id:
                return await read_ref(self._store, figure.ref)
        raise NotFound("figure", figure_id)

    async def table(self, sheet_id: str, offset: int, limit: int, sort: str, descending: bool) -> dict[str, Any]:
        """A page of a sheet's rows, sorted on the whole sheet."""
        if offset < 0 or not 1 <= limit <= MAX_ROWS:
            raise InvalidField("limit" if offset >= 0 else "offset", f"offset from 0, limit 1 to {MAX_ROWS:,}")
        chunks = self._clients.datafetch.get_table(data.GetTableRequest(sheet_id=sheet_id), timeout_s=30.0)
        arrow = b"".join([chunk.chunk async for chunk in chunks])
        return await asyncio.to_thread(page_of, arrow, offset, limit, sort, descending)

    async def export(self, sheet_id: str, kind: str) -> File:
        """The whole sheet as a file."""
        if kind not in FORMATS:
            raise InvalidField("format", f"must be one of {', '.join(FORMATS)}")
        request = data.ExportTableRequest(sheet_id=sheet_id, format=FORMATS[kind])
        file = (await self._clients.datafetch.export_table(request)).file
        return File(f"{sheet_id}.{kind}", file.content_type, await read_ref(self._store, file))

    async def conversations(self) -> dict[str, Any]:
        return as_json(await self._clients.memory.list_conversations(memory.ListConversationsRequest()))

    async def turns(self, conversation_id: str) -> dict[str, Any]:
        return as_json(await self._clients.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation_id)))

    async def forget(self, conversation_id: str) -> dict[str, Any]:
        request = memory.DeleteConversationRequest(conversation_id=conversation_id)
        return as_json(await self._clients.memory.delete_conversation(request))

    async def feedback(self, run_id: str, helpful: bool, tags: list[str], comment: str) -> None:
        request = memory.RecordFeedbackRequest(run_id=run_id, helpful=helpful, tags=tags, comment=comment)
        await self._clients.memory.record_feedback(request)

    async def models(self) -> dict[str, Any]:
        return as_json(await self._clients.policy.list_models(policy.ListModelsRequest()))


def figures(run: planner.GetRunResponse) -> list[trajectory.Figure]:
    """All figures that the run's cells drew."""
    return [
        figure
        for step in run.trajectory.steps
        for item in step.material
        if item.HasField("code")
        for figure in item.code.figures
    ]


def page_of(arrow: bytes, offset: int, limit: int, sort: str, descending: bool) -> dict[str, Any]:
    """Rows as lists of JSON values; dates ISO, nulls null."""
    table = frames.read_table(arrow)
    if sort:
        if sort not in table.column_names:
            raise InvalidField("sort", f"no column {sort!r}; known: {', '.join(table.column_names)}")
        table = table.sort_by([(sort, "descending" if descending else "ascending")])
    rows = table.slice(offset, limit).to_pylist()
    return {
        "columns": [{"name": name, "type": str(table.schema.field(name).type)} for name in table.column_names],
        "rows": [[plain(row[name]) for name in table.column_names] for row in rows],
        "total": table.num_rows,
    }


def plain(value: Any) -> Any:
    """A JSON value."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value else None
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text.removesuffix("T00:00:00")


def as_json(message: Any) -> dict[str, Any]:
    """A message as the page reads it: field names as in the proto."""
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found
