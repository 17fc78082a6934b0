"""Client of the supervisor process, which it restarts on failure; runs in the service front."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import Lane, current_tenant
from fathom.core.errors import DependencyFailed, FathomError, NotFound, NotReady, SessionLost
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.supervisor_process import R, SupervisorLost, SupervisorProcess
from fathom.services.sandbox.ipc import messages as say
from fathom.services.sandbox.ipc.levels import Level, list_health_names
from fathom.services.sandbox.ipc.memfd import SealedMemory
from fathom.services.sandbox.ipc.messages import RecordMetric
from fathom.services.sandbox.ipc.owner import Owner, SessionRequest

# A supervisor that dies again and again has a cause that restarts do not mend: then the service fails visibly.
RESTARTS, RESTART_WINDOW_S, RESTART_PAUSE_S = 5, 60.0, 0.1
# A supervisor is replaced at once; callers should ask again soon.
RETRY_S = 0.5
# The timeout is generous, because a kill loses every session: a loaded machine is slow, a hung loop stays silent.
PING_S, PING_TIMEOUT_S = 5.0, 30.0
# Lost sessions are remembered so that callers get SESSION_LOST and not NOT_FOUND; the bound limits memory.
REMEMBERED = 4_096
LOST = "the sandbox's supervisor ended"


class SupervisorClient:
    """Client of the supervisor, which passes requests of the API on to it.

    It keeps the ids of open sessions, so that each can be reported as lost when the supervisor ends.
    """

    def __init__(self, config: Config, log: say.Log, note: RecordMetric) -> None:
        self._config, self._log, self._note = config, log, note
        self._current: SupervisorProcess | None = None
        self._report: pb.GetIsolationResponse | None = None
        self._open: OrderedDict[str, Owner] = OrderedDict()
        self._lost: OrderedDict[str, Owner] = OrderedDict()
        self._starts: list[float] = []
        self._changes: asyncio.Queue[bool | FathomError] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None

    @property
    def report(self) -> pb.GetIsolationResponse:
        """Achieved isolation; raises ``NotReady`` before the start."""
        if self._report is None:
            raise NotReady("the sandbox has not built its walls yet")
        return self._report

    @property
    def supervisor_pid(self) -> int:
        """Process id of the current supervisor; raises ``NotReady`` when there is none."""
        return self._get_current().pid

    def list_isolation_facts(self) -> list[str]:
        """Return the health names of the achieved level and all weaker ones, so that a probe can require a minimum."""
        return list_health_names(Level(self.report.level))

    async def start(self) -> None:
        """Start the supervisor and the watch that restarts it.

        Raise the errors of ``Engine.start``, or ``DependencyFailed`` if the process does not start; none is left then.
        """
        self._current = await self._start_supervisor()
        self._watching = asyncio.create_task(self._watch())

    async def _start_supervisor(self) -> SupervisorProcess:
        self._starts.append(time.monotonic())
        current = SupervisorProcess(self._log, self._note, self._lose)
        try:
            await current.start()
            settings = self._config.model_dump_json().encode()
            # The engine bounds each of its steps; this is for a supervisor that does not even get there.
            async with asyncio.timeout(self._config.import_timeout_s + 4 * self._config.start_timeout_s):
                self._report = await current.call(say.START, settings, pb.GetIsolationResponse)
        except (SupervisorLost, TimeoutError) as error:
            current.kill()
            raise DependencyFailed("sandbox supervisor", f"did not start: {await current.close()}") from error
        except BaseException:  # cancellation included: no process may be left without an owner
            await current.close()
            raise
        return current

    def _lose(self) -> None:
        for session_id, owner in self._open.items():
            remember_id(self._lost, session_id, owner)
        self._open.clear()
        # The gauge was the supervisor's to report; nobody else would set it back.
        self._note("sessions", "", 0)

    async def _watch(self) -> None:
        """Restart the supervisor whenever it ends, and report each change of health.

        Give up after more than ``RESTARTS`` starts within ``RESTART_WINDOW_S`` seconds.
        """
        while True:
            if self._current is not None:
                await self._wait_for_end(self._current)
                self._changes.put_nowait(False)
                self._log.error("sandbox supervisor ended", how=await self._current.close())
                self._current = None
            self._starts = [start for start in self._starts if time.monotonic() - start < RESTART_WINDOW_S]
            if len(self._starts) > RESTARTS:
                text = f"ended {len(self._starts)} times within a minute"
                self._changes.put_nowait(DependencyFailed("sandbox supervisor", text))
                return
            # Longer after each recent start, so that one that dies at once does not take a core.
            await asyncio.sleep(RESTART_PAUSE_S * len(self._starts))
            try:
                self._current = await self._start_supervisor()
            except FathomError as error:
                self._log.error("sandbox supervisor not restarted", error=error.message)
                continue
            self._changes.put_nowait(True)

    async def _wait_for_end(self, current: SupervisorProcess) -> None:
        """Return when the supervisor has ended; kill it if a ping is not answered within ``PING_TIMEOUT_S`` seconds."""
        while not current.ended.is_set():
            try:
                async with asyncio.timeout(PING_S):
                    await current.ended.wait()
            except TimeoutError:
                try:
                    # Any request would do: it is answered as long as the supervisor's event loop runs.
                    async with asyncio.timeout(PING_TIMEOUT_S):
                        await current.call("GetIsolation", b"", pb.GetIsolationResponse)
                except TimeoutError:
                    self._log.error("sandbox supervisor does not answer", pid=current.pid)
                    current.kill()
                    await current.ended.wait()
                except FathomError as error:
                    # An error is an answer too: the loop runs, and a kill would lose every session.
                    self._log.error("sandbox supervisor answers with an error", error=error.message)

    async def watch_changes(self) -> AsyncGenerator[bool, None]:
        """Yield readiness at every change after the start; raise ``DependencyFailed`` after the last restart."""
        while True:
            change = await self._changes.get()
            if isinstance(change, FathomError):
                raise change
            yield change

    def _get_current(self) -> SupervisorProcess:
        if self._current is None or self._current.ended.is_set():
            raise NotReady("the sandbox's supervisor is being restarted", retry_after_s=RETRY_S)
        return self._current

    @property
    def open_sessions(self) -> int:
        """Number of sessions opened and not closed; one that was reaped counts until a request finds it gone."""
        return len(self._open)

    async def open_session(
        self, request: pb.CreateSessionRequest, tenant: str, lane: Lane = Lane.INTERACTIVE
    ) -> pb.CreateSessionResponse:
        """Open a session, see ``Engine.open``; raise ``NotReady`` if the supervisor ends meanwhile."""
        body = request.SerializeToString()
        try:
            opened = await self._get_current().call(
                "CreateSession", body, pb.CreateSessionResponse, tenant=tenant, lane=lane
            )
        except SupervisorLost as error:
            # Not SESSION_LOST: the caller has no session yet and may simply ask again.
            raise NotReady(LOST, retry_after_s=RETRY_S) from error
        remember_id(self._open, opened.session_id, Owner(tenant, request.run_id))
        return opened

    async def close_session(self, request: pb.CloseSessionRequest) -> pb.CloseSessionResponse:
        """End the session; only forget it if it is lost already."""
        self._require_owner(request)
        # Before the answer: whatever becomes of the supervisor, this session is not to be reported as lost.
        self._open.pop(request.session_id, None)
        if request.session_id in self._lost:
            del self._lost[request.session_id]
            return pb.CloseSessionResponse()
        return await self.call("CloseSession", request, pb.CloseSessionResponse)

    async def execute(self, request: pb.ExecuteRequest) -> AsyncGenerator[pb.ExecuteResponse, None]:
        """Yield the events of one cell, see ``Session.execute``.

        If the supervisor ends meanwhile, the last event is an ``INFRA_ERROR`` outcome: the cell is lost, not in error.
        """
        self._check(request)
        current = self._get_current()
        try:
            async with aclosing(self._stream(current, "Execute", request, pb.ExecuteResponse)) as events:
                async for event in events:
                    yield event
        except SupervisorLost:
            outcome = pb.Outcome(status=pb.EXECUTE_STATUS_INFRA_ERROR, session_lost=True, cause=LOST)
            yield pb.ExecuteResponse(outcome=outcome)

    async def call(
        self, method: str, request: SessionRequest, kind: type[R], attached: SealedMemory | None = None
    ) -> R:
        """Pass on a request about a session and return its response; take ownership of ``attached``.

        Raise ``SessionLost`` if the session's supervisor has ended, or ends before it answers.
        """
        try:
            with self._about(request) as current:
                given, attached = attached, None  # the process takes it over
                body = request.SerializeToString()
                return await current.call(method, body, kind, tenant=current_tenant(), attached=given)
        finally:
            if attached is not None:
                attached.close()

    async def stream(self, method: str, request: SessionRequest, kind: type[R]) -> AsyncGenerator[R, None]:
        """Pass on a request about a session and yield its responses; raise the errors of ``call``."""
        with self._about(request) as current:
            async with aclosing(self._stream(current, method, request, kind)) as responses:
                async for response in responses:
                    yield response

    def _stream(
        self, current: SupervisorProcess, method: str, request: SessionRequest, kind: type[R]
    ) -> AsyncGenerator[R, None]:
        return current.stream(method, request.SerializeToString(), kind, tenant=current_tenant())

    @contextmanager
    def _about(self, request: SessionRequest) -> Iterator[SupervisorProcess]:
        """Provide the supervisor for one request about a session."""
        self._check(request)
        current = self._get_current()
        try:
            yield current
        except SupervisorLost as error:
            raise SessionLost(request.session_id, LOST) from error
        except NotFound as error:
            if error.metadata.get("kind") == "session":
                self._open.pop(request.session_id, None)
            raise

    def _require_owner(self, request: SessionRequest) -> None:
        """Raise ``NotFound`` for a session of another tenant or run, also a lost one.

        The supervisor knows the open ones, of which this one may have forgotten some.
        """
        owner = self._open.get(request.session_id) or self._lost.get(request.session_id)
        if owner is not None and owner != Owner(current_tenant(), request.run_id):
            raise NotFound("session", request.session_id)

    def _check(self, request: SessionRequest) -> None:
        self._require_owner(request)
        if request.session_id in self._lost:
            raise SessionLost(request.session_id, LOST)

    async def close(self) -> None:
        """End the supervisor, and with it every session."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._current is not None:
            await self._current.close()


def remember_id(ids: OrderedDict[str, Owner], session_id: str, owner: Owner) -> None:
    """Add an id with its owner, and forget the oldest ones beyond ``REMEMBERED``."""
    ids[session_id] = owner
    while len(ids) > REMEMBERED:
        ids.popitem(last=False)
