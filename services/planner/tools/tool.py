"""What a tool is, and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from services.planner.model import Kind, ToolState


@dataclass(frozen=True)
class Finding:
    """A material without its number yet."""

    kind: Kind
    item: Any
    variable: str = ""


@dataclass(frozen=True)
class Reply:
    """A tool's reply: ``head`` is read by programs, ``body`` by models and people."""

    status: ToolState
    head: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    findings: tuple[Finding, ...] = ()

    def content(self, tool: str) -> str:
        """As the model sees it: one line of JSON, then free text."""
        line = json.dumps({"tool": tool, "status": self.status.value, **self.head}, ensure_ascii=False)
        return f"{line}\n\n{self.body}" if self.body else line


class Tool(Protocol):
    """One tool. ``parameters`` is a JSON schema of an object, without ``intent``."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    async def __call__(self, call_id: str, arguments: Mapping[str, Any], first_number: int) -> Reply:
        """Runs the call. ``call_id`` is its idempotency key, ``first_number`` that of its first material."""
        ...


def schema(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    """A closed object schema."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``: its head and its tail, and how much is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"
