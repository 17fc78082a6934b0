"""Workspaces of the MCP server stay within their bytes."""

from __future__ import annotations

import pytest

from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.mcp import serve
from fathom.services.planner.mcp.serve import Workspaces
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Think


async def test_a_session_that_has_exchanged_its_bytes_is_told_to_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MAX_WORKSPACE_BYTES", 100)
    workspaces = Workspaces(lambda task: EpisodeResources(Registry([Think(1_000)])))

    async def think(session: str, thought: str) -> tuple[bool, str]:
        async with workspaces.at(session) as workspace:
            result = await workspace.call("think", {"intent": "to see", "content": thought}, 9.0)
        return result.is_error, result.content[0].text

    assert not (await think("one", "x" * 200))[0]
    refused, text = await think("one", "again")
    assert refused
    assert "takes no more calls: start a new one" in text
    assert not (await think("two", "another session"))[0]
    await workspaces.close()
