"""Sub-questions as calls of the episode's own tools, and the documents that a search is worth reading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.protocol.messages import ToolCall, ToolSpec
from services.planner.model import ToolResult, ToolState
from services.planner.tools.arguments import argument
from services.planner.tools.documents import Fetch, Search
from services.planner.workflow.record import SubQuery

NOT_PLANNED = frozenset({"think", "finish", "todo", "recall", "fetch", "python", "delegate"})
"""Tools of the agent's own doing: a plan cannot fill them with a sub-question."""
ASKED_BY = ("question", "query", "q", "text")
INTENT_CHARS = 120
READ_PER_SEARCH, MAX_READ = 1, 5


def askable(specs: Sequence[ToolSpec]) -> dict[str, str]:
    """The tools that take one text, each with the argument that takes it."""
    found = {}
    for spec in specs:
        if spec.name in NOT_PLANNED:
            continue
        schema = json.loads(spec.parameters_json)
        required = [name for name in schema.get("required", ()) if name != "intent"]
        names = [name for name in ASKED_BY if takes_text(schema, name)]
        if names and set(required) <= {names[0]}:
            found[spec.name] = names[0]
    return found


def takes_text(schema: Mapping[str, Any], name: str) -> bool:
    field = schema.get("properties", {}).get(name)
    return isinstance(field, dict) and field.get("type") == "string"


def calls_for(stage: str, queries: Sequence[SubQuery], arguments: Mapping[str, str]) -> tuple[ToolCall, ...]:
    """One call per sub-question; its text is the intent that the reader sees."""
    calls = []
    for place, query in enumerate(queries):
        values = {"intent": query.text[:INTENT_CHARS], arguments[query.tool]: query.text}
        calls.append(ToolCall(f"{stage}_{place}", query.tool, json.dumps(values, ensure_ascii=False)))
    return tuple(calls)


def reads_for(stage: str, results: Sequence[ToolResult], read: Sequence[str]) -> tuple[ToolCall, ...]:
    """Calls that read the best hits of each search, those of other searches before second ones; none twice."""
    known = set(read)
    calls: list[ToolCall] = []
    for rank in range(READ_PER_SEARCH):
        for result in results:
            hits = hits_in(result)
            fresh = [hit for hit in hits if hit["id"] not in known]
            if len(calls) >= MAX_READ or not fresh or rank >= len(hits):
                continue
            hit = fresh[0]
            known.add(hit["id"])
            values = {"intent": str(hit.get("title") or hit["id"])[:INTENT_CHARS], "id": hit["id"]}
            arguments = json.dumps(values, ensure_ascii=False)
            calls.append(ToolCall(f"{stage}_read_{len(calls)}", Fetch.name, arguments))
    return tuple(calls)


def hits_in(result: ToolResult) -> list[dict[str, Any]]:
    """The hits of a search that found some; none in any other result."""
    if result.call.name != Search.name or result.status is not ToolState.OK:
        return []
    try:
        hits = json.loads(result.content.split("\n", 1)[0]).get("hits", ())
    except (ValueError, AttributeError):
        return []
    return [hit for hit in hits if isinstance(hit, dict) and isinstance(hit.get("id"), str)]


def read_already(results: Sequence[ToolResult]) -> list[str]:
    """Ids of documents that were read or tried."""
    return [argument(result.call, "id") for result in results if result.call.name == Fetch.name]
