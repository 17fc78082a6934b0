"""Test that a trainer gets what was sampled, over random conversations; ``tests.bench identity`` plays a thousand."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from fathom.services.policy.backends.transformers import batch
from tests.integration.policy.conftest import Contender
from tests.integration.policy.identity import agreement, conversations

pytestmark = pytest.mark.asyncio(loop_scope="session")
exact = pytest.mark.parametrize(
    "contender", ["transformers", pytest.param("vllm", marks=pytest.mark.slow)], indirect=True
)


@exact
async def test_ids_and_log_probs_survive_the_conversation(
    contender: Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[int, list[int]] = defaultdict(list)
    draw: Any = getattr(batch, "sample")  # noqa: B009 - what the batch draws with

    def spy(log_probs: Any, sampling: Any, source: Any, grammar: Any) -> tuple[int, float]:
        token, log_prob = draw(log_probs, sampling, source, grammar)
        drawn[sampling.seed].append(token)
        return token, log_prob

    # What was drawn, told by the place that draws: the record cannot vouch for itself.
    monkeypatch.setattr(batch, "sample", spy)
    trajectories = await conversations(contender.engine, 80, 8)
    for trajectory in trajectories:
        own = [token for token, masked in zip(trajectory.ids, trajectory.mask, strict=True) if masked]
        assert own == [token for turn in trajectory.turns.values() for token in turn.sampled_token_ids]
        if contender.name == "transformers":
            assert own == [token for seed in trajectory.turns for token in drawn[seed]]
    found = await agreement(contender.engine, trajectories)
    assert found.greatest < 2e-3
    assert found.mean < 1e-4
    assert found.ambiguous > 20  # else the tokenizer would prove nothing
