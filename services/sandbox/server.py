"""gRPC servicer of the service front: checks requests, passes them to the supervisor, and completes what it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients.tables import MOST_BYTES
from fathom.core.call import Call
from fathom.core.errors import FathomError, InvalidField, NotReady, PayloadTooLarge
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.hosting.deps import Deps
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.checks import validate_code, validate_columns
from fathom.services.sandbox.front.displays import DisplayStore
from fathom.services.sandbox.front.json_displays import JSON_TYPES, SHORT_BYTES, check_json
from fathom.services.sandbox.front.markup import clean_markup
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.front.tables import make_decoder, read_table
from fathom.services.sandbox.ipc.frames import HTML, SVG
from fathom.services.sandbox.metrics import Metrics
from fathom.transport.rpc.service import Service
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref
from fathom.transport.store.tenant import TenantStore

# Small displays are cheaper inline than as an object that is read once.
INLINE_BYTES = 256 * 1024
# Larger tables should travel by reference, so that calls stay far below gRPC's message limit.
INLINE_FRAME_BYTES = 512 * 1024
# Also the retry delay of refused callers: another replica can be asked at once.
DRAIN_POLL_S = 0.1
MARKUP = (HTML, SVG)
# Twice the longest id of a run: only compared, and kept with its session.
MAX_RUN_ID = 256
# A tree takes ten times the bytes of a cell's displays, which are at most 8 MiB.
CLEANING = DecodingLimits(memory_bytes=256 * 1024 * 1024, processor_s=5)
T = TypeVar("T")


def build(config: Config, deps: Deps) -> Service:
    """Return the sandbox service; this is its only constructor."""
    metrics, log = Metrics.register(deps.telemetry.registry), deps.telemetry.log
    supervisor = SupervisorClient(config, log, metrics.note)
    displays = DisplayStore(deps.store, config.lifetime_s)
    servicer = SandboxServicer(supervisor, TenantStore(deps.store), config, displays)

    def report(error: FathomError) -> None:
        metrics.failed_sweeps.inc()
        log.warning("displays were not swept, which is tried again", error=error.message)

    async def start() -> None:
        await supervisor.start()
        if config.objects:
            displays.start(report)

    async def close() -> None:
        servicer.close()
        await displays.close()
        await supervisor.close()

    return Service(
        "sandbox",
        servicer,
        start,
        close,
        supervisor.list_isolation_facts,
        supervisor.watch_changes,
        servicer.drain,
    )


class SandboxServicer:
    """Servicer over a ``SupervisorClient``: one line per RPC, more where the front has something of its own to do."""

    def __init__(
        self, supervisor: SupervisorClient, store: ObjectStore, config: Config, displays: DisplayStore | None = None
    ) -> None:
        self._supervisor, self._store, self._config = supervisor, store, config
        self._displays = displays or DisplayStore(store, config.lifetime_s)
        self._decoder = make_decoder(config)
        # Of its own, so that what cells display does not keep tables waiting.
        self._cleaner = Decoder(CLEANING)
        self._draining = False

    def close(self) -> None:
        """End the processes that decode tables and clean displays."""
        self._decoder.close()
        self._cleaner.close()

    async def drain(self) -> None:
        """Refuse new sessions; return when the last open one is closed, or after ``drain_s`` seconds."""
        self._draining = True
        for _ in range(round(self._config.drain_s / DRAIN_POLL_S)):
            if not self._supervisor.open_sessions:
                return
            await asyncio.sleep(DRAIN_POLL_S)

    async def CreateSession(self, request: pb.CreateSessionRequest, call: Call) -> pb.CreateSessionResponse:
        if self._draining:
            raise NotReady("the sandbox is draining: open the session elsewhere", retry_after_s=DRAIN_POLL_S)
        if len(request.run_id) > MAX_RUN_ID:
            raise InvalidField("run_id", f"has more than {MAX_RUN_ID} characters")
        return await self._supervisor.open_session(request, call.tenant, call.lane)

    async def PutFrame(self, request: pb.PutFrameRequest, call: Call) -> pb.PutFrameResponse:
        source = request.WhichOneof("data")
        if source is None:
            raise InvalidField("data", "give arrow bytes or a ref")
        validate_columns(request.columns)
        # Without a store the call is the only way in, up to what a gRPC message holds.
        most = INLINE_FRAME_BYTES if self._config.objects else MOST_BYTES
        if len(request.arrow) > most:
            raise PayloadTooLarge(len(request.arrow), most)
        if source == "ref" and not self._config.objects:
            raise InvalidField("ref", "this sandbox reaches no object store (objects is false): send arrow")
        most = self._config.frames_bytes
        data = request.arrow if source == "arrow" else await read_ref(self._store, request.ref, most)
        kind = request.ref.content_type
        table = await read_table(self._decoder, request.name, data, kind, request.description, self._config)
        # Without the data: the table goes as a memory file, which the worker maps without another copy.
        injected = pb.PutFrameRequest(
            session_id=request.session_id,
            run_id=request.run_id,
            name=request.name,
            lazy=request.lazy,
            columns=request.columns,
        )
        await self._supervisor.call("PutFrame", injected, pb.PutFrameResponse, table.memory)
        return pb.PutFrameResponse(digest=table.digest, rows=table.rows)

    async def Execute(self, request: pb.ExecuteRequest, call: Call) -> AsyncIterator[pb.ExecuteResponse]:
        validate_code(request.code)
        if request.wall_ms < 0:
            raise InvalidField("wall_ms", "must not be negative")
        started, sequence = time.monotonic(), 0
        async with aclosing(add_keep_alives(self._supervisor.execute(request), self._config.keep_alive_s)) as events:
            async for event in events:
                if event is None:
                    elapsed_ms = int((time.monotonic() - started) * 1000)
                    yield pb.ExecuteResponse(sequence=sequence, keep_alive=pb.KeepAlive(elapsed_ms=elapsed_ms))
                else:
                    sequence += 1
                    await self._complete(event, request)
                    event.sequence = sequence
                    yield event

    async def _complete(self, event: pb.ExecuteResponse, request: pb.ExecuteRequest) -> None:
        """Give an outcome the id of its record, and put a display where its size and type belong."""
        if event.HasField("outcome"):
            event.outcome.record_id = request.request_id or f"{request.session_id}/{event.outcome.cell}"
        elif event.HasField("display"):
            # Callers read references with their own rights: one made by the supervisor could name any object.
            event.display.ClearField("ref")
            await self._clean_display(event)
        if event.HasField("display"):
            await self._place_display(event, request.session_id)

    async def _clean_display(self, event: pb.ExecuteResponse) -> None:
        """Reduce markup to what may be shown, and replace a display that is not of its type by a note on stderr."""
        media_type, data = event.display.media_type, event.display.data
        try:
            if media_type in MARKUP:
                event.display.data = await self._cleaner.run("display", clean_markup, media_type, data)
            elif media_type in JSON_TYPES and len(data) <= SHORT_BYTES:
                check_json(media_type, data)
            elif media_type in JSON_TYPES:
                await self._cleaner.run("display", check_json, media_type, data)
        except InvalidField as error:
            text = f"\n[… {media_type} left out: {error.message} …]\n"
            event.output.CopyFrom(pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDERR, text=text))

    async def _place_display(self, event: pb.ExecuteResponse, session_id: str) -> None:
        """Leave a display inline, or move it into the object store, if there is one.

        With a store, only small displays other than images stay inline; without, one that no call can carry is replaced
        by a note on stderr.
        """
        media_type, data = event.display.media_type, event.display.data
        if self._config.objects:
            if len(data) > INLINE_BYTES or media_type.startswith("image/"):
                stored = await self._displays.put(session_id, data, media_type)
                if stored is not None:
                    event.display.CopyFrom(pb.Display(media_type=media_type, ref=to_ref(stored)))
                else:
                    leave_out(event, "the session has displayed all that it may")
        elif len(data) > MOST_BYTES:
            leave_out(event)

    async def ListVariables(self, request: pb.ListVariablesRequest, call: Call) -> pb.ListVariablesResponse:
        return await self._supervisor.call("ListVariables", request, pb.ListVariablesResponse)

    async def Interrupt(self, request: pb.InterruptRequest, call: Call) -> pb.InterruptResponse:
        return await self._supervisor.call("Interrupt", request, pb.InterruptResponse)

    async def Restart(self, request: pb.RestartRequest, call: Call) -> pb.RestartResponse:
        return await self._supervisor.call("Restart", request, pb.RestartResponse)

    async def CloseSession(self, request: pb.CloseSessionRequest, call: Call) -> pb.CloseSessionResponse:
        closed = await self._supervisor.close_session(request)
        await self._displays.forget(request.session_id)
        return closed

    async def PutFile(self, request: pb.PutFileRequest, call: Call) -> pb.PutFileResponse:
        return await self._supervisor.call("PutFile", request, pb.PutFileResponse)

    def GetFile(self, request: pb.GetFileRequest, call: Call) -> AsyncGenerator[pb.GetFileResponse, None]:
        return self._supervisor.stream("GetFile", request, pb.GetFileResponse)

    async def ListFiles(self, request: pb.ListFilesRequest, call: Call) -> pb.ListFilesResponse:
        return await self._supervisor.call("ListFiles", request, pb.ListFilesResponse)

    async def GetIsolation(self, request: pb.GetIsolationRequest, call: Call) -> pb.GetIsolationResponse:
        # A copy: in one process with its caller, the response is the caller's to change.
        response = pb.GetIsolationResponse()
        response.CopyFrom(self._supervisor.report)
        return response


def leave_out(event: pb.ExecuteResponse, why: str = "") -> None:
    """Replace a display by a note on stderr."""
    media_type, size = event.display.media_type, len(event.display.data)
    text = f"\n[… {media_type} of {size:,} bytes left out{why and f': {why}'} …]\n"
    event.output.CopyFrom(pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDERR, text=text))


async def add_keep_alives(events: AsyncGenerator[T, None], pause_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the events, and None after every ``pause_s`` seconds without one."""
    coming: asyncio.Task[T] | None = None
    async with aclosing(events):
        try:
            while True:
                # Awaited again after a keep-alive: cancelling the step would end the generator, and with it the cell.
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
