"""Test what a run has read: ``recall`` of its own record, and which documents it has been shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.core.errors import NotFound
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, Step, StopReason, ToolResult, ToolStatus
from fathom.services.planner.proto.episode import step_from_proto, step_to_proto
from fathom.services.planner.tools.documents import Fetch, Search, ShownDocuments
from fathom.services.planner.tools.recall import PAGE_CHARS, Recall
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish
from fathom.transport.status import OK, to_status
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Echo, Script, echo, finish, research, task


def over(episode: Episode, policy: Script) -> AgentLoop:
    registry = Registry([Echo(), Finish(), Recall(episode.steps)], len(episode.material))
    return AgentLoop(episode, research(), policy, EpisodeResources(registry), RecordingObserver())


def recall(**arguments: Any) -> str:
    return format_tool_call("recall", {"intent": "read again", **arguments})


async def test_a_material_and_a_round_are_read_again_in_full_page_by_page() -> None:
    long = "".join(f"<line {n}>\n" for n in range(1500))
    policy = Script(
        echo("first"), echo(long), recall(material=2), recall(material=2, page=2),
            recall(material=2, page=3), recall(material=2, page=4), recall(round=1),
        recall(material=2, page=99), recall(material=9), recall(round=40), recall(), recall(material=1, round=1),
        finish("x"),
    )  # fmt: skip
    episode = Episode(task(20), research().opening(task(20)))
    assert (await over(episode, policy).run()).stop is StopReason.FINISHED
    results = [step.results[0] for step in episode.steps if step.results][2:]
    pages, results = results[:4], results[4:]
    assert [json.loads(r.content.splitlines()[0])["more"] for r in pages] == [2, 3, 4, None]
    shown = "".join(r.content.split("<quoted>\n")[1].removesuffix("\n</quoted>") for r in pages)
    assert shown.startswith("echo ")
    assert long in shown
    assert all(len(r.content) < PAGE_CHARS + 300 for r in [*pages, *results])
    assert "first" in results[0].content
    assert [r.status for r in results[1:]] == [ToolStatus.INVALID] * 5
    for result, said in zip(results[1:], ["the last page is", "1 to 2", "1 to", "not both", "not both"], strict=True):
        assert said in result.content
    assert not any(r.material for r in [*pages, *results]), "reading again adds no material"


async def test_recall_reads_a_record_that_was_written_down_and_read_back() -> None:
    policy = Script(echo("before the crash"), recall(material=1), finish("x"))
    episode = Episode(task(), research().opening(task()))
    await over(episode, policy).run()
    kept = step_to_proto(episode.steps[0], "hash")
    del kept.material[:], kept.tool_results[0].material[:]  # the echo's material is no proto message
    again = Episode(task(), research().opening(task()))
    again.append(step_from_proto(kept))
    found = await Registry([Recall(again.steps)]).call("id", ToolCall("c", "recall", '{"round": 1}'))
    assert "before the crash" in found.content


@dataclass
class Retrieval:
    """A retrieval that has forgotten what it showed, as after a restart."""

    requests: list[Any] = field(default_factory=list)

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        self.requests.append(request)
        return pb.SearchResponse(results=[pb.SearchResult(status=OK, hits=[pb.SearchHit(id="d1", title="t")])])

    async def fetch(self, request: pb.FetchRequest, timeout_s: float) -> pb.FetchResponse:
        self.requests.append(request)
        if request.enforce_seen_by_run:
            status = to_status(NotFound("document that this run has seen", request.ids[0]))
            return pb.FetchResponse(results=[pb.FetchResult(status=status)])
        return pb.FetchResponse(results=[pb.FetchResult(status=OK, document=pb.Document(id="d1", text="body"))])


@dataclass
class Clients:
    retrieval: Retrieval = field(default_factory=Retrieval)


def documents(clients: Any, shown: ShownDocuments) -> Registry:
    return Registry([Search(clients, ("",), None, 1.0, shown), Fetch(clients, ("",), None, 1.0, shown)])


async def test_only_what_the_run_has_been_shown_is_read_and_the_record_says_what_that_is() -> None:
    clients = Clients()
    tools = documents(clients, ShownDocuments("run_1"))
    refused = await tools.call("a", ToolCall("c0", "fetch", '{"id": "d1"}'))
    assert (refused.status, clients.retrieval.requests[0].enforce_seen_by_run) == (ToolStatus.INVALID, "run_1")
    found = await tools.call("b", ToolCall("c1", "search", '{"query": "q"}'))
    assert clients.retrieval.requests[1].run == "run_1"
    assert (await tools.call("c", ToolCall("c2", "fetch", '{"id": "d1"}'))).status is ToolStatus.OK
    # Retrieval and planner have both been started anew: the run's own steps know.
    step = Step(0, (), None, (found,))  # type: ignore[arg-type]
    again = documents(clients, ShownDocuments.from_steps("run_1", [step]))
    assert (await again.call("d", ToolCall("c3", "fetch", '{"id": "d1"}'))).status is ToolStatus.OK
    other = documents(clients, ShownDocuments.from_steps("run_2", []))
    assert (await other.call("e", ToolCall("c4", "fetch", '{"id": "d1"}'))).status is ToolStatus.INVALID


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"hits": 3}', '{"hits": [{}]}', "{}"])
def test_a_record_of_another_form_shows_nothing(content: str) -> None:
    result = ToolResult(ToolCall("c", "search", "{}"), "i", content, ToolStatus.OK)
    assert ShownDocuments.from_steps("run_1", [Step(0, (), None, (result,))]).ids == {}  # type: ignore[arg-type]
