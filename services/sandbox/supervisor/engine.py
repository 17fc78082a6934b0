"""Session pool of the supervisor: admission, spare workers, frames and files, closing of idle sessions."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace

from fathom.core.admission import Admission, Claimant, Limits, Place
from fathom.core.call import Lane
from fathom.core.errors import FathomError, InvalidField, NotFound, NotReady, Overloaded
from fathom.core.ids import new_id
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.levels import Level
from fathom.services.sandbox.ipc.memfd import SealedMemory
from fathom.services.sandbox.ipc.messages import Log, RecordMetric
from fathom.services.sandbox.ipc.owner import Owner
from fathom.services.sandbox.supervisor.events import Outcome
from fathom.services.sandbox.supervisor.files import File, list_files, read_file, write_file
from fathom.services.sandbox.supervisor.host import scheduling
from fathom.services.sandbox.supervisor.host.cgroups import Cgroups, count_cores
from fathom.services.sandbox.supervisor.host.procfs import UsageReader
from fathom.services.sandbox.supervisor.host.scratch import ScratchFolders
from fathom.services.sandbox.supervisor.host.uids import UidPool
from fathom.services.sandbox.supervisor.isolation.probe import Report, achieve
from fathom.services.sandbox.supervisor.reclaiming import Reclaimer
from fathom.services.sandbox.supervisor.session import Facts, Session
from fathom.services.sandbox.supervisor.worker.cell_scheduler import OPENING, CellScheduler
from fathom.services.sandbox.supervisor.worker.fork_server_client import ForkServerClient
from fathom.services.sandbox.supervisor.worker.init_handle import ForkServerLost
from fathom.services.sandbox.supervisor.worker.process import JailResources, WorkerProcess

# A training that runs by night has the whole sandbox.
RESERVE_S = 600.0
# Sessions close every few seconds under load: a refused caller has a chance soon.
RETRY_S = 1.0

# A crowd that the fork gate has put behind all other work of the machine needs a processor to end, too: with sixty
# processes that took four to seven seconds at load 15, and is not the caller's to wait for on a fuller one.
CLOSE_S = 10.0
# Interval of the watch of sessions without a cell: what a cell leaves behind holds the machine no longer than that.
IDLE_WATCH_S = 1.0


class Engine:
    """Pool of sessions by id; ``note`` receives the measurements."""

    def __init__(self, config: Config, log: Log, note: RecordMetric) -> None:
        self._config, self._log, self._note = config, log, note
        self._fork_server = ForkServerClient(
            self._log, timeout_s=config.import_timeout_s, max_forks=config.max_forks, max_age_s=config.max_age_s
        )
        self._jailer: JailResources | None = None
        self._uids: UidPool | None = None
        self._scratch = ScratchFolders()
        self._report: Report | None = None
        self._sessions: dict[str, Session] = {}
        self._places: dict[str, Place] = {}
        limits = Limits(
            config.max_sessions,
            config.max_waiting,
            wait_s=config.wait_s,
            reserved=config.reserved_sessions,
            reserve_s=RESERVE_S,
        )
        self._reclaimer = Reclaimer(config.max_sessions, self._sessions.values, self._end, note)
        self._admission = Admission("sandbox", limits, self._reclaimer, noun="sessions")
        self._opening: Counter[str] = Counter()
        self._requests: dict[tuple[Owner, str], asyncio.Task[Session]] = {}
        self._spares: list[WorkerProcess] = []
        self._usage_reader = UsageReader()
        self._scheduler = CellScheduler(count_cores())
        self._endings: set[asyncio.Task[None]] = set()
        self._refilling: asyncio.Task[None] | None = None
        self._reaper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def report(self) -> Report:
        """Achieved isolation; raises ``NotReady`` before the start."""
        if self._report is None:
            raise NotReady("the sandbox has not built its walls yet")
        return self._report

    async def start(self) -> None:
        """Start the fork server, build and probe the walls, and start the spare workers.

        Raise ``IsolationTooWeak`` and ``DependencyFailed``; nothing is left running then.
        """
        try:
            await self._build_walls()
            await self._fill()
        except BaseException:  # cancellation included: no process may be left without an owner
            await self.close()
            raise
        self._reaper = asyncio.create_task(self._reap())
        self._watcher = asyncio.create_task(self._watch_idle())

    async def _build_walls(self) -> None:
        config = self._config
        await self._fork_server.start()
        cgroups = Cgroups() if config.cgroups else None
        usable = cgroups if cgroups is not None and not cgroups.why_not else None
        self._uids = UidPool(config.uid_base)
        if swept := await asyncio.to_thread(self._scratch.sweep):
            self._log.info("scratch folders of a supervisor that was killed are removed", folders=swept)
        reversible = scheduling.may_lower_nice()
        jailer = JailResources(
            self._fork_server, "namespace", usable, self._uids, self._scratch, self._scheduler, reversible
        )
        report = await achieve(config, jailer)
        self._jailer, self._report = replace(jailer, walls=report.walls), report
        self._note("isolation", report.level.word, 1)
        say = self._log.info if report.level >= Level.NAMESPACE else self._log.warning
        say("sandbox isolation", achieved=report.level.word, layers=report.layers, missing=report.missing)

    async def _start_worker(self) -> WorkerProcess:
        """Return a new worker behind its walls; raise ``DependencyFailed``."""
        assert self._jailer is not None
        begun = time.monotonic()
        try:
            worker = await start_worker(self._config, self._jailer)
        except ForkServerLost:  # once: the fork server ended before it read the request
            worker = await start_worker(self._config, self._jailer)
        self._note("spawn_seconds", "", time.monotonic() - begun)
        return worker

    async def _fill(self) -> None:
        while len(self._spares) < self._config.spares:
            self._spares.append(await self._start_worker())

    async def _refill_spares(self) -> None:
        """Refill the spare workers and log a failure."""
        try:
            await self._fill()
        except FathomError as error:
            # Nobody waits for a spare: the next session starts its worker itself.
            self._log.error("no spare worker", error=error.message)

    async def _take_worker(self) -> WorkerProcess:
        """Return a living spare, or a new worker; refill the spares in the background."""
        worker = None
        while self._spares and worker is None:
            spare = self._spares.pop()
            # It may have died while it waited, e.g. ended by the kernel when memory ran out.
            if spare.exited.is_set():
                await spare.end()
            else:
                worker = spare
        self._note("sessions_opened", "spare" if worker is not None else "forked", 1)
        if worker is None:
            worker = await self._start_worker()
        if self._refilling is None or self._refilling.done():
            self._refilling = asyncio.create_task(self._refill_spares())
        return worker

    async def open(
        self, request_id: str, limits: Mapping[str, int], owner: Owner, lane: Lane = Lane.INTERACTIVE
    ) -> Session:
        """Return a new session, or the one that the same owner's request with this id has opened before.

        Raise the errors of ``create``. A failed request is forgotten, so that it can be made again.
        """
        if not request_id:
            return await self.create(**limits, tenant=owner.tenant, run_id=owner.run_id, lane=lane)
        key = (owner, request_id)
        known = self._requests.get(key)
        if known is None or (known.done() and not self._is_open(known)):
            # No LoadingCache: a session goes on opening when its caller has left, and lasts until it is closed.
            known = self._requests[key] = asyncio.create_task(
                self.create(**limits, tenant=owner.tenant, run_id=owner.run_id, lane=lane)
            )
            known.add_done_callback(lambda task: self._forget(key, task))
        # Another caller may wait for the same session: one that goes away must not cancel its opening.
        return await asyncio.shield(known)

    def _is_open(self, task: asyncio.Task[Session]) -> bool:
        return not task.cancelled() and task.exception() is None and task.result().id in self._sessions

    def _forget(self, key: tuple[Owner, str], task: asyncio.Task[Session]) -> None:
        """Forget a request that failed, and all whose sessions are closed."""
        if not self._is_open(task) and self._requests.get(key) is task:
            del self._requests[key]
        for old in [old for old, one in self._requests.items() if one.done() and not self._is_open(one)]:
            del self._requests[old]

    async def create(
        self,
        cell_wall_ms: int = 0,
        memory_bytes: int = 0,
        output_bytes: int = 0,
        cells: int = 0,
        cpu_ms: int = 0,
        tenant: str = "",
        run_id: str = "",
        lane: Lane = Lane.INTERACTIVE,
    ) -> Session:
        """Return a new session, after a wait for a free place. Zero means the service's own limit.

        A limit can only be tightened. Raise ``Overloaded`` when all places of the tenant are taken or none gets free in
        time, ``InvalidField("limits.…")`` for a negative limit, and ``DependencyFailed`` when no worker starts.
        """
        wanted = {
            "cell_wall_ms": cell_wall_ms,
            "memory_bytes": memory_bytes,
            "output_bytes": output_bytes,
            "cells": cells,
            "cpu_ms": cpu_ms,
        }
        for name, value in wanted.items():
            if value < 0:
                raise InvalidField(f"limits.{name}", "must not be negative")
        self._check_quota(tenant)
        tighter = {name: min(value, getattr(self._config, name)) for name, value in wanted.items() if value}
        self._opening[tenant] += 1
        place: Place | None = None
        try:
            place = await self._find_place(Claimant(lane, tenant))
            limits = self._config.model_copy(update=tighter)
            worker = await self._take_worker()
            # A spare was started before anybody asked for less than the service's own limit.
            if memory_bytes:
                worker.limit_memory(limits.memory_bytes)
            if lane is not Lane.INTERACTIVE:
                worker.precedence.give_way()
            session = Session(
                new_id("session"),
                limits,
                worker,
                self._usage_reader,
                owner=Owner(tenant, run_id),
                on_outcome=self._count,
                lane=lane,
            )
        except BaseException:  # cancellation included: a place must not be lost with its caller
            if place is not None:
                place.release()
            raise
        finally:
            self._opening[tenant] -= 1
            if not self._opening[tenant]:  # or every tenant that ever came would leave a count of none
                del self._opening[tenant]
        self._sessions[session.id], self._places[session.id] = session, place
        self._note("sessions", "", len(self._sessions))
        return session

    def _count(self, outcome: Outcome) -> None:
        self._note("cells", outcome.status.name.lower(), 1)

    async def _find_place(self, claimant: Claimant) -> Place:
        """Wait for a place for one more session; raise ``Overloaded``. For a person's, cells that compute make way."""
        try:
            place = await self._admission.acquire(claimant)
        except Overloaded:
            self._note("sessions_opened", "refused", 1)
            raise
        if claimant.lane is Lane.INTERACTIVE:
            # Its first cell follows, and is the most expensive one.
            self._scheduler.begin(OPENING)
        return place

    def _end(self, session: Session) -> Coroutine[None, None, None]:
        """Make a session unreachable, and return what ends it and gives its place to the next one."""
        self._sessions.pop(session.id, None)
        self._note("sessions", "", len(self._sessions))
        return self._close(session)

    async def _close(self, session: Session) -> None:
        try:
            await session.close()
        finally:  # only now: the next one's worker needs its memory
            if session.worker.is_stuck:
                self._log.error("the kernel does not end a session", session_id=session.id, pid=session.worker.init_pid)
            if (place := self._places.pop(session.id, None)) is not None:
                place.release()

    def _check_quota(self, tenant: str) -> None:
        """Raise ``Overloaded`` when a tenant has all the sessions that it may have."""
        config = self._config
        # Sessions that are being opened count too, or callers of the same moment would pass the bound together.
        theirs = sum(session.owner.tenant == tenant for session in self._sessions.values()) + self._opening[tenant]
        most = config.tenant_sessions(tenant)
        if most is not None and theirs >= most:
            self._note("sessions_opened", "refused", 1)
            text = f"all {most} sandbox sessions of tenant {tenant!r} are in use"
            raise Overloaded(text, retry_after_s=RETRY_S)

    def require_owner(self, session_id: str, owner: Owner) -> None:
        """Raise ``NotFound`` for a session of another tenant or run, as for an unknown one."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner != owner:
            raise NotFound("session", session_id)

    def get_session(self, session_id: str) -> Session:
        """Return an open session; raise ``NotFound`` for an unknown or closed one."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFound("session", session_id)
        return session

    async def inject(
        self, session_id: str, name: str, memory: SealedMemory, *, lazy: bool = False, facts: Facts | None = None
    ) -> None:
        """Put an Arrow stream into a session and take ownership of it.

        Raise ``NotFound``, ``SessionLost`` or ``PayloadTooLarge``.
        """
        try:
            session = self.get_session(session_id)
        except NotFound:
            memory.close()
            raise
        await session.inject(name, memory, lazy=lazy, facts=facts)

    async def restart(self, session_id: str) -> list[str]:
        """Replace the session's worker; return the names of the frames that the new one has."""
        session = self.get_session(session_id)
        # Before the old one is ended: when none can be started, the session stays as it is.
        worker = await self._take_worker()
        # The spare has the service's own limit, and the session may have been opened with less.
        worker.limit_memory(session.config.memory_bytes)
        if session.lane is not Lane.INTERACTIVE:
            worker.precedence.give_way()
        try:
            return await session.restart(worker)
        finally:
            if session.worker is not worker:  # the session was closed, or the caller went away
                await worker.end()

    async def close_session(self, session_id: str) -> None:
        """End the session with its worker; raise ``NotFound``.

        Return after ``CLOSE_S`` seconds at the latest. Processes that have not ended by then keep the place, and not
        the caller.
        """
        session = self.get_session(session_id)
        ending = asyncio.create_task(self._end(session))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        done, _ = await asyncio.wait({ending}, timeout=CLOSE_S)
        if done:
            ending.result()

    async def put_file(self, session_id: str, path: str, content: bytes) -> int:
        """Write a file into the scratch folder; return its size in bytes."""
        session = self.get_session(session_id)
        session.check_alive()
        await session.worker.check_room(len(content), self._usage_reader)
        return await asyncio.to_thread(write_file, self._root(session_id), path, content)

    async def get_file(self, session_id: str, path: str) -> bytes:
        """Return the content of a file in the scratch folder."""
        return await asyncio.to_thread(read_file, self._root(session_id), path)

    async def list_files(self, session_id: str) -> list[File]:
        """Return the scratch folder's files, sorted by path."""
        return await asyncio.to_thread(list_files, self._root(session_id))

    def _root(self, session_id: str) -> int:
        session = self.get_session(session_id)
        session.check_alive()
        return session.worker.scratch

    async def _reap(self) -> None:
        while True:
            # So often that a session outlives its idle time by a quarter of it at most.
            await asyncio.sleep(min(5.0, self._config.idle_s / 4))
            now = time.monotonic()
            if self._jailer is not None and self._jailer.cgroups is not None:
                self._jailer.cgroups.sweep()
            for session in list(self._sessions.values()):
                idle = now - session.last_used_at > self._config.idle_s
                # A cell that runs is never cut off here: it has a limit of its own.
                if (idle or now - session.opened_at > self._config.lifetime_s) and not session.is_busy:
                    self._log.info("session reaped", session_id=session.id, why="idle" if idle else "lifetime")
                    try:
                        await self._end(session)
                    except Exception as error:  # one that cannot be ended must not keep the others for ever
                        self._log.error("session could not be ended", session_id=session.id, exc_info=error)

    async def _watch_idle(self) -> None:
        """Look at the sessions in which no cell runs, once a second; all share one reading of /proc."""
        while True:
            await asyncio.sleep(IDLE_WATCH_S)
            # Side by side: one whose memory takes long to read does not keep the others from being looked at.
            sessions = list(self._sessions.values())
            found = await asyncio.gather(*(one.check_idle() for one in sessions), return_exceptions=True)
            for session, error in zip(sessions, found, strict=True):
                # Whatever a session has done to its processes, the others are still to be looked at.
                if isinstance(error, Exception):
                    self._log.error("session could not be looked at", session_id=session.id, exc_info=error)

    async def close(self) -> None:
        """End every worker and the fork server."""
        for task in (self._reaper, self._watcher, self._refilling):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._reclaimer.close()
        endings: list[Awaitable[None]] = [session.close() for session in self._sessions.values()]
        endings += [worker.end() for worker in self._spares]
        self._sessions.clear()
        self._spares.clear()
        await asyncio.gather(*endings, *self._endings)
        # Last: it is the parent of every session and ends when the last of them has ended.
        await self._fork_server.close()
        self._usage_reader.close()
        if self._uids is not None:
            self._uids.close()
        await asyncio.to_thread(self._scratch.close)


async def start_worker(config: Config, jailer: JailResources) -> WorkerProcess:
    worker = WorkerProcess(config, jailer)
    await worker.start()
    return worker
