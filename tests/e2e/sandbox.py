"""A double of the sandbox: it executes nothing, and answers cells as a test tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import FathomError, NotFound


@dataclass
class ReplaySandbox:
    """``answers`` are what cells give by their source; another cell prints its number."""

    answers: dict[str, list[pb.ExecuteResponse]] = field(default_factory=dict)
    refusal: FathomError | None = None
    gone: set[str] = field(default_factory=set)
    """Names of tables that are no longer there."""
    opened: list[tuple[str, pb.CreateSessionRequest]] = field(default_factory=list)
    """Tenant and request of each session."""
    tables: list[pb.PutFrameRequest] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    async def CreateSession(self, request: pb.CreateSessionRequest, call: Call) -> pb.CreateSessionResponse:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append((call.tenant, request))
        return pb.CreateSessionResponse(session_id=f"session_{len(self.opened)}")

    async def PutFrame(self, request: pb.PutFrameRequest, call: Call) -> pb.PutFrameResponse:
        if request.name in self.gone:
            raise NotFound("object", request.name)
        self.tables.append(request)
        return pb.PutFrameResponse(rows=5)

    async def Execute(self, request: pb.ExecuteRequest, call: Call) -> AsyncIterator[pb.ExecuteResponse]:
        self.executed.append(request.code)
        usual = [
            pb.ExecuteResponse(output=pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDOUT, text=f"{len(self.executed)}\n")),
            pb.ExecuteResponse(outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK, duration_ms=7)),
        ]
        for event in self.answers.get(request.code, usual):
            yield event

    async def CloseSession(self, request: pb.CloseSessionRequest, call: Call) -> pb.CloseSessionResponse:
        self.closed.append(request.session_id)
        return pb.CloseSessionResponse()
