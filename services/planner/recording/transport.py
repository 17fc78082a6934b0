"""Transport that consults the current episode's recording; without one it only passes calls on."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fathom.clients.transport import Requests, Transport
from fathom.core.call import Call
from fathom.services.planner.recording.tape import Tape, current_tape
from fathom.transport.rpc.contract import Method

# What a request says about the play and not about what is asked.
PERSONAL = frozenset({"request_id", "run", "enforce_seen_by_run", "without_deltas"})
# Methods that only measure or describe: their results are cached across episodes, so that an episode makes them or not.
UNRECORDED = frozenset({"Tokenize", "Detokenize", "GetModel", "ListModels", "EncodeTexts", "CloseSession"})


class RecordedTransport:
    """Transport whose calls inside a recorded episode go through its tape."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    # Without a tape the inner transport's own coroutine or generator: no call pays for a recording that is not made.
    def unary(self, method: Method, request: Message, call: Call) -> Coroutine[Any, Any, Message]:
        tape = current_tape()
        if tape is None or method.name in UNRECORDED:
            return self._inner.unary(method, request, call)
        return self._play_unary(tape, method, request, call)

    async def _play_unary(self, tape: Tape, method: Method, request: Message, call: Call) -> Message:
        async def ask() -> Sequence[bytes]:
            return [(await self._inner.unary(method, request, call)).SerializeToString()]

        [result] = await tape.play(method.service, method.name, describe_request(request), ask)
        return method.response_type.FromString(result)

    def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        """Yield the responses; inside a recorded episode once all have come, since a recording holds whole results."""
        tape = current_tape()
        if tape is None or method.client_streaming or method.name in UNRECORDED:
            return self._inner.stream(method, requests, call)
        return self._play_stream(tape, method, requests, call)

    async def _play_stream(
        self, tape: Tape, method: Method, requests: Requests, call: Call
    ) -> AsyncGenerator[Message, None]:
        request = requests if isinstance(requests, Message) else await anext(requests)

        async def ask() -> Sequence[bytes]:
            async with aclosing(self._inner.stream(method, request, call)) as responses:
                return [response.SerializeToString() async for response in responses]

        for result in await tape.play(method.service, method.name, describe_request(request), ask):
            yield method.response_type.FromString(result)

    async def ready(self, service: str, timeout_s: float) -> None:
        await self._inner.ready(service, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def describe_request(request: Message) -> str:
    """Return a request as canonical text, without the ids of its play."""
    fields = MessageToDict(request, preserving_proto_field_name=True)
    asked = {name: value for name, value in fields.items() if name not in PERSONAL}
    return json.dumps(asked, sort_keys=True, ensure_ascii=False)
