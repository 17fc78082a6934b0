"""The bus by mutual TLS with a real server: a certificate is shown, renewed at a reconnection, and asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import NotReady
from fathom.transport.bus.nats import link
from fathom.transport.bus.nats.link import Link
from fathom.transport.bus.nats.server import find_binary
from fathom.transport.sockets import reserved_port
from tests.support.certificates import DAY, Authority
from tests.support.waiting import eventually


@asynccontextmanager
async def serving(folder: Path, store: Path, port: int) -> AsyncIterator[None]:
    tls = ["--tlscert", str(folder / "tls.crt"), "--tlskey", str(folder / "tls.key")]
    command = [find_binary(), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(store), "--tls", "--tlsverify"]
    process = await asyncio.create_subprocess_exec(
        *command, *tls, "--tlscacert", str(folder / "ca.crt"), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def test_the_bus_shows_its_certificate_and_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "OPEN_TIMEOUT_S", 3.0)
    old, new = Authority.make("old"), Authority.make("new")
    server, client = old.issue(tmp_path / "server"), old.issue(tmp_path / "client")
    with reserved_port() as port:
        url = f"tls://127.0.0.1:{port}?tls={client}"
        async with serving(server, tmp_path / "js", port):
            opened = await eventually(lambda: Link.open(url), ignoring=(NotReady,))
            # Who trusts the server, and shows nothing, stays outside.
            with pytest.raises(NotReady):
                await Link.open(f"tls://127.0.0.1:{port}?ca={client / 'ca.crt'}")
            before = opened.epoch
        new.issue(server)
        new.issue(client)
        async with serving(server, tmp_path / "js", port):
            await eventually(lambda: opened.epoch > before)
            assert opened.client.is_connected
            await opened.close()


async def test_an_expired_certificate_is_named_before_anything_is_tried(tmp_path: Path) -> None:
    folder = Authority.make().issue(tmp_path / "client", begins=-2 * DAY, ends=-DAY)
    with pytest.raises(ConfigError, match=r"tls\.crt has expired on"):
        await Link.open(f"tls://127.0.0.1:1?tls={folder}")
