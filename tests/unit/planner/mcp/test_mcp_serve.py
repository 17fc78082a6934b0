"""Workspaces of the MCP server: their bytes, and what fails for our own reasons."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError

from fathom.core.call import Lane
from fathom.core.errors import NotReady
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.mcp import serve
from fathom.services.planner.mcp.serve import PLANE_FAILURE, Workspaces
from fathom.services.planner.model.episode import Task
from fathom.services.planner.tools.registry import CallLimits, Registry
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


async def test_the_session_used_longest_ago_makes_room_above_the_number_that_was_asked_for() -> None:
    closed: list[str] = []

    def open_resources(task: Task) -> EpisodeResources:
        async def close() -> None:
            closed.append(task.run_id)

        return EpisodeResources(Registry([Think(1_000)]), close=close)

    workspaces = Workspaces(open_resources, most=2)
    runs = {}
    for session in ("one", "two", "one", "three"):
        async with workspaces.at(session) as workspace:
            runs[session] = workspace.run_id
    assert closed == [runs["two"]]
    await workspaces.close()
    assert sorted(closed) == sorted(runs.values())


class Away(Think):
    """A tool whose service is away."""

    async def __call__(self, call_id: str, arguments: Any) -> Any:
        raise NotReady("retrieval is away", retry_after_s=2.0)


@pytest.mark.parametrize("lane", [Lane.TRAINING, Lane.INTERACTIVE])
async def test_a_failure_of_ours_is_an_error_and_no_result_in_the_lane_of_trainings(lane: Lane) -> None:
    def open_resources(task: Task) -> EpisodeResources:
        assert task.is_rollout == (lane is Lane.TRAINING)
        bounds = CallLimits(9.0, patience_s=0.0, is_strict=task.is_rollout)
        return EpisodeResources(Registry([Away(1_000)], bounds=bounds))

    workspaces = Workspaces(open_resources, lane)
    async with workspaces.at("one") as workspace:
        if lane is Lane.TRAINING:
            with pytest.raises(MCPError, match="retrieval is away") as failed:
                await workspace.call("think", {"intent": "to see", "content": "x"}, 9.0)
            assert (failed.value.code, failed.value.data["retry_after_s"]) == (PLANE_FAILURE, 2.0)
        else:
            assert (await workspace.call("think", {"intent": "to see", "content": "x"}, 9.0)).is_error
    await workspaces.close()
