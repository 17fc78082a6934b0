"""Client of the supervisor process, which it restarts on failure; runs in the service front."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TypeVar

from pydantic import TypeAdapter

from fathom.errors import DependencyFailed, FathomError, NotFound, NotReady, SessionLost
from services.sandbox import messages as say
from services.sandbox.config import Config
from services.sandbox.events import Display, Event, Outcome, Status, Variable
from services.sandbox.files import File
from services.sandbox.incarnation import Incarnation, SupervisorLost
from services.sandbox.isolation import Report, implied
from services.sandbox.memory import Memory, sealed
from services.sandbox.metrics import Noted

RESTARTS, RESTART_WINDOW_S, RESTART_PAUSE_S = 5, 60.0, 0.1
RETRY_S = 0.5
PING_S, PING_TIMEOUT_S = 5.0, 30.0
REMEMBERED = 4_096
LOST = "the sandbox's supervisor ended"
T = TypeVar("T")
TEXT: TypeAdapter[str] = TypeAdapter(str)
NAMES: TypeAdapter[list[str]] = TypeAdapter(list[str])
YES: TypeAdapter[bool] = TypeAdapter(bool)
SIZE: TypeAdapter[int] = TypeAdapter(int)
NOTHING: TypeAdapter[None] = TypeAdapter(None)
VARIABLES: TypeAdapter[tuple[Variable, ...]] = TypeAdapter(tuple[Variable, ...])
FILES: TypeAdapter[list[File]] = TypeAdapter(list[File])
REPORT: TypeAdapter[Report] = TypeAdapter(Report)


class Front:
    """Client of the supervisor with the methods of ``Engine``.

    It keeps the ids of open sessions, so that each can be reported as lost when the supervisor ends.
    """

    def __init__(self, config: Config, log: say.Log, note: Noted) -> None:
        self._config, self._log, self._note = config, log, note
        self._current: Incarnation | None = None
        self._report: Report | None = None
        self._open: OrderedDict[str, None] = OrderedDict()
        self._lost: OrderedDict[str, None] = OrderedDict()
        self._starts: list[float] = []
        self._changes: asyncio.Queue[bool | FathomError] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None

    @property
    def report(self) -> Report:
        """Achieved isolation; raises ``NotReady`` before the start."""
        if self._report is None:
            raise NotReady("the sandbox has not built its walls yet")
        return self._report

    @property
    def supervisor_pid(self) -> int:
        """Process id of the current supervisor; raises ``NotReady`` when there is none."""
        return self._living().pid

    def isolation_facts(self) -> list[str]:
        """Return the health names of the achieved level and all weaker ones, so that a probe can require a minimum."""
        return implied(self.report.level)

    async def start(self) -> None:
        """Start the supervisor and the watch that restarts it.

        Raise the errors of ``Engine.start``, or ``DependencyFailed`` if the process does not start; none is left then.
        """
        self._current = await self._begun()
        self._watching = asyncio.create_task(self._watch())

    async def _begun(self) -> Incarnation:
        self._starts.append(time.monotonic())
        current = Incarnation(self._log, self._note, self._lose)
        try:
            await current.start()
            settings = self._config.model_dump(mode="json")
            # The engine bounds each of its steps; this is for a supervisor that does not even get there.
            async with asyncio.timeout(4 * self._config.start_timeout_s):
                self._report = await current.call(say.Start(settings), REPORT)
        except (SupervisorLost, TimeoutError) as error:
            current.kill()
            raise DependencyFailed("sandbox supervisor", f"did not start: {await current.close()}") from error
        except BaseException:
            await current.close()
            raise
        return current

    def _lose(self) -> None:
        for session_id in self._open:
            remember(self._lost, session_id)
        self._open.clear()
        self._note("sessions", "", 0)

    async def _watch(self) -> None:
        """Restart the supervisor whenever it ends, and report each change of health.

        Give up after more than ``RESTARTS`` starts within ``RESTART_WINDOW_S`` seconds.
        """
        while True:
            if self._current is not None:
                await self._alive(self._current)
                self._changes.put_nowait(False)
                self._log.error("sandbox supervisor ended", how=await self._current.close())
                self._current = None
            self._starts = [start for start in self._starts if time.monotonic() - start < RESTART_WINDOW_S]
            if len(self._starts) > RESTARTS:
                text = f"ended {len(self._starts)} times within a minute"
                self._changes.put_nowait(DependencyFailed("sandbox supervisor", text))
                return
            await asyncio.sleep(RESTART_PAUSE_S * len(self._starts))
            try:
                self._current = await self._begun()
            except FathomError as error:
                self._log.error("sandbox supervisor not restarted", error=error.message)
                continue
            self._changes.put_nowait(True)

    async def _alive(self, current: Incarnation) -> None:
        """Return when the supervisor has ended; kill it if a ping is not answered within ``PING_TIMEOUT_S`` seconds."""
        while not current.ended.is_set():
            try:
                await asyncio.wait_for(current.ended.wait(), PING_S)
            except TimeoutError:
                try:
                    await asyncio.wait_for(current.call(say.Ping(), NOTHING), PING_TIMEOUT_S)
                except TimeoutError:
                    self._log.error("sandbox supervisor does not answer", pid=current.pid)
                    current.kill()
                    await current.ended.wait()
                except FathomError as error:
                    self._log.error("sandbox supervisor answers with an error", error=error.message)

    async def changes(self) -> AsyncGenerator[bool, None]:
        """Yield readiness at every change after the start; raise ``DependencyFailed`` after the last restart."""
        while True:
            change = await self._changes.get()
            if isinstance(change, FathomError):
                raise change
            yield change

    def _living(self) -> Incarnation:
        if self._current is None or self._current.ended.is_set():
            raise NotReady("the sandbox's supervisor is being restarted", retry_after_s=RETRY_S)
        return self._current

    async def _ask(
        self, session_id: str, request: say.Request, result: TypeAdapter[T], attached: Memory | None = None
    ) -> T:
        """Send one request about a session and return the answer; take ownership of ``attached``.

        Raise ``SessionLost`` if the session's supervisor has ended, or ends before it answers.
        """
        try:
            self._check(session_id)
            current = self._living()
        except BaseException:
            if attached is not None:
                attached.close()
            raise
        try:
            return await current.call(request, result, attached)
        except SupervisorLost as error:
            raise SessionLost(session_id, LOST) from error
        except NotFound as error:
            if error.metadata.get("kind") == "session":
                self._open.pop(session_id, None)
            raise

    def _check(self, session_id: str) -> None:
        if session_id in self._lost:
            raise SessionLost(session_id, LOST)

    @property
    def open_sessions(self) -> int:
        """Number of sessions opened and not closed; one that was reaped counts until a request finds it gone."""
        return len(self._open)

    async def open_session(self, request_id: str, limits: Mapping[str, int], tenant: str) -> str:
        """Return the id of a session, see ``Engine.open``; raise ``NotReady`` if the supervisor ends meanwhile."""
        try:
            session_id = await self._living().call(say.Open(request_id, dict(limits), tenant), TEXT)
        except SupervisorLost as error:
            raise NotReady(LOST, retry_after_s=RETRY_S) from error
        remember(self._open, session_id)
        return session_id

    async def execute(self, session_id: str, request_id: str, code: str, wall_ms: int) -> AsyncGenerator[Event, None]:
        """Yield the events of one cell, see ``Session.execute``.

        If the supervisor ends meanwhile, the last event is an ``INFRA_ERROR`` outcome: the cell is lost, not in error.
        """
        self._check(session_id)
        current = self._living()
        request = say.Execute(session_id, request_id, code, wall_ms)
        try:
            async with aclosing(current.messages(request)) as messages:
                async for message in messages:
                    event = current.read_reply(message)
                    if not isinstance(event, say.Picture):
                        yield event
                    elif message.attached is not None:
                        try:
                            data = message.attached.read()
                        finally:
                            message.attached.close()
                        yield Display(event.media_type, data)
        except SupervisorLost:
            yield Outcome(Status.INFRA_ERROR, session_lost=True, cause=LOST)

    async def variables(self, session_id: str) -> tuple[Variable, ...]:
        return await self._ask(session_id, say.Variables(session_id), VARIABLES)

    async def interrupt(self, session_id: str) -> bool:
        return await self._ask(session_id, say.Interrupt(session_id), YES)

    async def inject(self, session_id: str, name: str, memory: Memory, *, lazy: bool = False) -> None:
        """Put an Arrow stream into a session and take ownership of it; the supervisor gets the memory file, no copy."""
        await self._ask(session_id, say.Inject(session_id, name, lazy), NOTHING, memory)

    async def restart(self, session_id: str) -> list[str]:
        return await self._ask(session_id, say.Restart(session_id), NAMES)

    async def close_session(self, session_id: str) -> None:
        """End the session; only forget it if it is lost already."""
        self._open.pop(session_id, None)
        if session_id in self._lost:
            del self._lost[session_id]
            return
        await self._ask(session_id, say.Close(session_id), NOTHING)

    async def put_file(self, session_id: str, path: str, content: bytes) -> int:
        memory = await asyncio.to_thread(sealed, "content", content)
        return await self._ask(session_id, say.PutFile(session_id, path), SIZE, memory)

    async def get_file(self, session_id: str, path: str) -> bytes:
        self._check(session_id)
        try:
            return await self._living().content(say.GetFile(session_id, path))
        except SupervisorLost as error:
            raise SessionLost(session_id, LOST) from error

    async def files(self, session_id: str) -> list[File]:
        return await self._ask(session_id, say.ListFiles(session_id), FILES)

    async def close(self) -> None:
        """End the supervisor, and with it every session."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._current is not None:
            await self._current.close()


def remember(ids: OrderedDict[str, None], session_id: str) -> None:
    """Add an id, and forget the oldest ones beyond ``REMEMBERED``."""
    ids[session_id] = None
    while len(ids) > REMEMBERED:
        ids.popitem(last=False)
