"""A servicer for any domain of the contract: it answers every RPC with a sample of its response type.

What it does is chosen by the tenant of the call, so that every RPC can be made to fail, wait or grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fathom.core.call import Call
from fathom.core.errors import InvalidField, NotFound, Overloaded
from fathom.transport.rpc.contract import Method, contract

STREAMED = 3
SAMPLES = {
    FieldDescriptor.CPPTYPE_STRING: "text",
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.5,
    FieldDescriptor.CPPTYPE_FLOAT: 0.5,
}


def sample(kind: type[Message], depth: int = 3) -> Message:
    """An instance with every scalar field set, and messages down to ``depth``."""
    return fill(kind(), kind.DESCRIPTOR, depth)  # type: ignore[arg-type]


def fill(message: Any, descriptor: Descriptor, depth: int) -> Any:
    for field in descriptor.fields:
        if field.containing_oneof is not None and field is not field.containing_oneof.fields[0]:
            continue
        if field.message_type is not None:
            if depth == 0 or field.message_type.GetOptions().map_entry or "google" in field.message_type.full_name:
                continue
            target = getattr(message, field.name)
            fill(target.add() if field.is_repeated else target, field.message_type, depth - 1)
            if not field.is_repeated:
                target.SetInParent()
            continue
        value = SAMPLES.get(field.cpp_type, 1)
        if field.type == FieldDescriptor.TYPE_BYTES:
            value = b"bytes"
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    return message


class Mirror:
    """See the module. ``seen`` has the calls, ``waiting`` and ``cancelled`` the methods that began to wait and were cut short."""

    def __init__(self, domain: str) -> None:
        self.seen: list[tuple[str, Message, Call]] = []
        self.waiting: asyncio.Queue[str] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        for method in contract(domain).methods.values():
            setattr(self, method.name, self._implementation(method))

    def _implementation(self, method: Method) -> Any:
        async def unary(request: Any, call: Call) -> Message:
            if method.client_streaming:
                request = [item async for item in request][-1]
            return await self._act(method, request, call)

        async def stream(request: Any, call: Call) -> AsyncIterator[Message]:
            for _ in range(STREAMED):
                yield await self._act(method, request, call)

        return stream if method.server_streaming else unary

    async def _act(self, method: Method, request: Message, call: Call) -> Message:
        self.seen.append((method.name, request, call))
        if call.tenant == "invalid":
            raise InvalidField("items[3].name", "is wrong")
        if call.tenant == "absent":
            raise NotFound("thing", "x", ["y", "z"])
        if call.tenant == "busy":
            raise Overloaded("too much", retry_after_s=0.25)
        if call.tenant == "broken":
            raise RuntimeError("a secret that must not leave the server")
        if call.tenant == "impatient":
            raise TimeoutError("a socket of its own, in /secret/place")
        if call.tenant == "slow":
            self.waiting.put_nowait(method.name)
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.put_nowait(method.name)
        return sample(method.response_type)
