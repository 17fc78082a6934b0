"""gRPC servicer of the service front: converts between protobuf and engine, without logic of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.call import Call
from fathom.clients.tables import MOST_BYTES
from fathom.errors import InvalidField, NotReady, PayloadTooLarge
from fathom.ids import sha256
from fathom.rpc.service import Deps, Service
from fathom.store import ObjectStore
from fathom.store.refs import read_ref, to_ref
from services.sandbox.checks import checked_code
from services.sandbox.config import Config
from services.sandbox.engine import Engine
from services.sandbox.events import Display, Event, Gap, Outcome, Output, Status, Variable
from services.sandbox.front import Front
from services.sandbox.isolation import Level
from services.sandbox.metrics import Metrics
from services.sandbox.tables import read_table

INLINE_BYTES = 256 * 1024
INLINE_FRAME_BYTES = 512 * 1024
CHUNK_BYTES = 256 * 1024
DRAIN_POLL_S = 0.1
STATUSES = {status: f"EXECUTE_STATUS_{status.name}" for status in Status}
LEVELS: dict[Level, pb.IsolationLevel] = {
    Level.NONE: pb.ISOLATION_LEVEL_NONE,
    Level.LANDLOCK: pb.ISOLATION_LEVEL_LANDLOCK,
    Level.NAMESPACE: pb.ISOLATION_LEVEL_NAMESPACE,
    Level.GUEST_KERNEL: pb.ISOLATION_LEVEL_GUEST_KERNEL,
    Level.VM: pb.ISOLATION_LEVEL_VM,
}
STREAMS = {"stdout": pb.OUTPUT_STREAM_STDOUT, "stderr": pb.OUTPUT_STREAM_STDERR}


def build(config: Config, deps: Deps) -> Service:
    """Return the sandbox service; this is its only constructor."""
    front = Front(config, deps.telemetry.log, Metrics.register(deps.telemetry.registry).note)
    servicer = SandboxServicer(front, deps.store, config)
    return Service("sandbox", servicer, front.start, front.close, front.isolation_facts, front.changes, servicer.drain)


class SandboxServicer:
    """Servicer over a ``Front``, or over an ``Engine`` in the same process, which has the same methods."""

    def __init__(self, engine: Front | Engine, store: ObjectStore, config: Config) -> None:
        self._engine, self._store, self._config = engine, store, config
        self._draining = False

    async def drain(self) -> None:
        """Refuse new sessions; return when the last open one is closed, or after ``drain_s`` seconds."""
        self._draining = True
        for _ in range(round(self._config.drain_s / DRAIN_POLL_S)):
            if not self._engine.open_sessions:
                return
            await asyncio.sleep(DRAIN_POLL_S)

    async def CreateSession(self, request: pb.CreateSessionRequest, call: Call) -> pb.CreateSessionResponse:
        if self._draining:
            raise NotReady("the sandbox is draining: open the session elsewhere", retry_after_s=DRAIN_POLL_S)
        limits = {field.name: value for field, value in request.limits.ListFields()}
        session_id = await self._engine.open_session(request.request_id, limits, call.tenant)
        return pb.CreateSessionResponse(session_id=session_id, isolation=self._level())

    async def PutFrame(self, request: pb.PutFrameRequest, call: Call) -> pb.PutFrameResponse:
        source = request.WhichOneof("data")
        if source is None:
            raise InvalidField("data", "give arrow bytes or a ref")
        most = INLINE_FRAME_BYTES if self._config.objects else MOST_BYTES
        if len(request.arrow) > most:
            raise PayloadTooLarge(len(request.arrow), most)
        if source == "ref" and not self._config.objects:
            raise InvalidField("ref", "this sandbox reaches no object store (objects is false): send arrow")
        data = request.arrow if source == "arrow" else await read_ref(self._store, request.ref)
        table = await read_table(request.name, data, request.ref.content_type, request.description, self._config)
        await self._engine.inject(request.session_id, request.name, table.memory, lazy=request.lazy)
        return pb.PutFrameResponse(digest=table.digest, rows=table.rows)

    async def Execute(self, request: pb.ExecuteRequest, call: Call) -> AsyncIterator[pb.ExecuteResponse]:
        code = checked_code(request.code)
        if request.wall_ms < 0:
            raise InvalidField("wall_ms", "must not be negative")
        cell = (request.session_id, request.request_id, code, request.wall_ms)
        started, sequence = time.monotonic(), 0
        async with aclosing(with_pauses(self._engine.execute(*cell), self._config.keep_alive_s)) as events:
            async for event in events:
                if event is None:
                    elapsed_ms = int((time.monotonic() - started) * 1000)
                    yield pb.ExecuteResponse(sequence=sequence, keep_alive=pb.KeepAlive(elapsed_ms=elapsed_ms))
                else:
                    sequence += 1
                    yield await self._event(sequence, event, request)

    async def _event(self, sequence: int, event: Event, request: pb.ExecuteRequest) -> pb.ExecuteResponse:
        response = pb.ExecuteResponse(sequence=sequence)
        if isinstance(event, Output):
            response.output.CopyFrom(pb.OutputChunk(stream=STREAMS[event.stream], text=event.text))
        elif isinstance(event, Gap):
            text = f"\n[… {event.size_bytes:,} bytes left out …]\n"
            response.output.CopyFrom(pb.OutputChunk(stream=STREAMS[event.stream], text=text))
        elif isinstance(event, Display):
            await self._show(response, event, request.session_id)
        else:
            response.outcome.CopyFrom(outcome_to_proto(event))
            response.outcome.record_id = request.request_id or f"{request.session_id}/{event.cell}"
        return response

    async def _show(self, response: pb.ExecuteResponse, display: Display, session_id: str) -> None:
        """Put a display into the response, or a note on stderr when it is too large to be sent inline."""
        if self._config.objects or len(display.data) <= MOST_BYTES:
            response.display.CopyFrom(await self._display(display, session_id))
        else:
            text = f"\n[… {display.media_type} of {len(display.data):,} bytes left out …]\n"
            response.output.CopyFrom(pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDERR, text=text))

    async def _display(self, display: Display, session_id: str) -> pb.Display:
        """Return the display inline, or as a reference into the object store, if there is one.

        With a store, only small displays other than images travel inline.
        """
        if not self._config.objects:
            return pb.Display(media_type=display.media_type, data=display.data)
        if len(display.data) <= INLINE_BYTES and not display.media_type.startswith("image/"):
            return pb.Display(media_type=display.media_type, data=display.data)
        key = f"displays/{session_id}/{sha256(display.data)}"
        stored = await self._store.put(key, display.data, display.media_type)
        return pb.Display(media_type=display.media_type, ref=to_ref(stored))

    async def ListVariables(self, request: pb.ListVariablesRequest, call: Call) -> pb.ListVariablesResponse:
        found = await self._engine.variables(request.session_id)
        return pb.ListVariablesResponse(variables=variables_to_proto(found))

    async def Interrupt(self, request: pb.InterruptRequest, call: Call) -> pb.InterruptResponse:
        return pb.InterruptResponse(interrupted=await self._engine.interrupt(request.session_id))

    async def Restart(self, request: pb.RestartRequest, call: Call) -> pb.RestartResponse:
        return pb.RestartResponse(frames=await self._engine.restart(request.session_id))

    async def CloseSession(self, request: pb.CloseSessionRequest, call: Call) -> pb.CloseSessionResponse:
        await self._engine.close_session(request.session_id)
        return pb.CloseSessionResponse()

    async def PutFile(self, request: pb.PutFileRequest, call: Call) -> pb.PutFileResponse:
        size = await self._engine.put_file(request.session_id, request.path, request.content)
        return pb.PutFileResponse(size_bytes=size)

    async def GetFile(self, request: pb.GetFileRequest, call: Call) -> AsyncIterator[pb.GetFileResponse]:
        content = await self._engine.get_file(request.session_id, request.path)
        for start in range(0, len(content) or 1, CHUNK_BYTES):
            yield pb.GetFileResponse(chunk=content[start : start + CHUNK_BYTES])

    async def ListFiles(self, request: pb.ListFilesRequest, call: Call) -> pb.ListFilesResponse:
        files = await self._engine.files(request.session_id)
        return pb.ListFilesResponse(files=[pb.FileEntry(path=file.path, size_bytes=file.size_bytes) for file in files])

    async def GetIsolation(self, request: pb.GetIsolationRequest, call: Call) -> pb.GetIsolationResponse:
        report = self._engine.report
        return pb.GetIsolationResponse(level=self._level(), layers=report.layers, missing=report.missing)

    def _level(self) -> pb.IsolationLevel:
        """Return the achieved level as a value of the API's enumeration."""
        return LEVELS[self._engine.report.level]


def variables_to_proto(variables: Sequence[Variable]) -> list[pb.Variable]:
    return [pb.Variable(name=item.name, type=item.type, shape=item.shape) for item in variables]


def outcome_to_proto(outcome: Outcome) -> pb.Outcome:
    return pb.Outcome(
        status=STATUSES[outcome.status],
        result=outcome.result,
        traceback=outcome.traceback,
        error_name=outcome.error_name,
        error_value=outcome.error_value,
        changed=variables_to_proto(outcome.changed),
        duration_ms=outcome.duration_ms,
        peak_memory_bytes=outcome.peak_memory_bytes,
        dropped_output_bytes=outcome.dropped_output_bytes,
        cell=outcome.cell,
        session_lost=outcome.session_lost,
        cause=outcome.cause,
    )


async def with_pauses(events: AsyncGenerator[Event, None], pause_s: float) -> AsyncGenerator[Event | None, None]:
    """Yield the events, and None after every ``pause_s`` seconds without one."""
    coming: asyncio.Task[Event] | None = None
    async with aclosing(events):
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait({coming}, timeout=pause_s)
                if not done:
                    yield None
                    continue
                finished, coming = coming, None
                try:
                    event = finished.result()
                except StopAsyncIteration:
                    return
                yield event
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
