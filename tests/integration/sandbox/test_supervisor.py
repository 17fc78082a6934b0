"""The supervisor's own end, and its front's: what callers see, and that nothing is left running."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import grpc
import pandas as pd
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.sandbox import server
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front import supervisor_client as front_of
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.supervisor.host.cgroups import PREFIX, Cgroups
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store
from tests.integration.sandbox.conftest import alive, descendants, make_front, open_session, sheet
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
# The first line tells that the cell runs, so that nothing is killed too early.
SLEEP = "print('begun', flush=True)\nimport time; time.sleep(60)"


def is_sandbox(pid: int) -> bool:
    """Return whether a process is one of the sandbox's own: supervisor, fork server or what these have started."""
    try:
        return b"fathom.services.sandbox" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False


@asynccontextmanager
async def start_front(**settings: int) -> AsyncIterator[SupervisorClient]:
    front = make_front(spares=1, **settings)
    await front.start()
    try:
        yield front
    finally:
        await front.close()


async def run(front: SupervisorClient, session_id: str, code: str) -> pb.Outcome:
    """Return how a cell ended."""
    request = pb.ExecuteRequest(session_id=session_id, code=code)
    return [event async for event in front.execute(request)][-1].outcome


async def list_variables(front: SupervisorClient, session_id: str) -> pb.ListVariablesResponse:
    request = pb.ListVariablesRequest(session_id=session_id)
    return await front.call("ListVariables", request, pb.ListVariablesResponse)


async def all_gone(pids: list[int]) -> None:
    """Returns when none of the processes lives any more."""
    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_supervisor_that_dies_loses_its_sessions_and_is_replaced() -> None:
    async with start_front() as front, aclosing(front.watch_changes()) as changes:
        sid, other = await open_session(front), await open_session(front)
        put = pb.PutFrameRequest(session_id=sid, name="sheet_1")
        await front.call("PutFrame", put, pb.PutFrameResponse, sheet(pd.DataFrame({"a": [1]})))
        old = front.supervisor_pid
        held = [old, *descendants(old)]
        # The supervisor, the fork server, two sessions of two processes: fewer would not show what is left behind.
        assert len(held) >= 6
        async with aclosing(front.execute(pb.ExecuteRequest(session_id=sid, code=SLEEP))) as cell:
            assert (await anext(cell)).output == pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDOUT, text="begun\n")
            os.kill(old, signal.SIGKILL)
            last = [event async for event in cell][-1].outcome
        assert (last.status, last.session_lost, last.cause) == (
            pb.EXECUTE_STATUS_INFRA_ERROR, True, "the sandbox's supervisor ended",
        )  # fmt: skip
        # Which of the two depends on whether the front has seen the death yet.
        with pytest.raises((errors.SessionLost, errors.NotReady)):
            await run(front, other, "1")
        # Health goes down and up again, in this order, once each.
        assert await anext(changes) is False
        assert await anext(changes) is True
        assert front.supervisor_pid != old
        with pytest.raises(errors.SessionLost, match="supervisor ended"):
            # The loss is remembered: after the restart the id is unknown to the new supervisor, but not to the front.
            await run(front, other, "1")
        with pytest.raises(errors.SessionLost, match="supervisor ended"):
            await front.call("Restart", pb.RestartRequest(session_id=sid), pb.RestartResponse)
        await front.close_session(pb.CloseSessionRequest(session_id=sid))
        # A closed session is forgotten, so it is no longer "lost" but unknown.
        with pytest.raises(errors.NotFound):
            await list_variables(front, sid)
        assert (await run(front, await open_session(front), "6 * 7")).result == "42"
        await all_gone(held)
        groups = Cgroups()
        # Control groups outlive their processes unless somebody removes them.
        assert groups.why_not or not [path for path in groups.list_groups() if path.name.startswith(f"{PREFIX}{old}-")]


async def test_a_front_that_would_be_too_weak_does_not_start_and_leaves_nothing() -> None:
    before = set(descendants(os.getpid()))
    with pytest.raises(errors.FathomError, match=r"sandbox\.min_isolation is vm") as refused:
        await make_front(min_isolation="vm", walls="landlock").start()
    assert refused.value.metadata["field"] == "sandbox.min_isolation"
    # A refusal must leave no process behind that nobody owns. Others of the same worker may begin meanwhile.
    new = set(descendants(os.getpid())) - before
    assert [pid for pid in new if is_sandbox(pid)] == []


