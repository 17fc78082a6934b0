"""``fathom runs export``: the file as the gateway gives it, and its problems as errors of the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.cli.plugins import add_commands
from fathom.core.errors import DependencyFailed, FathomError, InvalidField
from fathom.services.gateway.reports.fetching import fetch_export
from tests.e2e.replay import serve_script
from tests.e2e.script import Script


@pytest_asyncio.fixture
async def ended_run() -> AsyncIterator[tuple[str, str]]:
    """The URL of a gateway that asks for a token, and a run that has ended."""
    async with serve_script(Script(days=30), token="door") as house:
        headers = {"Authorization": "Bearer door"}
        async with httpx.AsyncClient(base_url=house.url, headers=headers) as client:
            run_id = (await client.post("/v1/runs", json={"question": "AAA / BBB?"})).json()["run_id"]
            async with client.stream("GET", f"/v1/runs/{run_id}/events") as events:
                async for _ in events.aiter_lines():
                    pass
        yield house.url, run_id


async def test_the_end_of_the_files_name_is_the_format(ended_run: tuple[str, str], tmp_path: Path) -> None:
    url, run_id = ended_run
    add_commands(app)
    target = tmp_path / "answer.pdf"
    command = ["runs", "export", run_id, str(target), "--gateway", url, "--token", "door", "--language", "zh"]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert (done.exit_code, done.output.replace("\n", "")) == (0, str(target))
    assert target.read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("token", "run_id", "kind", "named"),
    [("door", "", "rtf", "format"), ("door", "none", "md", "run_id"), ("wrong", "", "md", "authorization")],
)
async def test_what_the_gateway_refuses_is_named(
    ended_run: tuple[str, str], token: str, run_id: str, kind: str, named: str
) -> None:
    url, existing = ended_run
    with pytest.raises(InvalidField) as refused:
        await asyncio.to_thread(fetch_export, url, token, run_id or existing, kind, "en")
    assert refused.value.field == named
    assert not refused.value.message.removeprefix(f"{named}: ").startswith(named)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "no address"])
def test_a_gateway_that_is_away_is_named(url: str) -> None:
    failed: type[FathomError] = DependencyFailed
    with pytest.raises(failed, match="gateway"):
        fetch_export(url, "", "run_1", "md", "en")
