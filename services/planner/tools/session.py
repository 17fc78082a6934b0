"""Python session of a run: created on first use, rebuilt with its sheets and code when it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.clients.tables import carried
from fathom.errors import DependencyFailed, NotFound, SessionLost
from fathom.store import ObjectStore
from services.planner.model import Kind, Material

REBUILDS = 2
EAGER_SHEETS = 2


@dataclass
class Session:
    """Session of one run. Request ids are derived from the run id, so that a resumed run finds it again."""

    clients: Clients
    run_id: str
    timeout_s: float
    store: ObjectStore | None = None
    """Store from which sheets are sent to a sandbox without store access; None sends references."""
    sheets: dict[str, data.Sheet] = field(default_factory=dict)
    code: list[str] = field(default_factory=list)
    """Cells that succeeded, in order."""
    _id: str = ""
    _generation: int = 0
    _held: set[str] = field(default_factory=set)

    @classmethod
    def rebuilt(
        cls,
        clients: Clients,
        run_id: str,
        timeout_s: float,
        material: Sequence[Material],
        given: Sequence[Any] = (),
        store: ObjectStore | None = None,
    ) -> Session:
        """Create the session of a resumed run from the sheets and successful cells of its material.

        ``given`` are sheets that the run starts with.
        """
        # The worker that opened the session may have died between two calls, so its state cannot be trusted. Starting
        # the generation from the material makes request ids new and thereby the session.
        session = cls(clients, run_id, timeout_s, store, _generation=len(material))
        for sheet in given:
            session.put(sheet)
        for item in material:
            if item.kind is Kind.SHEET:
                session.sheets[item.variable] = item.item
            elif item.kind is Kind.CODE and isinstance(item.item, CodeRecord) and item.item.ok and not item.item.run_id:
                session.code.append(item.item.code)
        return session

    def put(self, sheet: data.Sheet) -> str:
        """Register a sheet and return its variable; it is injected before the next cell.

        A known sheet keeps its name.
        """
        for variable, known in self.sheets.items():
            if known.id == sheet.id:
                return variable
        variable = f"sheet_{len(self.sheets) + 1}"
        self.sheets[variable] = sheet
        return variable

    async def execute(self, call_id: str, code: str) -> list[pb.ExecuteResponse]:
        """Run a cell and return its events; a lost session is rebuilt at most ``REBUILDS`` times.

        Raises ``DependencyFailed("sandbox")`` when the session is lost again.
        """
        for rebuild in range(REBUILDS + 1):
            try:
                await self._prepare()
                events = await self._run(f"{call_id}-{self._generation}", code)
                break
            except (SessionLost, NotFound, DependencyFailed) as error:
                if rebuild == REBUILDS:
                    raise DependencyFailed("sandbox", error.message) from error
                self._forget()
        outcome = events[-1].outcome
        if outcome.status == pb.EXECUTE_STATUS_OK:
            self.code.append(code)
        if outcome.session_lost:
            self._forget()
        return events

    async def _prepare(self) -> None:
        if not self._id:
            request = pb.CreateSessionRequest(request_id=f"{self.run_id}-session-{self._generation}")
            self._id = (await self.clients.sandbox.create_session(request, timeout_s=self.timeout_s)).session_id
            for position, cell in enumerate(self.code):
                await self._inject()
                await self._run(f"{self.run_id}-replay-{self._generation}-{position}", cell)
        await self._inject()

    async def _inject(self) -> None:
        """Inject new sheets: the newest eagerly, older ones of a rebuilt session lazily when a cell names them."""
        newest = list(self.sheets)[-EAGER_SHEETS:]
        for variable, sheet in self.sheets.items():
            if variable not in self._held:
                request = pb.PutFrameRequest(
                    request_id=f"{self._id}-{variable}",
                    session_id=self._id,
                    name=variable,
                    ref=sheet.data,
                    description=sheet.title,
                    lazy=variable not in newest,
                )
                await self.clients.sandbox.put_frame(await carried(request, self.store), timeout_s=self.timeout_s)
                self._held.add(variable)

    async def _run(self, request_id: str, code: str) -> list[pb.ExecuteResponse]:
        request = pb.ExecuteRequest(request_id=request_id, session_id=self._id, code=code)
        events = [event async for event in self.clients.sandbox.execute(request, timeout_s=self.timeout_s)]
        if not events or not events[-1].HasField("outcome"):
            raise SessionLost(self._id, "the stream ended without an outcome")
        return events

    def _forget(self) -> None:
        self._id, self._generation = "", self._generation + 1
        self._held.clear()

    async def close(self) -> None:
        """Close the session, ignoring failures: the sandbox reaps idle sessions."""
        if self._id:
            request = pb.CloseSessionRequest(session_id=self._id)
            self._id = ""
            try:
                await self.clients.sandbox.close_session(request, timeout_s=5.0)
            except (NotFound, DependencyFailed, SessionLost):
                return
