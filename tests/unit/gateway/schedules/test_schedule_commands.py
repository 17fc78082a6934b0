"""``fathom schedule``: made, listed, paused, resumed, compared and deleted over a gateway."""

from __future__ import annotations

import asyncio
import re

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.cli.plugins import add_commands
from fathom.core.errors import InvalidField
from tests.e2e.replay import serve_script
from tests.e2e.script import Script


async def run(*words: str) -> str:
    done = await asyncio.to_thread(CliRunner().invoke, app, ["schedule", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


async def test_a_schedule_goes_through_its_life_by_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    add_commands(app)
    async with serve_script(Script(days=5)) as house:
        monkeypatch.setenv("FATHOM_URL", house.url)
        made = await run("add", "How did AAA do?", "--every", "week", "--at", "07:30", "--time-zone", "Asia/Shanghai")
        assert re.search(r"every week 1 at 07:30 Asia/Shanghai, next \d{4}-\d\d-\d\d 07:30: How did AAA do\?", made)
        name = made.split()[0]
        assert await run("list") == made
        assert "paused" in await run("pause", name)
        assert "next" in await run("resume", name)
        await run("delete", name)
        assert await run("list") == ""
        with pytest.raises(InvalidField, match=name):
            await run("pause", name)
        with pytest.raises(InvalidField, match="time_zone"):
            await run("add", "why?", "--time-zone", "Mars/Olympus")
