"""The registry: one call path for all tools; it adds ``intent`` to every schema and checks every argument."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from fathom.errors import FathomError, InvalidField, NotFound
from fathom.protocol.messages import ToolCall, ToolSpec
from services.planner.model import Kind, Material, ToolResult, ToolState
from services.planner.tools.tool import Finding, Reply, Tool

INTENT = {"type": "string", "description": "What you want with this call, in one short sentence for the reader."}
NO_INTENT = "(no intent given)"


class Registry:
    """Runs tool calls of one episode and numbers the material that they find."""

    def __init__(self, tools: Sequence[Tool], material: int = 0, timeout_s: float = 60.0) -> None:
        """``material`` is how many materials there are already, ``timeout_s`` the longest call in seconds."""
        self._tools = {tool.name: tool for tool in tools}
        self._validators = {tool.name: Draft202012Validator(dict(tool.parameters)) for tool in tools}
        self._material = material
        self._specs = tuple(specify(tool) for tool in sorted(tools, key=lambda tool: tool.name))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Sorted by name, so that the prompt's prefix has the same bytes each time (row P09)."""
        return self._specs

    def intent(self, call: ToolCall) -> str:
        """The call's intent; a missing one is repaired, not refused (row R11)."""
        try:
            intent = json.loads(call.arguments_json).get("intent")
        except (ValueError, AttributeError):
            intent = None
        return intent.strip() if isinstance(intent, str) and intent.strip() else NO_INTENT

    async def call(self, call_id: str, call: ToolCall) -> ToolResult:
        """Runs one call; whatever goes wrong with it comes back as a result that says so."""
        started = time.perf_counter()
        try:
            tool, arguments = self._checked(call)
            reply = await tool(call_id, arguments, self._material + 1)
        except (InvalidField, NotFound) as error:
            reply = Reply(ToolState.INVALID, {"error": error.message})
        except FathomError as error:
            reply = self._failed(call, error)
        material = self._number(reply.findings)
        duration_ms = int((time.perf_counter() - started) * 1000)
        return ToolResult(call, self.intent(call), reply.content(call.name), reply.status, duration_ms, material)

    def _checked(self, call: ToolCall) -> tuple[Tool, Mapping[str, Any]]:
        tool = self._tools.get(call.name)
        if tool is None:
            raise NotFound("tool", call.name, sorted(self._tools))
        try:
            arguments = json.loads(call.arguments_json)
        except ValueError as error:
            raise InvalidField(f"{call.name}.arguments", f"are no JSON: {error}") from error
        if not isinstance(arguments, dict):
            raise InvalidField(f"{call.name}.arguments", "must be a JSON object")
        arguments = {name: value for name, value in arguments.items() if name != "intent"}
        for problem in self._validators[call.name].iter_errors(arguments):
            path = ".".join([call.name, *(str(part) for part in problem.absolute_path)])
            raise InvalidField(path, problem.message)
        return tool, arguments

    def _failed(self, call: ToolCall, error: FathomError) -> Reply:
        """A failed source is a missing item, so that the answer cannot be silent about it."""
        item = {"subject": call.name, "reason": "SOURCE_FAILED", "detail": error.message}
        return Reply(ToolState.FAILED, {"error": error.message}, findings=(Finding(Kind.MISSING, item),))

    def _number(self, findings: Sequence[Finding]) -> tuple[Material, ...]:
        material = tuple(
            Material(self._material + offset, finding.kind, finding.item, finding.variable)
            for offset, finding in enumerate(findings, start=1)
        )
        self._material += len(material)
        return material


def specify(tool: Tool) -> ToolSpec:
    """The tool's schema with the required argument ``intent`` in front."""
    parameters = dict(tool.parameters)
    parameters["properties"] = {"intent": INTENT, **parameters.get("properties", {})}
    parameters["required"] = ["intent", *parameters.get("required", [])]
    return ToolSpec(tool.name, tool.description, json.dumps(parameters, ensure_ascii=False))
