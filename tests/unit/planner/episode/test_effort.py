"""Limits of a run: by its effort, its budget, its model and the server's caps."""

from __future__ import annotations

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Usage
from fathom.services.planner.config import Config
from fathom.services.planner.model.effort import Asked, Effort, EffortProfile, ModelProfile
from fathom.services.policy.config import RulesModel
from tests.unit.planner.house import House, finish


def limits(config: Config, asked: Asked, model: str = "m") -> EffortProfile:
    return config.grant(asked, model).limits


def test_a_run_without_wishes_has_the_limits_that_it_always_had() -> None:
    found = limits(Config(), Asked())
    assert (found.max_rounds, found.max_tokens, found.max_run_ms, found.window_tokens) == (20, 200_000, 180_000, 40_000)
    assert found.reasoning_effort == ""


def test_each_effort_takes_more_than_the_one_before() -> None:
    quick, standard, deep = (limits(Config(), Asked(effort)) for effort in Effort)
    # What a user buys with patience: rounds, tokens and time all grow.
    for name in ("max_rounds", "max_tokens", "max_run_ms"):
        assert getattr(quick, name) < getattr(standard, name) < getattr(deep, name), name
    assert (quick.reasoning_effort, deep.reasoning_effort) == ("low", "high")
    assert standard.completion_tokens == 0, "the model's own, which policy knows"
    assert deep.completion_tokens >= 16_000, "a thinking model needs room for its thought"


def test_the_reference_policy_whose_tokens_are_bytes_has_a_window_of_its_own() -> None:
    for effort in Effort:
        assert limits(Config(), Asked(effort), "rules").window_tokens == RulesModel().window_tokens
    # A window that somebody sets is meant for every model, and a profile of that name for this one.
    assert limits(Config(window_tokens=24_000), Asked(), "rules").window_tokens == 24_000
    own = ModelProfile(efforts={Effort.STANDARD: EffortProfile(window_tokens=50_000)})
    assert limits(Config(model_profiles={"rules": own}), Asked(), "rules").window_tokens == 50_000


def test_a_budget_goes_before_the_effort_up_to_the_deepest_one() -> None:
    # Thirty rounds are more than "quick" has and less than "deep"; 10^9 ms is more than anybody gets.
    granted = Config().grant(Asked(Effort.QUICK, max_rounds=30, max_run_ms=10**9), "m")
    assert (granted.limits.max_rounds, granted.limits.max_run_ms) == (30, 900_000)
    assert granted.capped == ("max_run_ms: 1,000,000,000 asked, 900,000 allowed",)


def test_a_limit_that_the_server_sets_caps_every_effort_and_says_so() -> None:
    granted = Config(max_rounds=10).grant(Asked(Effort.DEEP), "m")
    # Ten by the server's own setting: the answer says that more was asked.
    assert granted.limits.max_rounds == 10
    assert granted.capped == ("max_rounds: 60 asked, 10 allowed",)
    assert Config(max_rounds=3).grant(Asked(), "m").capped == (), "nobody asked for the default"
    assert limits(Config(max_run_ms=1_800_000), Asked()).max_run_ms == 1_800_000


def test_a_model_may_have_limits_and_prices_of_its_own() -> None:
    slow = ModelProfile(
        efforts={Effort.STANDARD: EffortProfile(max_run_ms=600_000)}, completion_price=8.0, cached_price=0.5
    )
    config = Config(model_profiles={"slow": slow}, prompt_price=2.0, completion_price=4.0)
    assert limits(config, Asked(), "slow").max_run_ms == 600_000
    assert limits(config, Asked(), "slow").max_rounds == 20
    assert limits(config, Asked(), "other").max_run_ms == 180_000
    usage = Usage(1_000_000, 1_000_000, 400_000)
    # 600,000 uncached at 2, 400,000 cached at 0.5, a million sampled at 8, each per million.
    assert config.prices("slow").cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 8)
    assert config.prices("other").cost(usage) == pytest.approx(2 + 4)
    assert config.prices("other").cost(Usage(5, 5, cost=0.25)) == 0.25, "policy knows the model's own prices"


async def test_a_run_says_its_effort_and_what_the_server_has_capped() -> None:
    house = House(finish("Done."), max_rounds=10)
    await house.ask(effort=pb.EFFORT_DEEP)
    async with house.working():
        started = (await house.events())[0].started
    assert (started.effort, list(started.capped)) == (pb.EFFORT_DEEP, ["max_rounds: 60 asked, 10 allowed"])


async def test_an_unknown_effort_is_named() -> None:
    with pytest.raises(InvalidField, match="effort: 9 is no effort"):
        await House(finish("Done.")).ask(effort=9)


async def test_the_accounting_of_a_run_has_its_cost() -> None:
    house = House(finish("Done."), prompt_price=1_000.0, completion_price=2_000.0)
    await house.ask()
    async with house.working():
        usage: common.Usage = (await house.events())[-1].finished.usage
    # 10 at 1,000 and 5 at 2,000 per million tokens: 0.01 + 0.01.
    assert usage.cost == pytest.approx(0.02), "10 prompt and 5 sampled tokens"
