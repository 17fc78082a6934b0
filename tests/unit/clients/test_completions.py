"""Reading a generation to its end: its stream is closed with the completion, by an error and without one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.errors import DependencyFailed, InvalidField

DELTA = pb.GenerateResponse(delta=pb.GenerateDelta(text="4"))
COMPLETION = pb.GenerateResponse(completion=pb.Completion(text="42"))


class RecordedPolicy:
    """Replays the responses of a generation, and notes when its stream is closed."""

    def __init__(self, *responses: pb.GenerateResponse) -> None:
        self._responses, self.is_closed = responses, False

    async def generate(
        self, request: pb.GenerateRequest, *, timeout_s: float
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        try:
            for response in self._responses:
                yield response
        finally:
            self.is_closed = True

    @property
    def clients(self) -> Clients:
        return cast("Clients", SimpleNamespace(policy=self))


async def test_the_stream_is_closed_as_soon_as_the_completion_is_there() -> None:
    policy, heard = RecordedPolicy(DELTA, COMPLETION, DELTA), list[str]()
    text = await read_completion(policy.clients, pb.GenerateRequest(), lambda one: str(one.text), heard.append)
    assert (text, heard, policy.is_closed) == ("42", ["4"], True)


async def test_the_stream_is_closed_when_the_completion_is_no_reply() -> None:
    def refuse(completion: pb.Completion) -> Any:
        raise InvalidField("completion", "is no reply")

    policy = RecordedPolicy(COMPLETION, DELTA)
    with pytest.raises(InvalidField):
        await read_completion(policy.clients, pb.GenerateRequest(), refuse)
    assert policy.is_closed


async def test_a_stream_without_a_completion_is_a_failure_of_policy() -> None:
    with pytest.raises(DependencyFailed, match="without a completion"):
        await read_completion(RecordedPolicy(DELTA).clients, pb.GenerateRequest(), lambda one: one)
