"""The API's methods as the supervisor answers them: each converts between protobuf and the engine, without own logic.

The service front has checked the requests and completes the responses: it reads tables, stores displays and numbers
events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import Lane
from fathom.core.errors import Internal
from fathom.services.sandbox.ipc.levels import Level
from fathom.services.sandbox.ipc.memfd import SealedMemory
from fathom.services.sandbox.ipc.owner import Owner
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Event, Gap, Outcome, Output, Status, Variable

# Piece of a streamed file, well below gRPC's message limit: the front passes the pieces on as they are.
CHUNK_BYTES = 256 * 1024
STATUSES = {status: f"EXECUTE_STATUS_{status.name}" for status in Status}
LEVELS = {level: f"ISOLATION_LEVEL_{level.name}" for level in Level}
STREAMS = {"stdout": pb.OUTPUT_STREAM_STDOUT, "stderr": pb.OUTPUT_STREAM_STDERR}


@dataclass
class Context:
    """Context of one request: the caller's tenant and lane, and the memory file sent along, if any."""

    tenant: str
    attached: SealedMemory | None
    lane: Lane = Lane.INTERACTIVE

    def take_attached(self) -> SealedMemory:
        """Return the memory file, which the caller closes from now on; raise ``Internal`` when none was sent."""
        if self.attached is None:
            raise Internal("a request came without its memory file")
        memory, self.attached = self.attached, None
        return memory

    def close(self) -> None:
        """Close the memory file, unless it was taken."""
        if self.attached is not None:
            self.attached.close()


class SupervisorServicer:
    """Servicer over an ``Engine``; its methods are found by the names of the RPCs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        limits = {field.name: value for field, value in request.limits.ListFields()}
        owner = Owner(context.tenant, request.run_id)
        session = await self._engine.open(request.request_id, limits, owner, context.lane)
        return pb.CreateSessionResponse(session_id=session.id, isolation=LEVELS[self._engine.report.level])

    async def PutFrame(self, request: pb.PutFrameRequest, context: Context) -> pb.PutFrameResponse:
        memory = context.take_attached()
        facts = {
            "units": {column.name: column.unit for column in request.columns if column.unit},
            "indicators": {column.name: column.indicator for column in request.columns if column.indicator},
        }
        await self._engine.inject(request.session_id, request.name, memory, lazy=request.lazy, facts=facts)
        return pb.PutFrameResponse()

    async def Execute(self, request: pb.ExecuteRequest, context: Context) -> AsyncIterator[pb.ExecuteResponse]:
        session = self._engine.get_session(request.session_id)
        async with aclosing(session.execute(request.request_id, request.code, request.wall_ms)) as events:
            async for event in events:
                yield event_to_proto(event)

    async def ListVariables(self, request: pb.ListVariablesRequest, context: Context) -> pb.ListVariablesResponse:
        found = await self._engine.get_session(request.session_id).list_variables()
        return pb.ListVariablesResponse(variables=variables_to_proto(found))

    async def Interrupt(self, request: pb.InterruptRequest, context: Context) -> pb.InterruptResponse:
        return pb.InterruptResponse(interrupted=await self._engine.get_session(request.session_id).interrupt())

    async def Restart(self, request: pb.RestartRequest, context: Context) -> pb.RestartResponse:
        return pb.RestartResponse(frames=await self._engine.restart(request.session_id))

    async def CloseSession(self, request: pb.CloseSessionRequest, context: Context) -> pb.CloseSessionResponse:
        await self._engine.close_session(request.session_id)
        return pb.CloseSessionResponse()

    async def PutFile(self, request: pb.PutFileRequest, context: Context) -> pb.PutFileResponse:
        size = await self._engine.put_file(request.session_id, request.path, request.content)
        return pb.PutFileResponse(size_bytes=size)

    async def GetFile(self, request: pb.GetFileRequest, context: Context) -> AsyncIterator[pb.GetFileResponse]:
        content = await self._engine.get_file(request.session_id, request.path)
        # An empty file is one empty piece, so that it differs from no answer.
        for start in range(0, len(content) or 1, CHUNK_BYTES):
            yield pb.GetFileResponse(chunk=content[start : start + CHUNK_BYTES])

    async def ListFiles(self, request: pb.ListFilesRequest, context: Context) -> pb.ListFilesResponse:
        files = await self._engine.list_files(request.session_id)
        return pb.ListFilesResponse(files=[pb.FileEntry(path=file.path, size_bytes=file.size_bytes) for file in files])

    async def GetIsolation(self, request: pb.GetIsolationRequest, context: Context) -> pb.GetIsolationResponse:
        report = self._engine.report
        return pb.GetIsolationResponse(level=LEVELS[report.level], layers=report.layers, missing=report.missing)


def event_to_proto(event: Event) -> pb.ExecuteResponse:
    """Return the event without its number in the stream, which the service front adds."""
    if isinstance(event, Output):
        return pb.ExecuteResponse(output=pb.OutputChunk(stream=STREAMS[event.stream], text=event.text))
    if isinstance(event, Gap):
        text = f"\n[… {event.size_bytes:,} bytes left out …]\n"
        return pb.ExecuteResponse(output=pb.OutputChunk(stream=STREAMS[event.stream], text=text))
    if isinstance(event, Display):
        return pb.ExecuteResponse(display=pb.Display(media_type=event.media_type, data=event.data))
    return pb.ExecuteResponse(outcome=outcome_to_proto(event))


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


def variables_to_proto(variables: Sequence[Variable]) -> list[pb.Variable]:
    return [pb.Variable(name=item.name, type=item.type, shape=item.shape) for item in variables]
