"""Interface of tools, and their replies."""

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
    """A material that is not numbered yet."""

    kind: Kind
    item: Any
    variable: str = ""


@dataclass(frozen=True)
class Reply:
    """Reply of a tool: ``head`` is for programs, ``body`` for models and people."""

    status: ToolState
    head: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    findings: tuple[Finding, ...] = ()

    def content(self, tool: str) -> str:
        """Return the reply as shown to the model: one line of JSON, then the body, quoted and with tags neutralized."""
        line = json.dumps({"tool": tool[:MAX_NAME_CHARS], "status": self.status.value, **self.head}, ensure_ascii=False)
        return f"{neutral(line)}\n\n{quoted(self.body)}" if self.body else neutral(line)


Numbered = Callable[[int], Reply]
"""Reply that needs the number of its first material.

It is called in the order of the calls, so that numbers and names do not depend on how calls overlapped.
"""


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
        """Return whether calls are independent, so that they may run concurrently and before other calls."""
        ...

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        """Run the call; ``call_id`` is its idempotency key. Raises ``FathomError``."""
        ...


def schema(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object without additional properties."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def shortened(text: str, limit: int) -> str:
    """Return at most about ``limit`` characters of ``text``: head, a note on the omission, tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"
