"""The configuration that the chart writes for NATS, read by real servers: logins, certificates, routes, copies."""

from __future__ import annotations

import json
import shutil
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import NotReady
from fathom.operations.backup.making import Sources, back_up
from fathom.operations.backup.restoring import restore
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.snapshots import open_snapshots
from fathom.transport.bus.streams import topology
from fathom.transport.store import open_store
from tests.chart.nats_servers import Servers, running
from tests.chart.rendering import CHART, render
from tests.support.waiting import eventually

MINIMAL = CHART / "ci" / "minimal-values.yaml"
CLUSTER = ("nats.replicas=3", "nats.authSecret=nats-login")
SECURE = ("nats.authSecret=nats-login", "nats.tlsSecret=nats-tls")
# Both would be numbers to NATS, if they came to it without quotes.
LOGIN = {"user": "007", "password": "1e3"}


def read_monitoring(port: int, path: str) -> dict[str, object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5.0) as reply:
        found: dict[str, object] = json.load(reply)
    return found


async def wait_until_joined(servers: Servers) -> None:
    """Return when every server has routes to the others and JetStream has a leader."""
    others = len(servers.ports) - 1

    def is_joined(port: int) -> bool:
        known = {r["remote_name"] for r in read_monitoring(port, "/routez")["routes"]}  # type: ignore[attr-defined]
        return len(known) == others and read_monitoring(port, "/healthz")["status"] == "ok"

    for ports in servers.ports:
        await eventually(partial(is_joined, ports[8222]), every_s=0.1, ignoring=(OSError,))


@pytest.mark.parametrize("secure", [True, False], ids=["certificates", "logins"])
async def test_three_servers_find_each_other_and_copy_every_stream(secure: bool, tmp_path: Path) -> None:
    release = "1e3"
    documents = render("helm4", MINIMAL, release, *CLUSTER, *(SECURE[1:] if secure else ()))
    async with running(documents, LOGIN, tmp_path) as servers:
        await wait_until_joined(servers)
        hosts = ",".join(f"007:1e3@127.0.0.1:{ports[4222]}" for ports in servers.ports)
        url = f"tls://{hosts}?replicas=3&ca={tmp_path}/tls/ca.crt" if secure else f"nats://{hosts}?replicas=3"
        bus = await open_bus(url, open_store("memory://"))
        try:
            await bus.declare()
            await bus.publish("fathom.runs.interactive", b"a run", message_id="one")
        finally:
            await bus.close()
        for ports in servers.ports:
            held = read_monitoring(ports[8222], "/jsz?streams=true")
            assert held["streams"] == len(topology().streams) + len(topology().buckets), "a copy of each is here"
        assert read_monitoring(servers.ports[0][8222], "/varz")["server_name"] == f"{release}-fathom-nats-0"


async def test_a_lone_servers_streams_come_into_three_by_a_backup(tmp_path: Path) -> None:
    """Without it the three would serve them with messages on one server and none on the others."""
    place, store = open_store("memory://"), open_store("memory://")
    alone, three = (render("helm4", MINIMAL, "demo", f"nats.replicas={n}", CLUSTER[1]) for n in (1, 3))
    async with running(alone, LOGIN, tmp_path / "volumes") as servers:
        await wait_until_joined(servers)
        bus = await open_bus(f"nats://007:1e3@127.0.0.1:{servers.ports[0][4222]}", store)
        try:
            await bus.declare()
            for number in range(5):
                await bus.publish("fathom.runs.interactive", b"a run", message_id=f"run-{number}")
        finally:
            await bus.close()
        async with open_snapshots(f"nats://007:1e3@127.0.0.1:{servers.ports[0][4222]}") as snapshots:
            manifest = await back_up(Sources(snapshots, None, None), place, print)
    shutil.rmtree(tmp_path / "volumes" / "tls")
    async with running(three, LOGIN, tmp_path / "volumes") as servers:
        await wait_until_joined(servers)
        assert [read_monitoring(ports[8222], "/jsz")["streams"] for ports in servers.ports] == [0, 0, 0]
        hosts = ",".join(f"007:1e3@127.0.0.1:{ports[4222]}" for ports in servers.ports)
        async with open_snapshots(f"nats://{hosts}?replicas=3") as snapshots:
            await restore(manifest, place, Sources(snapshots, None, None), print)
        await eventually(
            lambda: [read_monitoring(ports[8222], "/jsz")["messages"] for ports in servers.ports] == [5, 5, 5],
            every_s=0.1,
        )


async def test_who_has_no_login_or_believes_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = render("helm4", MINIMAL, "demo", *SECURE)
    async with running(documents, LOGIN, tmp_path) as servers:
        await wait_until_joined(servers)
        port, ca, store = servers.ports[0][4222], f"{tmp_path}/tls/ca.crt", open_store("memory://")
        with monkeypatch.context() as patch:
            patch.setattr("fathom.transport.bus.nats.link.OPEN_TIMEOUT_S", 1.5)
            for url in (f"tls://007:wrong@127.0.0.1:{port}?ca={ca}", f"tls://007:1e3@127.0.0.1:{port}"):
                with pytest.raises(NotReady):
                    await open_bus(url, store)
        with pytest.raises(ConfigError, match="ca="):
            await open_bus(f"tls://007:1e3@127.0.0.1:{port}?ca={tmp_path}/none.crt", store)
        bus = await open_bus(f"tls://007:1e3@127.0.0.1:{port}?ca={ca}", store)
        await bus.close()
