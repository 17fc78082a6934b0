"""Implementation of the routes without HTTP: runs, tables, figures, conversations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import PurePath
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients import Clients
from fathom.clients.runs import watch
from fathom.core.errors import DeadlineExceeded, FathomError, InvalidField, NotFound, NotReady, PayloadTooLarge
from fathom.core.ids import checked_id, new_id
from fathom.domain.chat.media import MEDIA_TYPES, ROWS_OF_DOCUMENTS, media_type
from fathom.services.gateway.bodies import TableMeaning, check_length
from fathom.services.gateway.config import Config
from fathom.services.gateway.own_tables.passages import MOST_ROWS, write_passages
from fathom.services.gateway.readiness import Readiness
from fathom.services.gateway.tables import View, build_page, validate_view
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref

T = TypeVar("T")
FORMATS = {"csv": data.EXPORT_FORMAT_CSV, "xlsx": data.EXPORT_FORMAT_XLSX}
UPLOADS = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".parquet": "application/vnd.apache.parquet",
}
DOCUMENTS = tuple(ending for ending, kind in MEDIA_TYPES.items() if kind not in ROWS_OF_DOCUMENTS)
# Of the rows of a table, and how long the name of a source may be.
ROWS, MAX_SOURCE_CHARS = MEDIA_TYPES[".jsonl"], 200
# The agent with the default model, in lists of models for programs that must name one.
AGENT = "fathom"
# Short, because it only decides between 404 and a stream: the stream itself waits longer.
PROBE_TIMEOUT_S = 2.0
# A table at ``max_table_bytes`` on a slow link, with room to spare.
TABLE_TIMEOUT_S = 30.0
# A filing of hundreds of pages, which an encoder may have to read.
DOCUMENT_TIMEOUT_S = 300.0
# Media types under which runs store figures.
FIGURE_TYPES = ("application/json", "image/png", "image/svg+xml", "text/html")


@dataclass(frozen=True)
class File:
    """A file to download."""

    name: str
    media_type: str
    content: bytes


class Engine:
    """Answers the page's requests through the services' clients; ``close`` ends the open event streams."""

    def __init__(self, config: Config, clients: Clients, store: ObjectStore, readiness: Readiness) -> None:
        self._config, self._clients, self._store, self._readiness = config, clients, store, readiness
        self._closing = asyncio.Event()

    @property
    def clients(self) -> Clients:
        """Return the services' clients."""
        return self._clients

    async def close(self) -> None:
        """End every event stream."""
        # An open stream would keep the server from draining; browsers reconnect elsewhere.
        self._closing.set()

    async def start_run(self, request: planner.RunRequest) -> dict[str, Any]:
        """Start a run, or join the one with the same request id; return when the run exists, not when it ends.

        Raises ``InvalidField`` for a malformed question or id, ``DependencyFailed`` while bus or store are away.
        """
        self.check_question(request)
        self._readiness.require_no_outage()
        # Assigned here, so that the run's id is known even when the stream ends before its first event.
        request.request_id = checked_id("request_id", request.request_id) if request.request_id else new_id("run")
        request.model = request.model or self._config.default_model
        conversation_id = request.conversation_id
        waiting: dict[str, int] | None = None
        try:
            # Only the first event is awaited; closing the stream does not end the run, which others follow.
            async with aclosing(self._clients.planner.run(request, timeout_s=self._config.start_timeout_s)) as events:
                first = (await anext(events)).event
                conversation_id = first.started.conversation_id or first.waiting.conversation_id
                if first.HasField("waiting"):
                    waiting = {"before": first.waiting.before, "expected_ms": first.waiting.expected_ms}
        except DeadlineExceeded:
            # Every worker is busy: the run waits in its queue, which is as good as begun. Without a record it failed.
            if not await self._exists(request.request_id):
                raise
        return {"run_id": request.request_id, "conversation_id": conversation_id, "waiting": waiting}

    def check_question(self, request: planner.RunRequest) -> None:
        """Raise ``InvalidField`` for a question that is empty or too long."""
        check_length("question", request.question, self._config.max_question_chars)

    async def _exists(self, run_id: str) -> bool:
        try:
            await self.read_run(run_id)
        except NotFound:
            return False
        return True

    async def require_run(self, run_id: str) -> None:
        """Raise ``NotFound`` or ``InvalidField`` if no such run can exist; succeed when the planner is unreachable."""
        try:
            await self._clients.planner.get_run(planner.GetRunRequest(run_id=run_id), timeout_s=PROBE_TIMEOUT_S)
        except (NotFound, InvalidField):
            raise
        except FathomError:
            return  # the event stream has its own patience

    async def has_ended(self, run_id: str, after: int) -> bool:
        """Return whether a run is over and has no event after a number; False when that cannot be known.

        Raises ``NotFound`` or ``InvalidField`` if no such run can exist.
        """
        try:
            request = planner.GetRunRequest(run_id=run_id)
            # A reader from the beginning has an event to come: the end at least.
            if (await self._clients.planner.get_run(request, timeout_s=PROBE_TIMEOUT_S)).running or not after:
                return False
            rest = planner.WatchRunRequest(run_id=run_id, after_sequence=after)
            async with aclosing(self._clients.planner.watch_run(rest, timeout_s=PROBE_TIMEOUT_S)) as events:
                async for _ in events:
                    return False
        except (NotFound, InvalidField):
            raise
        except FathomError:
            return False  # the event stream has its own patience
        return True

    async def stream_events(self, run_id: str, after: int) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a run after a number; if they stay unreachable, the last one is ``{"failure": …}``."""
        source = watch(self._clients, run_id, after, patience_s=self._config.patience_s)
        try:
            async with aclosing(stream_until(self._closing, source)) as events:
                async for event in events:
                    yield to_json(event)
        except FathomError as error:
            culprit = error.metadata.get("culprit", "")
            yield {"failure": {"message": error.message, "reason": error.reason, "culprit": culprit}}

    async def follow(self, run_id: str) -> AsyncGenerator[planner.RunEvent, None]:
        """Yield the events of a run from its first to its end; raise what keeps them from being read."""
        source = watch(self._clients, run_id, patience_s=self._config.patience_s)
        async with aclosing(stream_until(self._closing, source)) as events:
            async for event in events:
                yield event
        if self._closing.is_set():
            raise NotReady(f"this gateway is stopping; run {run_id} goes on")

    async def get_run(self, run_id: str) -> dict[str, Any]:
        """Return a run with its steps, material and answer so far, without token ids and prompts."""
        found = await self.read_run(run_id)
        # Fields for training, several per token: no page shows them.
        for name in ("token_ids", "mask", "log_probs"):
            found.trajectory.ClearField(name)
        for step in found.trajectory.steps:
            step.ClearField("new_messages")
            for name in ("prompt_token_ids", "sampled_token_ids", "log_probs"):
                step.completion.ClearField(name)
        return to_json(found)

    async def read_run(self, run_id: str) -> planner.GetRunResponse:
        """Return a run with everything that its record has."""
        return await self._clients.planner.get_run(planner.GetRunRequest(run_id=run_id))

    async def stop_run(self, run_id: str) -> dict[str, Any]:
        """End a run; what was collected stays."""
        return to_json(await self._clients.planner.stop_run(planner.StopRunRequest(run_id=run_id)))

    async def resume_run(self, request: planner.ResumeRunRequest) -> dict[str, Any]:
        """Resume a run that ended without an answer; return when it has resumed, not when it ends."""
        request.request_id = request.request_id or new_id("resume")
        try:
            started = self._clients.planner.resume_run(request, timeout_s=self._config.start_timeout_s)
            async with aclosing(started) as events:
                await anext(events)
        except DeadlineExceeded:
            # Every worker is busy: the resumption waits in its queue. Without one it failed.
            if not (await self.read_run(request.run_id)).running:
                raise
        return {"run_id": request.run_id, "conversation_id": ""}

    async def edit_todo(self, request: planner.UpdateTodoRequest) -> dict[str, Any]:
        """Replace the todo list and return it as the run keeps it."""
        request.request_id = request.request_id or new_id("edit")
        return to_json(await self._clients.planner.update_todo(request))

    async def replay_run(self, run_id: str) -> dict[str, Any]:
        """Replay a run from its record and compare the two."""
        return to_json(await self._clients.planner.replay_run(planner.ReplayRunRequest(run_id=run_id)))

    async def list_runs(self, page_size: int, page_token: str) -> dict[str, Any]:
        """Return a page of runs, newest first."""
        request = planner.ListRunsRequest(page_size=page_size, page_token=page_token)
        return to_json(await self._clients.planner.list_runs(request))

    async def get_figure(self, run_id: str, figure_id: str) -> tuple[bytes, str]:
        """Return a figure of this run, Plotly JSON, a picture or HTML, and its media type.

        Raises ``NotFound`` for one that the run's record does not name.
        """
        # Only figures that the run's record names: a caller must not read the store by guessed keys.
        known = list_figures((await self.read_run(run_id)).trajectory)
        for figure in known:
            if figure.id == figure_id:
                kind = figure.ref.content_type
                # Whatever else the record says, a browser must not take it for a page.
                return await read_ref(self._store, figure.ref), kind if kind in FIGURE_TYPES else "application/json"
        raise NotFound("figure", figure_id, [figure.id for figure in known])

    async def get_table_page(self, sheet_id: str, view: View) -> dict[str, Any]:
        """Return a page of a sheet's rows, filtered and sorted on the whole sheet; see ``build_page``."""
        arrow = await self.read_table(sheet_id)
        return await asyncio.to_thread(build_page, arrow, sheet_id, validate_view(view))

    async def read_table(self, sheet_id: str) -> bytes:
        """Return a whole sheet as an Arrow stream; raise ``PayloadTooLarge`` for one over ``max_table_bytes``."""
        chunks, size, limit = [], 0, self._config.max_table_bytes
        request = data.GetTableRequest(sheet_id=checked_id("sheet_id", sheet_id))
        async with aclosing(self._clients.datafetch.get_table(request, timeout_s=TABLE_TIMEOUT_S)) as responses:
            async for response in responses:
                # Counted as they arrive, since the service's own statement of the size is not relied on.
                size += len(response.chunk)
                if size > limit:
                    raise PayloadTooLarge(size, limit)
                chunks.append(response.chunk)
        return b"".join(chunks)

    async def import_table(self, name: str, worksheet: str, further: int, content: bytes) -> dict[str, Any]:
        """Register a caller's file as a sheet and return it with the rows that could not be read.

        Of a workbook, ``further`` more tables at most are made.
        Raises ``InvalidField`` for a file whose name does not end like a table's.
        """
        kind = UPLOADS.get(PurePath(name).suffix.lower())
        if kind is None:
            raise InvalidField("name", f"must end with one of {', '.join(UPLOADS)}")
        # A key of its own: another upload of the same file must not lose it when this one ends.
        ident = new_id("upload")
        stored = await self._store.put(f"uploads/{ident}{PurePath(name).suffix.lower()}", content, kind)
        request = data.ImportTableRequest(
            request_id=ident,
            title=name,
            data=to_ref(stored),
            worksheet=worksheet,
            further_worksheets=further,
            lifetime_s=self._config.upload_lifetime_s,
        )
        try:
            return to_json(await self._clients.datafetch.import_table(request, timeout_s=TABLE_TIMEOUT_S))
        finally:
            # Also when the caller has left: the sheet is all that is used of the file.
            await asyncio.shield(self._store.delete(stored.key))

    async def propose_meaning(self, sheet_id: str) -> dict[str, Any]:
        """Return what the columns of a sheet seem to mean, in the words of ``bodies.TableMeaning``."""
        request = data.ProposeMeaningRequest(sheet_id=checked_id("sheet_id", sheet_id))
        found = await self._clients.datafetch.propose_meaning(request, timeout_s=TABLE_TIMEOUT_S)
        columns = [
            {
                **to_json(one),
                "role": data.ColumnRole.Name(one.role).removeprefix("COLUMN_ROLE_").lower(),
                "aggregation": data.Aggregation.Name(one.aggregation).removeprefix("AGGREGATION_").lower()
                if one.aggregation
                else "",
            }
            for one in found.meaning.columns
        ]
        return {"columns": columns, "adds": found.adds, "has_encoder": found.has_encoder}

    async def apply_meaning(self, sheet_id: str, meaning: TableMeaning) -> dict[str, Any]:
        """Make a sheet of series of an imported one and return it with the rows that are in none."""
        ident = checked_id("sheet_id", sheet_id)
        request = meaning.request(ident, new_id("meaning"), self._config.upload_lifetime_s)
        return to_json(await self._clients.datafetch.apply_meaning(request, timeout_s=TABLE_TIMEOUT_S))

    async def import_document(self, name: str, corpus: str, published: date | None, content: bytes) -> dict[str, Any]:
        """Add a caller's file to a corpus of its own, a new one without a name; return that and what was not read.

        Raises ``InvalidField`` for a file whose name does not end like a document's.
        """
        if PurePath(name).suffix.lower() not in DOCUMENTS:
            raise InvalidField("name", f"must end with one of {', '.join(DOCUMENTS)}")
        return await self._import(name, media_type(name), corpus, content, published)

    async def add_passages(self, sheet_id: str, corpus: str) -> dict[str, Any]:
        """Add the first rows of an imported table to a corpus as ``import_document`` does, and return the same.

        An issue says how many rows are left out.
        """
        request = data.GetSheetRequest(sheet_id=checked_id("sheet_id", sheet_id))
        sheet = (await self._clients.datafetch.get_sheet(request, timeout_s=TABLE_TIMEOUT_S)).sheet
        lines = await asyncio.to_thread(write_passages, await self.read_table(sheet_id), sheet)
        if not lines:
            raise InvalidField("sheet_id", f"{sheet.title} has no row that says anything")
        reply = await self._import(sheet.title[:MAX_SOURCE_CHARS], ROWS, corpus, lines)
        if (left := sheet.rows - MOST_ROWS) > 0:
            note = f"{sheet.title}: only its first {MOST_ROWS} rows can be quoted, {left:,} more are computed on alone"
            reply.setdefault("issues", []).append({"line": "0", "message": note, "source": sheet.title})
        return reply

    async def _import(
        self, source: str, kind: str, corpus: str, content: bytes, published: date | None = None
    ) -> dict[str, Any]:
        ident = new_id("upload")
        stored = await self._store.put(f"uploads/{ident}", content, kind)
        request = retrieval.ImportDocumentRequest(
            request_id=ident,
            corpus=corpus,
            data=to_ref(stored),
            source=source,
            lifetime_s=self._config.upload_lifetime_s,
        )
        if published is not None:
            request.publish_time.FromDatetime(datetime(published.year, published.month, published.day, tzinfo=UTC))
        try:
            return to_json(await self._clients.retrieval.import_document(request, timeout_s=DOCUMENT_TIMEOUT_S))
        finally:
            await asyncio.shield(self._store.delete(stored.key))

    async def export_table(self, sheet_id: str, kind: str, *, has_parentheses: bool = False) -> File:
        """Return the whole sheet as a file of ``kind`` csv or xlsx; raise ``InvalidField`` for another kind.

        With ``has_parentheses``, negative numbers stand in them.
        """
        if kind not in FORMATS:
            raise InvalidField("format", f"must be one of {', '.join(FORMATS)}")
        style = data.NEGATIVE_STYLE_PARENTHESES if has_parentheses else data.NEGATIVE_STYLE_MINUS
        request = data.ExportTableRequest(
            sheet_id=checked_id("sheet_id", sheet_id), format=FORMATS[kind], negatives=style
        )
        file = (await self._clients.datafetch.export_table(request)).file
        return File(f"{sheet_id}.{kind}", file.content_type, await read_ref(self._store, file))

    async def list_frameworks(self, question: str, level: int) -> dict[str, Any]:
        """Return the analysis frameworks: all by topic, or those relevant to a question."""
        request = data.ListFrameworksRequest(question=question, level=level)
        return to_json(await self._clients.datafetch.list_frameworks(request))

    async def list_conversations(self, page_size: int, page_token: str, query: str) -> dict[str, Any]:
        """Return a page of conversations, most recently used first; with a query those that have its words."""
        request = memory.ListConversationsRequest(page_size=page_size, page_token=page_token, query=query)
        return to_json(await self._clients.memory.list_conversations(request))

    async def list_turns(self, request: memory.ListTurnsRequest) -> dict[str, Any]:
        """Return a page of a conversation's turns."""
        return to_json(await self._clients.memory.list_turns(request))

    async def update_conversation(self, request: memory.UpdateConversationRequest) -> dict[str, Any]:
        """Rename, pin or unpin a conversation, and return it."""
        return to_json((await self._clients.memory.update_conversation(request)).conversation)

    async def delete_conversation(self, conversation_id: str) -> dict[str, Any]:
        """Delete a conversation."""
        request = memory.DeleteConversationRequest(conversation_id=conversation_id)
        return to_json(await self._clients.memory.delete_conversation(request))

    async def set_consent(self, request: planner.SetConsentRequest) -> None:
        """State whether a run, or all runs of the caller, may become training data."""
        await self._clients.planner.set_consent(request)

    async def get_consent(self, run_id: str) -> dict[str, Any]:
        """Return whether a run, or all runs of the caller, may become training data."""
        found = await self._clients.planner.get_consent(planner.GetConsentRequest(run_id=run_id))
        stated = trajectory.Consent.Name(found.consent).removeprefix("CONSENT_").lower()
        return {"consent": stated if found.consent else "", "of_run": found.of_run}

    async def list_models(self) -> dict[str, Any]:
        """Return the models with their states, and the one that answers when none is named; as OpenAI lists, too."""
        listed, default = await asyncio.gather(
            self._clients.policy.list_models(policy.ListModelsRequest()),
            self._clients.policy.get_model(policy.GetModelRequest(model=self._config.default_model)),
        )
        data = [describe_model(AGENT, "fathom"), *(describe_model(item.name, item.engine) for item in listed.models)]
        return {"object": "list", "data": data, "default": default.model.name, **to_json(listed)}

    async def probe(self) -> None:
        """Return when a question could be answered; raise the typed error of what prevents it."""
        await self._readiness.check()