async def test_one_that_will_not_stay_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # One restart within the window instead of several.
    monkeypatch.setattr(front_of, "RESTARTS", 1)
    async with start_front() as front, aclosing(front.watch_changes()) as changes:
        os.kill(front.supervisor_pid, signal.SIGKILL)
        assert [await anext(changes), await anext(changes)] == [False, True]
        os.kill(front.supervisor_pid, signal.SIGKILL)
        assert await anext(changes) is False
        with pytest.raises(errors.DependencyFailed, match="2 times within a minute"):
            await anext(changes)
        with pytest.raises(errors.NotReady):
            await open_session(front)


async def test_one_that_hangs_is_ended_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_of, "PING_S", 0.1)
    monkeypatch.setattr(front_of, "PING_TIMEOUT_S", 1.0)
    async with start_front() as front, aclosing(front.watch_changes()) as changes:
        old = front.supervisor_pid
        os.kill(old, signal.SIGSTOP)
        async with asyncio.timeout(30):
            assert [await anext(changes), await anext(changes)] == [False, True]
        assert front.supervisor_pid != old


async def test_a_caller_that_goes_away_interrupts_its_cell_across_the_socket() -> None:
    async with start_front() as front:
        sid = await open_session(front)
        async with aclosing(front.execute(pb.ExecuteRequest(session_id=sid, code=SLEEP))) as cell:
            await anext(cell)
        async with asyncio.timeout(10):
            assert (await run(front, sid, "'here'")).result == "'here'"


async def test_the_supervisor_holds_no_secret_and_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATHOM_CANARY", "secret")
    async with start_front() as front:
        root = Path(f"/proc/{front.supervisor_pid}")
        assert b"FATHOM" not in (root / "environ").read_bytes()
        held = {os.readlink(path) for path in (root / "fd").iterdir()}
        sockets = [(root / "net" / name).read_text().splitlines() for name in ("tcp", "tcp6", "udp")]
        inodes = {line.split()[9] for lines in sockets for line in lines}
        assert not {name for name in held if name.startswith("socket:[") and name[8:-1] in inodes}
        # The locks of its sessions' users are empty files.
        files = {name for name in held if name.startswith("/") and "/fathom-sandbox-users/" not in name}
        assert not any("fathom" in name for name in files)


DOOMED = """
import asyncio, sys
sys.path[:0] = {paths!r}
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from tests.integration.sandbox.conftest import make_front, open_session
async def main():
    front = make_front(spares=1)
    await front.start()
    cell = pb.ExecuteRequest(session_id=await open_session(front), code={code!r})
    async for event in front.execute(cell):
        print(front.supervisor_pid, flush=True)
asyncio.run(main())
"""


async def test_nothing_outlives_a_front_that_is_killed() -> None:
    code = DOOMED.format(paths=[str(ROOT / "libs"), str(ROOT)], code=SLEEP)
    doomed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=str(ROOT)
    )
    assert doomed.stdout is not None
    async with asyncio.timeout(60):
        supervisor = int(await doomed.stdout.readline())
    held = [supervisor, *descendants(supervisor)]
    # The supervisor with fork server, and a session with its first process and worker.
    assert len(held) >= 4
    # Killed, not stopped: no code of its own can clean up.
    doomed.kill()
    await doomed.wait()
    await all_gone(held)


async def test_health_and_metrics_follow_the_supervisor() -> None:
    telemetry, store = Telemetry("sandbox", stream=io.StringIO()), open_store("memory://")
    deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry)
    service = server.build(Config(spares=0), deps)
    assert isinstance(service.servicer, server.SandboxServicer)
    front = service.servicer._supervisor
    assert isinstance(front, SupervisorClient)
    async with hosting(service, deps, Runtime()) as hosted:
        await hosted.warm
        client = Clients({"sandbox": hosted.url}, telemetry).sandbox
        opened = await client.create_session(pb.CreateSessionRequest(), timeout_s=30)
        assert telemetry.registry.get_sample_value("fathom_sandbox_sessions") == 1
        async with grpc.aio.insecure_channel(hosted.url.removeprefix("grpc://")) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service="isolation.namespace")
            watch = health.Watch(request)
            states = [(await watch.read()).status]
            os.kill(front.supervisor_pid, signal.SIGKILL)
            # Not serving, then serving again: a load balancer sees both.
            states += [(await watch.read()).status for _ in range(2)]
            watch.cancel()
        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert states == [serving, not_serving, serving]
        with pytest.raises(errors.SessionLost):
            await client.list_variables(pb.ListVariablesRequest(session_id=opened.session_id), timeout_s=30)
        # The gauge was the dead supervisor's to report.
        assert telemetry.registry.get_sample_value("fathom_sandbox_sessions") == 0
        again = await client.create_session(pb.CreateSessionRequest(), timeout_s=30)
        cell = pb.ExecuteRequest(session_id=again.session_id, code="1 + 1")
        events = [event async for event in client.execute(cell, timeout_s=30)]
        assert events[-1].outcome.result == "2"
