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

from fathom import errors
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.bus import open_bus
from fathom.clients import Clients
from fathom.obs import Telemetry
from fathom.rpc.host import Runtime, hosting
from fathom.rpc.service import Deps
from fathom.store import open_store
from services.sandbox import front as front_of
from services.sandbox import server
from services.sandbox.cgroups import PREFIX, Cgroups
from services.sandbox.config import Config
from services.sandbox.events import Event, Outcome, Output, Status
from services.sandbox.front import Front
from tests.integration.sandbox.conftest import alive, descendants, make_front, sheet
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
SLEEP = "print('begun', flush=True)\nimport time; time.sleep(60)"


@asynccontextmanager
async def started(**settings: int) -> AsyncIterator[Front]:
    front = make_front(spares=1, **settings)
    await front.start()
    try:
        yield front
    finally:
        await front.close()


async def run(front: Front, session_id: str, code: str) -> list[Event]:
    return [event async for event in front.execute(session_id, "", code, 0)]


async def all_gone(pids: list[int]) -> None:
    """Returns when none of the processes lives any more."""
    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_supervisor_that_dies_loses_its_sessions_and_is_replaced() -> None:
    async with started() as front, aclosing(front.changes()) as changes:
        sid, other = await front.open_session("", {}, ""), await front.open_session("", {}, "")
        await front.inject(sid, "sheet_1", sheet(pd.DataFrame({"a": [1]})))
        old = front.supervisor_pid
        held = [old, *descendants(old)]
        assert len(held) >= 6
        async with aclosing(front.execute(sid, "", SLEEP, 0)) as cell:
            assert await anext(cell) == Output("stdout", "begun\n")
            os.kill(old, signal.SIGKILL)
            last = [event async for event in cell][-1]
        assert isinstance(last, Outcome)
        assert (last.status, last.session_lost, last.cause) == (
            Status.INFRA_ERROR, True, "the sandbox's supervisor ended",
        )  # fmt: skip
        with pytest.raises((errors.SessionLost, errors.NotReady)):
            await run(front, other, "1")
        assert await anext(changes) is False
        assert await anext(changes) is True
        assert front.supervisor_pid != old
        with pytest.raises(errors.SessionLost, match="supervisor ended"):
            await run(front, other, "1")
        with pytest.raises(errors.SessionLost, match="supervisor ended"):
            await front.restart(sid)
        await front.close_session(sid)
        with pytest.raises(errors.NotFound):
            await front.variables(sid)
        fresh = await front.open_session("", {}, "")
        end = (await run(front, fresh, "6 * 7"))[-1]
        assert isinstance(end, Outcome)
        assert end.result == "42"
        await all_gone(held)
        groups = Cgroups()
        assert groups.why_not or not [path for path in groups.leftovers() if path.name.startswith(f"{PREFIX}{old}-")]


async def test_a_front_that_would_be_too_weak_does_not_start_and_leaves_nothing() -> None:
    before = set(descendants(os.getpid()))
    with pytest.raises(errors.FathomError, match=r"sandbox\.min_isolation is vm") as refused:
        await make_front(min_isolation="vm", walls="landlock").start()
    assert refused.value.metadata["field"] == "sandbox.min_isolation"
    assert set(descendants(os.getpid())) <= before


async def test_one_that_will_not_stay_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_of, "RESTARTS", 1)
    async with started() as front, aclosing(front.changes()) as changes:
        os.kill(front.supervisor_pid, signal.SIGKILL)
        assert [await anext(changes), await anext(changes)] == [False, True]
        os.kill(front.supervisor_pid, signal.SIGKILL)
        assert await anext(changes) is False
        with pytest.raises(errors.DependencyFailed, match="2 times within a minute"):
            await anext(changes)
        with pytest.raises(errors.NotReady):
            await front.open_session("", {}, "")


async def test_one_that_hangs_is_ended_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_of, "PING_S", 0.1)
    monkeypatch.setattr(front_of, "PING_TIMEOUT_S", 1.0)
    async with started() as front, aclosing(front.changes()) as changes:
        old = front.supervisor_pid
        os.kill(old, signal.SIGSTOP)
        async with asyncio.timeout(30):
            assert [await anext(changes), await anext(changes)] == [False, True]
        assert front.supervisor_pid != old


async def test_a_caller_that_goes_away_interrupts_its_cell_across_the_socket() -> None:
    async with started() as front:
        sid = await front.open_session("", {}, "")
        async with aclosing(front.execute(sid, "", SLEEP, 0)) as cell:
            await anext(cell)
        async with asyncio.timeout(10):
            end = (await run(front, sid, "'here'"))[-1]
        assert isinstance(end, Outcome)
        assert end.result == "'here'"


async def test_the_supervisor_holds_no_secret_and_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATHOM_CANARY", "secret")
    async with started() as front:
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
from tests.integration.sandbox.conftest import make_front
async def main():
    front = make_front(spares=1)
    await front.start()
    sid = await front.open_session("", {{}}, "")
    async for event in front.execute(sid, "", {code!r}, 0):
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
    assert len(held) >= 4
    doomed.kill()
    await doomed.wait()
    await all_gone(held)


async def test_health_and_metrics_follow_the_supervisor() -> None:
    telemetry, store = Telemetry("sandbox", stream=io.StringIO()), open_store("memory://")
    deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry)
    service = server.build(Config(spares=0), deps)
    assert isinstance(service.servicer, server.SandboxServicer)
    front = service.servicer._engine
    assert isinstance(front, Front)
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
            states += [(await watch.read()).status for _ in range(2)]
            watch.cancel()
        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert states == [serving, not_serving, serving]
        with pytest.raises(errors.SessionLost):
            await client.list_variables(pb.ListVariablesRequest(session_id=opened.session_id), timeout_s=30)
        assert telemetry.registry.get_sample_value("fathom_sandbox_sessions") == 0
        again = await client.create_session(pb.CreateSessionRequest(), timeout_s=30)
        cell = pb.ExecuteRequest(session_id=again.session_id, code="1 + 1")
        events = [event async for event in client.execute(cell, timeout_s=30)]
        assert events[-1].outcome.result == "2"
