"""``fathom quota``: set, listed and unset on a real bus."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import InvalidField
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store import open_store


async def test_a_quota_is_set_listed_and_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NatsServer(tmp_path / "nats") as nats:
        bus = await open_bus(nats.url, open_store("memory://"))
        await bus.declare()
        await bus.close()
        monkeypatch.setenv("FATHOM_RUNTIME_BUS_URL", nats.url)

        async def call(*arguments: str) -> str:
            # In a thread, as a command has a loop of its own.
            done = await asyncio.to_thread(CliRunner().invoke, app, ["quota", *arguments], catch_exceptions=False)
            assert done.exit_code == 0, done.output
            return done.output

        await call("set", "tool.python", "--running", "0")
        await call("set", "model.rules", "--running", "3", "--per-second", "2.5")
        assert await call("list") == (
            "model.rules\trunning 3\tper second 2.5\ntool.python\trunning 0\tper second None\n"
        )
        await call("unset", "tool.python")
        assert "tool.python" not in await call("list")
        for arguments in (("set", "python", "--running", "1"), ("set", "tool.x"), ("set", "tool.x", "--running", "-1")):
            with pytest.raises(InvalidField):
                await call(*arguments)
