"""Conversion of sub-questions to tool calls, and selection of search hits to read in full."""

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
"""Tools of the agent that a plan cannot call with a sub-question."""
ASKED_BY = ("question", "query", "q", "text")
INTENT_CHARS = 120
READ_PER_SEARCH, MAX_READ = 1, 5


def askable(specs: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the tools that take a single text, with the name of that argument."""
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
    """Return one call per sub-question; its text is the intent shown to the reader."""
    calls = []
    for place, query in enumerate(queries):
        values = {"intent": query.text[:INTENT_CHARS], arguments[query.tool]: query.text}
        calls.append(ToolCall(f"{stage}_{place}", query.tool, json.dumps(values, ensure_ascii=False)))
    return tuple(calls)


def reads_for(stage: str, results: Sequence[ToolResult], read: Sequence[str]) -> tuple[ToolCall, ...]:
    """Return calls that read the best new hit of each search, at most ``MAX_READ``; no document twice."""
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
    """Return the hits of a successful search; none for any other result."""
    if result.call.name != Search.name or result.status is not ToolState.OK:
        return []
    try:
        hits = json.loads(result.content.split("\n", 1)[0]).get("hits", ())
    except (ValueError, AttributeError):
        return []
    return [hit for hit in hits if isinstance(hit, dict) and isinstance(hit.get("id"), str)]


def read_already(results: Sequence[ToolResult]) -> list[str]:
    """Return the ids of documents that the run has tried to read."""
    return [argument(result.call, "id") for result in results if result.call.name == Fetch.name]