def describe_model(name: str, engine: str) -> dict[str, Any]:
    """Return a model as OpenAI's lists have it; when it was made is not known here."""
    return {"id": name, "object": "model", "created": 0, "owned_by": engine}


async def stream_until(closing: asyncio.Event, source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield the items of ``source`` until it ends or ``closing`` is set; close ``source``."""
    # One waiter for the whole stream; each item is awaited beside it, so that a quiet run ends at once on closing.
    stop = asyncio.ensure_future(closing.wait())
    item: asyncio.Future[T] | None = None
    try:
        while True:
            item = asyncio.ensure_future(anext(source))
            await asyncio.wait({item, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                return
            try:
                found = item.result()
            # A future must not raise it through a generator, where it would become a RuntimeError.
            except StopAsyncIteration:
                return
            yield found
    finally:
        pending = [future for future in (stop, item) if future is not None]
        for future in pending:
            future.cancel()
        # The generator must be idle before it is closed: closing one that is running raises.
        await asyncio.gather(*pending, return_exceptions=True)
        await source.aclose()


def list_figures(run: trajectory.Trajectory) -> list[trajectory.Figure]:
    """Return all figures that the run's cells drew, including those of its answer."""
    material = [*(item for step in run.steps for item in step.material), *run.answer.material]
    return [figure for item in material if item.HasField("code") for figure in item.code.figures]


def to_json(message: Message) -> dict[str, Any]:
    """Convert a message to protobuf's JSON form with the proto's field names; 64-bit integers become strings."""
    # Fields without presence are always printed, so that a reader never has to guess a default.
    found: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found
