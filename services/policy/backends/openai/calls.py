"""Tool calls put together from streamed pieces, whatever convention of indices and ids the endpoint has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.domain.chat.drafts import WRITTEN_TAIL, written_head
from fathom.domain.chat.messages import ToolCall
from fathom.services.policy.backends.openai.opaque import merge_field


@dataclass
class PartialCall:
    """A call as far as it has arrived."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Return whether the arguments are a complete JSON object."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


@dataclass
class CallCollector:
    """Collector of the calls of one reply.

    Pieces belong together by id where they have one, else by index. Endpoints that number all parallel calls 0, from 1,
    or not at all are recognised by a new id, or by a name behind a call that is complete.
    """

    calls: list[PartialCall] = field(default_factory=list)
    _by_index: dict[Any, PartialCall] = field(default_factory=dict)
    _by_id: dict[str, PartialCall] = field(default_factory=dict)
    _streamed: PartialCall | None = None
    """The call whose arguments were streamed last."""

    def take(self, piece: Mapping[str, Any]) -> str:
        """Add a piece; return it as text in which calls are written out, so that callers can stream them."""
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name") or "", to_text(function.get("arguments"))
        call = self._find(piece.get("index"), piece.get("id") or "", name, arguments)
        call.id = call.id or piece.get("id") or ""
        # A name comes whole, whole again with each piece, or in pieces before the arguments begin.
        if name != call.name and not call.arguments:
            call.name += name
        call.arguments += [arguments] if arguments else []
        for key, value in piece.items():
            if key not in ("index", "id", "type", "function") and value is not None:
                call.extras[key] = merge_field(call.extras.get(key), value)
        return self._write(call, arguments)

    def _find(self, index: Any, call_id: str, name: str, arguments: str) -> PartialCall:
        """Return the call to which a piece belongs, a new one if it begins one."""
        last = self.calls[-1] if self.calls else None
        known = self._by_id.get(call_id) if call_id else None
        if known is None and not call_id:
            known = self._by_index.get(index) if index is not None else last
            # Without ids, a name marks a new call where the one before is complete.
            if known is not None and name and arguments and known.is_whole:
                known = None
        elif known is None and index is not None:
            # The id may come behind the first piece.
            begun = self._by_index.get(index)
            known = begun if begun is not None and not begun.id else None
        if known is None:
            known = PartialCall()
            self.calls.append(known)
        if index is not None:
            self._by_index[index] = known
        if call_id:
            self._by_id[call_id] = known
        return known

    def _write(self, call: PartialCall, arguments: str) -> str:
        if not arguments:
            return ""
        if len(call.arguments) > 1:
            # Pieces of an earlier call after a later one has begun are left out of the stream: text cannot be inserted.
            # The completion's own calls have them.
            return arguments if self._streamed is call else ""
        tail = "" if self._streamed is None else WRITTEN_TAIL
        self._streamed = call
        return f"{tail}{written_head(call.name)}{arguments}"

    def finish(self) -> list[tuple[ToolCall, dict[str, Any]]]:
        """Return the calls that have a name, each with its opaque fields."""
        return [
            # Some endpoints send no id; results refer to their call by it.
            (ToolCall(call.id or f"call_{place}", call.name, "".join(call.arguments) or "{}"), call.extras)
            for place, call in enumerate(self.calls)
            if call.name
        ]


def to_text(arguments: Any) -> str:
    """Return a piece of arguments as text; some endpoints send an object."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)
