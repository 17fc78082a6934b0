"""Tokens and money of a request: reported in any dialect, else estimated from above."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.services.policy.backends.openai.usage import estimate_tokens
from tests.integration.policy.endpoints.asking import ANSWER, CALLS, model
from tests.support.endpoint import Reply


@pytest.mark.parametrize(
    "details",
    [
        {"prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 15}},
        {"prompt_cache_hit_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 15}},
        {"cached_tokens": 60, "reasoning_tokens": 15},
    ],
    ids=["OpenAI", "DeepSeek", "Kimi"],
)
async def test_cached_and_reasoning_tokens_are_counted(details: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, **details}
    prices = {"prompt": 2.0, "cached_prompt": 0.5, "completion": 10.0}
    async with model("bare", Reply(text="x", usage=usage), prices=prices) as far:
        found = (await far.ask()).completion.usage
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (100, 20, 60)
    assert (found.reasoning_tokens, found.estimated) == (15, False)
    assert found.cost == pytest.approx((40 * 2.0 + 60 * 0.5 + 20 * 10.0) / 1e6)


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0, "completion_tokens": 0}])
async def test_without_usage_tokens_are_estimated_so_that_budgets_bind(usage: dict[str, int]) -> None:
    async with model("bare", Reply(text="Apple rose by a third.", calls=CALLS.calls, usage=usage)) as far:
        found = (await far.ask()).completion.usage
    assert found.estimated
    assert found.prompt_tokens > 20
    assert found.completion_tokens > 12
    assert found.cost == 0.0


async def test_thoughts_count_where_they_are_not_reported() -> None:
    async with model("bare", Reply(reasoning="word " * 1_000, text="x", usage={})) as far:
        found = (await far.ask()).completion.usage
    assert 1_000 <= found.reasoning_tokens <= found.completion_tokens


@pytest.mark.parametrize(
    ("text", "fewest"),
    [
        # The fewest tokens are an estimate by judgement, not a tokenizer's count; tokenizers differ anyway.
        ("The maximum drawdown is the largest loss from a peak to a later trough.", 15),
        ("432.9% from 24.53 to 130.74 USD", 15),
        ("比较苹果和微软的最大回撤", 10),
        ("📈" * 5, 10),
    ],
)
def test_an_estimate_is_an_upper_one_and_of_the_right_size(text: str, fewest: int) -> None:
    assert fewest <= estimate_tokens(text) <= 3 * fewest


async def test_a_reply_in_tags_counts_like_any_other() -> None:
    async with model("minimax", ANSWER) as far:
        assert (await far.ask()).completion.usage.reasoning_tokens > 0
