"""Retries of a client: each lane has a budget of its own, and a notice in a stream is no response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients.services import PolicyClient
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import DependencyFailed
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from tests.support.clock import simulate_time

QUICK = RetryPolicy(attempts=3, first_delay_s=0.001, max_delay_s=0.002)


class Failing:
    """A transport whose calls fail in the training lane always, and else every first time."""

    def __init__(self) -> None:
        self.calls = 0

    async def unary(self, method: Any, request: Any, call: Call) -> Any:
        self.calls += 1
        # Everything of training fails; of a person's calls every first attempt does.
        if call.lane is Lane.TRAINING or self.calls % 2:
            raise DependencyFailed("policy", "is down")
        return method.response_type()


@simulate_time
async def test_a_flood_of_training_leaves_people_their_retries() -> None:
    transport = Failing()
    client = PolicyClient(transport, Telemetry("test", log_level="critical"), policy=QUICK)  # type: ignore[arg-type]
    with calling(Call.new(lane=Lane.TRAINING)):
        for _ in range(60):
            with pytest.raises(DependencyFailed):
                await client.list_models(pb.ListModelsRequest())
    # Each of the 60 might be tried three times; the budget of retries ends long before.
    assert transport.calls < 60 * 3, "the retries of training are spent"
    transport.calls = 0
    with calling(Call.new(lane=Lane.INTERACTIVE)):
        await client.list_models(pb.ListModelsRequest())
    # The first attempt failed and was retried: training had not used up the people's budget.
    assert transport.calls == 2


class Interrupted:
    """A transport whose first stream breaks off behind ``begins``; the others are whole."""

    def __init__(self, begins: pb.GenerateResponse) -> None:
        self._begins, self.calls = begins, 0

    async def stream(self, method: Any, requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        self.calls += 1
        yield self._begins
        if self.calls == 1:
            raise DependencyFailed("policy", "is down")
        yield pb.GenerateResponse(completion=pb.Completion(text="so"))


@simulate_time
async def test_a_generation_that_only_waited_for_its_place_is_asked_for_again() -> None:
    notice = Interrupted(pb.GenerateResponse(wait=pb.GenerationWait()))
    client = PolicyClient(notice, Telemetry("test", log_level="critical"), policy=QUICK)  # type: ignore[arg-type]
    responses = [response async for response in client.generate(pb.GenerateRequest(model="m"))]
    assert (responses[-1].completion.text, notice.calls) == ("so", 2)
    text = Interrupted(pb.GenerateResponse(delta=pb.GenerateDelta(text="s")))
    client = PolicyClient(text, Telemetry("test", log_level="critical"), policy=QUICK)  # type: ignore[arg-type]
    with pytest.raises(DependencyFailed):
        [response async for response in client.generate(pb.GenerateRequest(model="m"))]
    assert text.calls == 1, "a reader must not get the same text twice"
