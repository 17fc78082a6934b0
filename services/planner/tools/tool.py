"""Interface of tools, and their replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from fathom.core.errors import DependencyFailed
from fathom.domain.chat.quoting import neutral, quote
from fathom.services.planner.model.episode import MaterialKind, ToolStatus

# A model may invent names of any length, and the name is repeated to it.
MAX_NAME_CHARS = 80


@dataclass(frozen=True)
class NewMaterial:
    """A material that is not numbered yet."""

    kind: MaterialKind
    item: Any
    variable: str = ""
    computed_by: int = 0
    computed_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """Reply of a tool: ``head`` is for programs, ``body`` for models and people.

    ``is_cached`` says that the service behind the tool held it from an equal call.
    """

    status: ToolStatus
    head: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    material: tuple[NewMaterial, ...] = ()
    is_cached: bool = False

    def content(self, tool: str) -> str:
        """Return the reply as shown to the model: one line of JSON, then the body, quoted and with tags neutralized."""
        line = json.dumps({"tool": tool[:MAX_NAME_CHARS], "status": self.status.value, **self.head}, ensure_ascii=False)
        return f"{neutral(line)}\n\n{quote(self.body)}" if self.body else neutral(line)


class SourceFailed(DependencyFailed):
    """The source itself answered that it failed, e.g. a page that is gone: an observation like any other."""


class OutcomeUnknown(DependencyFailed):
    """The call broke off and may have acted: it must not be made again unless it only reads."""


NumberedReply = Callable[[int], Reply]
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

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        """Run the call; ``call_id`` is its idempotency key. Raises ``FathomError``."""
        ...


@runtime_checkable
class SharingTool(Protocol):
    """Tool of which equal calls may share a result: of those at the same time, one goes upstream."""

    def make_key(self, arguments: Mapping[str, Any]) -> str:
        """Return the key that equal calls have in common; "" where each call is its own."""
        ...

    def find_held(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply | None:
        """Return the reply that is held of an equal call; None when the call must go upstream."""
        ...


def make_schema(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object without additional properties."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
