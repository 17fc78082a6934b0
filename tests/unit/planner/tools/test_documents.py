"""Search of documents: what a run gets when nothing is found."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.tools.documents import Search, ShownDocuments
from fathom.services.planner.tools.registry import Registry
from fathom.transport.status import OK


class EmptyRetrieval:
    """A corpus without a single fitting document."""

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        return pb.SearchResponse(results=[pb.SearchResult(status=OK)])


async def test_a_search_that_finds_nothing_is_material_that_an_answer_can_cite() -> None:
    clients: Any = SimpleNamespace(retrieval=EmptyRetrieval())
    tools = Registry([Search(clients, ("",), None, 1.0, ShownDocuments("run_1"))], 4)
    result = await tools.call("id", ToolCall("c", "search", '{"intent": "look", "query": "tin mines"}'))
    assert result.status is ToolStatus.EMPTY
    [missing] = json.loads(result.content)["missing"]
    assert (missing["material"], missing["detail"]) == (5, "no document found for 'tin mines'")
    assert [(item.number, item.kind) for item in result.material] == [(5, MaterialKind.MISSING)]
