"""Conversion of sub-questions to tool calls, and selection of search hits to read in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.domain.chat.messages import ToolCall, ToolSpec
from fathom.services.planner.model.episode import ToolResult, ToolStatus
from fathom.services.planner.model.stages import SubQuery
from fathom.services.planner.tools.arguments import read_argument
from fathom.services.planner.tools.documents import Fetch, Search

NOT_PLANNED = frozenset({"think", "finish", "todo", "recall", "fetch", "python", "delegate", "catalogue", "sql"})
"""Tools of the agent that a plan cannot call with a sub-question."""
ASKED_BY = ("question", "query", "q", "text")
# One line in the reader's list of steps.
INTENT_CHARS = 120
# The best hit of a search mostly answers it; five pages fill the budget of the material list.
READ_PER_SEARCH, MAX_READ = 1, 5


def find_askable(specs: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the tools that take a single text, with the name of that argument."""
    found = {}
    for spec in specs:
        if spec.name in NOT_PLANNED:
            continue
        schema = json.loads(spec.parameters_json)
        required = [name for name in schema.get("required", ()) if name != "intent"]
        names = [name for name in ASKED_BY if takes_text(schema, name)]
        # A tool with another required argument cannot be called with a text alone.
        if names and set(required) <= {names[0]}:
            found[spec.name] = names[0]
    return found


def takes_text(schema: Mapping[str, Any], name: str) -> bool:
    field = schema.get("properties", {}).get(name)
    return isinstance(field, dict) and field.get("type") == "string"


def make_calls(stage: str, queries: Sequence[SubQuery], arguments: Mapping[str, str]) -> tuple[ToolCall, ...]:
    """Return one call per sub-question; its text is the intent shown to the reader."""
    calls = []
    for place, query in enumerate(queries):
        values = {"intent": query.text[:INTENT_CHARS], arguments[query.tool]: query.text}
        calls.append(ToolCall(f"{stage}_{place}", query.tool, json.dumps(values, ensure_ascii=False)))
    return tuple(calls)


def make_reads(stage: str, results: Sequence[ToolResult], read: Sequence[str]) -> tuple[ToolCall, ...]:
    """Return calls that read the best new hit of each search, at most ``MAX_READ``; no document twice."""
    known = set(read)
    calls: list[ToolCall] = []
    for rank in range(READ_PER_SEARCH):
        for result in results:
            hits = read_hits(result)
            fresh = [hit for hit in hits if hit["id"] not in known]
            if len(calls) >= MAX_READ or not fresh or rank >= len(hits):
                continue
            hit = fresh[0]
            known.add(hit["id"])
            values = {"intent": str(hit.get("title") or hit["id"])[:INTENT_CHARS], "id": hit["id"]}
            arguments = json.dumps(values, ensure_ascii=False)
            calls.append(ToolCall(f"{stage}_read_{len(calls)}", Fetch.name, arguments))
    return tuple(calls)


def read_hits(result: ToolResult) -> list[dict[str, Any]]:
    """Return the hits of a successful search; none for any other result."""
    if result.call.name != Search.name or result.status is not ToolStatus.OK:
        return []
    try:
        hits = json.loads(result.content.split("\n", 1)[0]).get("hits", ())
    except (ValueError, AttributeError):
        return []
    return [hit for hit in hits if isinstance(hit, dict) and isinstance(hit.get("id"), str)]


def list_read(results: Sequence[ToolResult]) -> list[str]:
    """Return the ids of documents that the run has tried to read."""
    return [read_argument(result.call, "id") for result in results if result.call.name == Fetch.name]
