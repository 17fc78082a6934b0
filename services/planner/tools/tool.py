"""What a tool is, and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fathom.protocol.quoting import neutral, quoted
from services.planner.model import Kind, ToolState

MAX_NAME_CHARS = 80


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
        """As the model sees it: one line of JSON, then the body as quoted data. No tag of another's is live in it."""
        line = json.dumps({"tool": tool[:MAX_NAME_CHARS], "status": self.status.value, **self.head}, ensure_ascii=False)
        return f"{neutral(line)}\n\n{quoted(self.body)}" if self.body else neutral(line)


Numbered = Callable[[int], Reply]
"""A reply that needs the number of its first material; called in the order of the calls, so that numbers and names
are the same however the calls overlapped."""


class Tool(Protocol):
    """One tool. ``parameters`` is a JSON schema of an object, without ``intent``."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    @property
    def reads(self) -> bool:
        """True when calls are independent: they may run beside each other, and before those that are not."""
        ...

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        """Runs the call; ``call_id`` is its idempotency key. Raises ``FathomError``."""
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
