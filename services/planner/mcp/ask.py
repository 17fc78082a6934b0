"""MCP tool ``ask``: a run of the agent, with its answer and its sources."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import FathomError
from fathom.core.ids import new_id

ASK = "ask"
EFFORTS = {"quick": pb.EFFORT_QUICK, "standard": pb.EFFORT_STANDARD, "deep": pb.EFFORT_DEEP}
SCHEMA = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 8000, "description": "What you want to know."},
        "conversation_id": {"type": "string", "description": "Of an earlier answer, to ask on from there."},
        "effort": {"enum": list(EFFORTS), "description": "How much work it is worth; standard by default."},
    },
    "required": ["question"],
    "additionalProperties": False,
}


def describe_ask() -> Tool:
    """Return the tool's description."""
    return Tool(
        name=ASK,
        description=(
            "Answers a question about markets, companies and economies by research of its own: documents, data and"
            " calculations, with numbered sources. Takes seconds to minutes."
        ),
        input_schema=SCHEMA,
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True),
    )


@dataclass(frozen=True)
class Ask:
    """Plays a run per call, and ends it when its client goes away."""

    clients: Clients
    model: str

    async def __call__(self, arguments: Mapping[str, Any]) -> CallToolResult:
        wrong = next((error.message for error in Draft202012Validator(SCHEMA).iter_errors(arguments)), "")
        if wrong:
            return make_result(f"{ASK}: {wrong[:500]}", is_error=True)
        request = pb.RunRequest(
            request_id=new_id("run"),
            question=arguments["question"],
            conversation_id=arguments.get("conversation_id", ""),
            effort=EFFORTS.get(arguments.get("effort", ""), pb.EFFORT_UNSPECIFIED),
            model=self.model,
        )
        is_over, conversation_id = False, request.conversation_id
        try:
            async with aclosing(run(self.clients, request)) as events:
                async for event in events:
                    conversation_id = event.started.conversation_id or conversation_id
                    if event.HasField("finished"):
                        is_over = True
                        return describe_end(request.request_id, conversation_id, event.finished)
        except FathomError as error:
            return make_result(error.message, is_error=True)
        finally:
            if not is_over:
                # Shielded: a client that has gone away cancels this call.
                await asyncio.shield(self._stop(request.request_id))
        return make_result(f"run {request.request_id} ended without an answer", is_error=True)

    async def _stop(self, run_id: str) -> None:
        try:
            await self.clients.planner.stop_run(pb.StopRunRequest(run_id=run_id))
        except FathomError:
            # It ends at its own time limit.
            return


def describe_end(run_id: str, conversation_id: str, finished: pb.RunFinished) -> CallToolResult:
    """Return the answer with its cited sources as text, and both as structured content."""
    if not finished.HasField("answer"):
        reason = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
        return make_result(f"run {run_id} ended without an answer ({reason}): {finished.error}", is_error=True)
    cited = [describe_material(item) for item in finished.material if item.number in set(finished.answer.cited)]
    lines = [f"[{source['number']}] {source['title']}" for source in cited]
    text = "\n".join([finished.answer.markdown, "", *lines]) if lines else finished.answer.markdown
    structured = {
        "run_id": run_id,
        "conversation_id": conversation_id,
        "answer": finished.answer.markdown,
        "sources": cited,
        "open": list(finished.answer.open),
    }
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def describe_material(item: trajectory.Material) -> dict[str, Any]:
    """Return number, kind, title and id of a material."""
    kind = item.WhichOneof("item") or ""
    title, ident = {
        "passage": (item.passage.title, item.passage.id),
        "sheet": (item.sheet.title, item.sheet.id),
        "code": (f"calculation {item.number}", item.code.id),
        "missing": (f"not found: {item.missing.subject}", ""),
    }.get(kind, ("", ""))
    return {"number": item.number, "kind": kind, "title": title, "id": ident}


def make_result(text: str, *, is_error: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)
