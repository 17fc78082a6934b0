"""A volume of the bus that is full: the rendered liveness probe tells, and a restart with room brings everything back."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from fathom.core.errors import FathomError
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.store import open_store
from tests.chart.nats_servers import running
from tests.chart.rendering import CHART, Document, by_key, render
from tests.support.waiting import eventually

UNSHARE = shutil.which("unshare")
# A namespace of its own: the mount is gone with the process, whatever becomes of it. The size is that of a volume whose
# node has promised more than it has: far below what the chart lets the server use.
MOUNT = 'mkdir "$1/data-0" && mount -t tmpfs -o size=24m tmpfs "$1/data-0" && exec "$2" -m tests.chart.install.test_full_volume "$1"'
SUBJECT = "fathom.runs.interactive"


@pytest.mark.skipif(UNSHARE is None, reason="no unshare on this machine")
def test_a_bus_whose_volume_was_full_is_started_again_and_has_lost_nothing(tmp_path: Path) -> None:
    """It stayed up, took no message for that stream any more, and its liveness said that all was well."""
    done = subprocess.run(
        [str(UNSHARE), "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    if "Operation not permitted" in done.stderr or "unshare failed" in done.stderr:
        pytest.skip("mount namespaces are not allowed here")
    assert (done.returncode, done.stdout) == (0, "as it should be\n"), done.stderr


def find_liveness(documents: tuple[Document, ...]) -> str:
    """Return the path that the kubelet asks of the bus."""
    (container,) = by_key(documents)["StatefulSet", "demo-fathom-nats"]["spec"]["template"]["spec"]["containers"]
    path: str = container["livenessProbe"]["httpGet"]["path"]
    return path


def ask(port: int, path: str) -> int:
    """Return the status of a probe."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5.0) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code


async def publish_until_refused(bus: Bus) -> int:
    """Publish until the bus takes no more; return how many messages it took."""
    # Larger than what the volume holds in all, so that it ends; each below what travels by claim check.
    for number in range(100):
        try:
            await bus.publish(SUBJECT, os.urandom(400_000), message_id=f"run-{number}")
        except FathomError as error:
            # A run waits for room: anything else is a fault.
            if not error.transient:
                raise
            return number
    raise AssertionError("a volume of 24 MiB took 40 MB")


def make_room(volume: Path) -> None:
    """Let the volume grow, as an operator does."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(volume)], check=True, capture_output=True)


async def count_messages(bus: Bus) -> int:
    """Return the messages in the stream of runs."""
    return (await bus.states())["RUNS"].messages


async def fill(folder: Path) -> None:
    """Fill the volume, see what the probe says, give it room, and start again; runs in the namespace."""
    documents = render("helm4", CHART / "ci" / "minimal-values.yaml", "demo")
    liveness, store = find_liveness(documents), open_store("memory://")
    async with running(documents, {}, folder) as servers:
        probe = partial(ask, servers.ports[0][8222], liveness)
        await eventually(lambda: probe() == 200, every_s=0.1, ignoring=(OSError,))
        bus = await open_bus(f"nats://127.0.0.1:{servers.ports[0][4222]}", store)
        try:
            await bus.declare()
            taken = await publish_until_refused(bus)
            # From here the kubelet counts, and starts the server again.
            await eventually(lambda: probe() != 200, every_s=0.1)
        finally:
            await bus.close()
    await asyncio.to_thread(make_room, folder / "data-0")
    shutil.rmtree(folder / "tls")
    async with running(documents, {}, folder) as servers:
        await eventually(lambda: ask(servers.ports[0][8222], liveness) == 200, every_s=0.1, ignoring=(OSError,))
        bus = await open_bus(f"nats://127.0.0.1:{servers.ports[0][4222]}", store)
        try:
            assert await count_messages(bus) >= taken > 0, "what was confirmed is there"
            await bus.publish(SUBJECT, b"with room", message_id="after")
        finally:
            await bus.close()
    print("as it should be")


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1])))
