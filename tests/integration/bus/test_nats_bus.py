"""Test what only a real nats-server can do: crash, come back, lose its disk, stand in the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fathom.core.call import Lane
from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, MissingExtra, NotReady
from fathom.transport.bus import Delivery, Message, open_bus
from fathom.transport.bus.nats import link, server
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import (
    RUNS,
    TERMINATED_ADVISORIES,
    events_subject,
    rpc_subject,
    run_durable,
    run_subject,
    topology,
)
from fathom.transport.sockets import PortInUse
from fathom.transport.store.memory import MemoryStore

if TYPE_CHECKING:
    from tests.integration.bus.conftest import Make

SEARCH = rpc_subject("retrieval", "Search")
WORK, WORKERS = run_subject(Lane.INTERACTIVE), run_durable(Lane.INTERACTIVE)
EVENTS = events_subject("run-1")


async def test_nothing_is_lost_when_the_server_crashes(make_nats: Make) -> None:
    # A second instead of the default half minute, so that an abandoned delivery comes again within the test.
    lab = await make_nats(ack_wait_s=1.0)
    assert lab.server is not None
    await lab.put(b"0", b"1", b"2")
    done: set[bytes] = set()

    async def finish(deliveries: AsyncIterator[Delivery]) -> None:
        async for delivery in deliveries:
            await delivery.ack()
            done.add(delivery.payload)
            if done == {b"0", b"1", b"2", b"3"}:
                return

    async with asyncio.timeout(20), aclosing(lab.bus.consume(WORKERS)) as deliveries:
        # Held and never settled: its worker is the one that "crashes" with the server.
        held = await anext(deliveries)
        finishing = asyncio.create_task(finish(deliveries))
        # SIGKILL: nothing is flushed, so what comes back was on the disk before.
        await lab.server.kill()
        # Published while no server is there; the client must hold on until there is one.
        published = asyncio.create_task(lab.put(b"3"))
        await lab.server.start()
        await asyncio.gather(published, finishing)
    assert held.payload in done  # it was never settled, so it came again


async def test_a_delivery_is_settled_after_an_orderly_restart(make_nats: Make) -> None:
    lab = await make_nats(ack_wait_s=0.5)
    assert lab.server is not None
    await lab.put(b"1", b"2")
    first, second = await lab.take(2)
    await lab.server.stop()
    # An orderly stop lets clients reconnect; the acknowledgement waits for it.
    settling = asyncio.create_task(first.ack())
    await lab.server.start()
    await settling
    (again,) = await lab.take(1)
    # The second was not settled and comes again, the first is done.
    assert (again.sequence, again.attempt) == (second.sequence, 2)


async def test_a_follower_misses_nothing_over_a_crash(make_nats: Make) -> None:
    lab = await make_nats()
    assert lab.server is not None
    seen: list[Delivery] = []

    async def follow() -> None:
        async with aclosing(lab.bus.follow(EVENTS)) as events:
            async for event in events:
                seen.append(event)
                if event.payload == b"39":
                    return

    async with asyncio.timeout(20):
        following = asyncio.create_task(follow())
        for number in range(40):
            # Halfway through the follower's events.
            if number == 20:
                await lab.server.kill()
                restarting = asyncio.create_task(lab.server.start())
            await lab.bus.publish(EVENTS, b"%d" % number, message_id=str(number))
        await restarting
        await following
    assert [int(event.payload) for event in seen] == list(range(40))
    # Sequence numbers without a gap or a double: the follower resumed exactly where it stood.
    assert [event.sequence for event in seen] == list(range(1, 41))


async def test_streams_are_declared_anew_when_the_disk_is_lost(make_nats: Make, tmp_path: Path) -> None:
    lab = await make_nats()
    assert lab.server is not None
    async with asyncio.timeout(20), aclosing(lab.bus.consume(WORKERS)) as deliveries:
        waiting = asyncio.ensure_future(anext(deliveries))
        await lab.server.kill()
        # Another folder on the same port: a server whose disk was replaced.
        async with NatsServer(tmp_path / "empty", lab.server.port):
            await lab.put(b"1")
            assert (await waiting).payload == b"1"
            await lab.bus.close()


async def test_a_delivery_that_the_server_has_forgotten_cannot_be_settled(make_nats: Make, tmp_path: Path) -> None:
    lab = await make_nats()
    assert lab.server is not None
    await lab.put(b"lost")
    (lost,) = await lab.take(1)
    await lab.server.kill()
    # A server that has never seen the message cannot confirm its end.
    async with NatsServer(tmp_path / "empty", lab.server.port):
        with pytest.raises(NotReady, match="no longer known"):
            await lost.ack()
        await lab.bus.close()


async def test_the_servers_own_notices_are_kept(make_nats: Make) -> None:
    lab = await make_nats()
    await lab.put(b"1")
    (delivery,) = await lab.take(1)
    await delivery.dead_letter("poison")
    (notice,) = await lab.read(TERMINATED_ADVISORIES, 1)
    # NATS publishes an advisory of its own for each terminated message; monitoring reads it.
    advisory = json.loads(notice.payload)
    assert (advisory["stream"], advisory["consumer"], advisory["stream_seq"]) == (RUNS, WORKERS, delivery.sequence)


async def test_requests_without_a_server_fail_typed_and_work_again(make_nats: Make) -> None:
    lab = await make_nats()
    assert lab.server is not None

    async def handler(message: Message) -> Message:
        return message

    await lab.bus.serve(SEARCH, "retrieval", handler)
    await lab.server.kill()
    with pytest.raises(NotReady):
        # Shorter than any reconnection: the error must be typed, not a timeout of the client library.
        await lab.bus.request(SEARCH, b"1", headers={}, timeout_s=0.3)
    await lab.server.start()
    assert (await lab.bus.request(SEARCH, b"2", headers={}, timeout_s=5)).payload == b"2"


async def test_publish_and_ack_give_up_in_bounded_time(make_nats: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = await make_nats()
    assert lab.server is not None
    await lab.put(b"1")
    (delivery,) = await lab.take(1)
    await lab.server.stop()
    # The wait for a confirmation is cut so that giving up is quick.
    monkeypatch.setattr(link, "CONFIRM_TIMEOUT_S", 0.2)
    with pytest.raises(NotReady, match=r"not confirmed within 0\.2 s"):
        await lab.put(b"2")
    with pytest.raises(NotReady, match="acknowledgement was not confirmed"):
        await delivery.ack()
    # With the usual time again, the restarted server answers within it.
    monkeypatch.undo()
    await lab.server.start()
    await delivery.ack()  # a failed settlement can be tried again


async def test_declare_updates_what_differs(make_nats: Make) -> None:
    lab = await make_nats(ack_wait_s=30.0)
    assert lab.server is not None
    # The same streams with a shorter acknowledgement: what exists is changed, not only what is missing created.
    shorter = await open_bus(lab.server.url, MemoryStore(), topology(ack_wait_s=0.2))
    await shorter.declare()
    # The second declaration finds nothing to change.
    await shorter.declare()
    await shorter.close()
    await lab.put(b"1")
    assert [(await lab.take(1))[0].attempt for _ in range(2)] == [1, 2]


async def test_no_server_is_not_ready(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(link, "OPEN_TIMEOUT_S", 0.3)
    caplog.set_level(logging.CRITICAL)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        port = taken.getsockname()[1]
        with pytest.raises(NotReady, match=f"no NATS server answers at 127.0.0.1:{port}") as failure:
            await open_bus(f"nats://user:hunter2@127.0.0.1:{port}", MemoryStore())
    # A password in a URL must not reach logs through an error's text.
    assert "hunter2" not in str(failure.value)
    # The top-level domain "invalid" is reserved: it never resolves.
    with pytest.raises(NotReady, match=r"no NATS server answers at nats://nowhere\.invalid:4222"):
        await open_bus("nats://nowhere.invalid:4222", MemoryStore())


@pytest.mark.parametrize("url", ["http://127.0.0.1", "nats://", "nats://h:4222?replicas=2", "nats://h?x=1"])
async def test_a_wrong_url_is_a_setting_error(url: str) -> None:
    with pytest.raises(ConfigError, match="bus_url"):
        await open_bus(url, MemoryStore())


async def test_a_server_with_a_small_max_payload_is_refused(make_nats: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = await make_nats()
    assert lab.server is not None
    # Larger than NATS' default of 1 MiB allows with headers.
    monkeypatch.setattr(link, "THRESHOLD", 1024 * 1024)
    with pytest.raises(ConfigError, match="max_payload"):
        await open_bus(lab.server.url, MemoryStore())


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "one") as first:
        assert first.port > 0
        with pytest.raises(PortInUse, match=f"nats-server cannot listen on 127.0.0.1:{first.port}"):
            await NatsServer(tmp_path / "two", first.port).start()


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    # A file where the server wants its folder.
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DependencyFailed, match=r"nats-server: ended at once: \S+"):
        await NatsServer(tmp_path / "file").start()


@pytest.mark.parametrize("name", ["数据 home", 'with "quotes"', "back\\slash", "$HOME", "# no comment"])
async def test_a_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    async with NatsServer(tmp_path / name):
        assert (tmp_path / name / "jetstream").is_dir()


async def test_settings_that_the_server_does_not_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NatsServer, "_configure", lambda self: "jetstream { store_dir: ")
    with pytest.raises(DependencyFailed, match=r"nats-server: ended at once: .*[Pp]arse"):
        await NatsServer(tmp_path).start()


async def test_a_missing_binary_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither beside the interpreter nor in the path.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"fathom\[nats-server\]"):
        await NatsServer(tmp_path).start()
    monkeypatch.setenv("FATHOM_NATS_BIN", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="FATHOM_NATS_BIN"):
        server.find_binary()


CHILD = """
import asyncio, sys
from pathlib import Path
from fathom.transport.bus.nats.server import NatsServer

async def main():
    async with NatsServer(Path(sys.argv[1])) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
# The parent gets no chance to clean up: the kernel must end the server with it.
async def test_no_server_is_left_behind_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(20):
        port = int(await parent.stdout.readline())
        # An open connection ends when the server does: a state to wait for.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        os.kill(parent.pid, signal.SIGKILL)
        await parent.wait()
        # To the end of the connection, which is the end of the server; one that had not read all resets it.
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
