"""Python session of a run: created on first use, rebuilt with its sheets and code when it is lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.clients.tables import embed_table, make_frame_request
from fathom.core.errors import DeadlineExceeded, DependencyFailed, NotFound, Overloaded, SessionLost
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.tools.tables.lineage import find_inputs
from fathom.transport.store import ObjectStore

# A session that is lost more often dies of what the run executes, e.g. out of memory.
REBUILDS = 2
# Code mostly uses the tables fetched last; others are loaded when a cell names them.
EAGER_SHEETS = 2
SHEET_NAME = re.compile(r"sheet_(\d+)")


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
    def from_material(
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
            if item.kind is MaterialKind.SHEET:
                session.sheets[item.variable] = item.item
            elif (
                item.kind is MaterialKind.CODE
                and isinstance(item.item, CodeRecord)
                and item.item.ok
                # Code of a sub-run ran in that run's session and is only cited here.
                and not item.item.run_id
            ):
                session.code.append(item.item.code)
        return session

    def put(self, sheet: data.Sheet) -> str:
        """Register a sheet and return its variable; it is injected before the next cell.

        A known sheet keeps its name.
        """
        for variable, known in self.sheets.items():
            if known.id == sheet.id:
                return variable
        # Behind the highest number and not the count: sheets of earlier turns keep their names, with gaps.
        variable = f"sheet_{max((read_sheet_number(name) for name in self.sheets), default=0) + 1}"
        self.sheets[variable] = sheet
        return variable

    def find_inputs(self) -> tuple[str, ...]:
        """Return the variables of the sheets from which the last successful cell computed."""
        return find_inputs(self.code, self.sheets)

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
        # The cell ended with the session (memory, time): its outcome counts, and the next cell gets a new one.
        if outcome.session_lost:
            self._forget()
        return events

    async def _prepare(self) -> None:
        if not self._id:
            self._id = await self._open()
            try:
                await self._run_again()
            except BaseException:  # cancellation included: what has run a part of the cells is not the run's session
                self._forget()
                raise
        await self._inject()

    async def _open(self) -> str:
        # The same id for a repeated request: a retry gets the session that its first attempt created.
        request = pb.CreateSessionRequest(request_id=f"{self.run_id}-session-{self._generation}", run_id=self.run_id)
        try:
            return (await self.clients.sandbox.create_session(request, timeout_s=self.timeout_s)).session_id
        except DeadlineExceeded as error:
            # No cell has begun: unlike one that is late, the call may be made again, and has waited already.
            text = f"the sandbox had no free session within {self.timeout_s:g} s"
            raise Overloaded(text, retry_after_s=0.0) from error

    async def _run_again(self) -> None:
        """Run the cells that succeeded, in their order: they make a session's state. Their output is recorded."""
        for position, cell in enumerate(self.code):
            await self._inject()
            await self._run(f"{self.run_id}-replay-{self._generation}-{position}", cell)

    async def _inject(self) -> None:
        """Inject new sheets: the newest eagerly, older ones of a rebuilt session lazily when a cell names them."""
        newest = list(self.sheets)[-EAGER_SHEETS:]
        for variable, sheet in self.sheets.items():
            if variable not in self._held:
                is_lazy = variable not in newest
                request = make_frame_request(self._id, variable, sheet, is_lazy=is_lazy, run_id=self.run_id)
                await self.clients.sandbox.put_frame(await embed_table(request, self.store), timeout_s=self.timeout_s)
                self._held.add(variable)

    async def _run(self, request_id: str, code: str) -> list[pb.ExecuteResponse]:
        request = pb.ExecuteRequest(request_id=request_id, session_id=self._id, run_id=self.run_id, code=code)
        events = [event async for event in self.clients.sandbox.execute(request, timeout_s=self.timeout_s)]
        if not events or not events[-1].HasField("outcome"):
            # A stream that breaks off says nothing about the cell, so the session's state is unknown.
            raise SessionLost(self._id, "the stream ended without an outcome")
        if events[-1].outcome.status == pb.EXECUTE_STATUS_INTERRUPTED:
            # The planner that asked before was lost, and the sandbox stopped what nobody waited for. The code did
            # nothing wrong, and what it has left in the session is unknown.
            raise SessionLost(self._id, events[-1].outcome.cause)
        return events

    def _forget(self) -> None:
        self._id, self._generation = "", self._generation + 1
        self._held.clear()

    async def close(self) -> None:
        """Close the session, ignoring failures: the sandbox reaps idle sessions."""
        if self._id:
            request = pb.CloseSessionRequest(session_id=self._id, run_id=self.run_id)
            self._id = ""
            try:
                await self.clients.sandbox.close_session(request, timeout_s=5.0)
            except (DeadlineExceeded, DependencyFailed, NotFound, SessionLost):
                return


def read_sheet_number(variable: str) -> int:
    """Return the number in a sheet's variable; 0 for another name."""
    found = SHEET_NAME.fullmatch(variable)
    return int(found[1]) if found else 0
