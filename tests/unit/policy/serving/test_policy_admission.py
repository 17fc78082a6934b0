"""Admission of generations: what they need, and what Prometheus sees of the queue."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fathom.core.admission import Admission, Claimant, Limits
from fathom.core.call import Lane
from fathom.core.errors import Overloaded
from fathom.domain.chat.messages import Message, Role, Sampling
from fathom.services.policy.config import RulesModel
from fathom.services.policy.metrics import AdmissionMetrics, PolicyMetrics
from fathom.services.policy.model import Request
from fathom.services.policy.serving.loaded_model import create_admission, estimate_tokens
from tests.support.waiting import settle


async def test_prometheus_sees_queue_tokens_and_pressure() -> None:
    registry = CollectorRegistry()
    # One place, one that may wait, 200 tokens: the third claimant is shed.
    admission = Admission("m", Limits(1, 1, 200), AdmissionMetrics("m", PolicyMetrics.register(registry)))
    first = await admission.acquire(Claimant(), 50)
    second = asyncio.create_task(admission.acquire(Claimant(Lane.TRAINING)))
    await settle()
    with pytest.raises(Overloaded):
        await admission.acquire(Claimant(Lane.TRAINING))
    text = generate_latest(registry).decode()
    # 50 of 200 tokens are a pressure of a quarter.
    for line in (
        'fathom_policy_tokens_in_flight{model="m"} 50.0',
        'fathom_policy_kv_pressure{model="m"} 0.25',
        'fathom_policy_running{model="m"} 1.0',
        'fathom_policy_waiting{lane="training",model="m"} 1.0',
        'fathom_policy_shed_total{lane="training",model="m"} 1.0',
    ):
        assert line in text
    first.release()
    (await second).release()
    assert 'fathom_policy_tokens_in_flight{model="m"} 0.0' in generate_latest(registry).decode()


def test_what_a_generation_needs() -> None:
    request = Request("r", "m", (Message(Role.USER, "x" * 300),), sampling=Sampling(max_tokens=50))
    config = RulesModel()
    # 300 ASCII characters are estimated as 100 tokens, and 50 may be sampled.
    assert estimate_tokens(request, config, 10_000) == 150
    longer = replace(request, context_token_ids=(1,) * 500, context_messages=1)
    longer = replace(longer, messages=(Message(Role.ASSISTANT, "y"), Message(Role.USER, "x" * 30)))
    # 500 known ids, 10 new ones and 50 to sample: what is known is counted, not estimated.
    assert estimate_tokens(longer, config, 10_000) == 560
    # Never more than the model's window, or a long request could never be admitted.
    assert estimate_tokens(request, config, 100) == 100


@pytest.mark.parametrize(
    ("config", "most"),
    [
        (RulesModel(running=8), 7),
        (RulesModel(running=9), 7),
        (RulesModel(running=2), 1),
        # The only place is everybody's.
        (RulesModel(running=1), 0),
        (RulesModel(running=8, reserve_s=0), 0),
    ],
)
def test_how_many_places_of_a_model_are_kept_for_people(config: RulesModel, most: int) -> None:
    assert create_admission("m", config).limits.most_reserved == most
