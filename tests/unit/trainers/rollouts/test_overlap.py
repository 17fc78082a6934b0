"""Sampling ahead of time is worth it: figures in simulated time, which hold on any machine."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fathom.trainers.config import load_config
from fathom.trainers.rollouts.source import count_ahead
from tests.bench.trainers.rollouts import LEARN_S, measure, sampling_alone_s
from tests.support.clock import SimulatedLoopThread
from tests.unit.trainers.rollouts.scripted_planner import ScriptedPlanner
from tests.unit.trainers.rollouts.test_rollouts import prompts, source

# 25 steps: the first few, with nothing sampled ahead yet, then count for little.
STALENESS, STEPS = 4, 25


def test_ahead_of_time_is_twice_as_fast_as_a_barrier_within_the_bound() -> None:
    barrier, ahead = (measure(1, staleness, LEARN_S, STEPS) for staleness in (0, STALENESS))
    assert barrier.age == 0
    assert 0 < ahead.age <= STALENESS, "strictly, for each sample"
    assert ahead.step_s * 2 < barrier.step_s


@pytest.mark.parametrize("share", [1.0, 2.0])
def test_sampling_and_learning_overlap_to_nine_tenths_of_the_ideal(share: float) -> None:
    """The ideal step takes as long as the slower of the two alone, without any group begun anew."""
    sampling = sampling_alone_s()
    found = measure(1, STALENESS, share * sampling, STEPS)
    assert max(1.0, share) * sampling / found.step_s >= 0.9


def test_with_a_bound_of_one_another_batch_keeps_the_places_busy_while_long_groups_end() -> None:
    sampling = sampling_alone_s()
    usual, more = (measure(1, 1, sampling, STEPS, ahead) for ahead in (0, 2))
    assert 0 < more.age <= 1, "strictly, for each sample"
    assert more.step_s * 1.15 < usual.step_s


@pytest.mark.parametrize(
    ("overrides", "batches"),
    [
        (("rollout.mode=async", "rollout.staleness=2"), 2),
        (("rollout.mode=async", "rollout.staleness=2", "rollout.ahead=3"), 3),
        (("rollout.mode=async", "rollout.ahead=3"), 0),
        (("rollout.ahead=3",), 0),
    ],
)
def test_batches_ahead_are_those_that_old_weights_may_sample(overrides: tuple[str, ...], batches: int) -> None:
    assert count_ahead(load_config(overrides=list(overrides)).rollout) == batches


def test_a_straggler_holds_one_place_and_not_its_groups() -> None:
    """Four places, groups of two: while one episode of the first is long, three others are played beside it."""
    most, now = 0, 0

    def duration(uid: str, sample: int) -> float:
        # p0's first episode outlasts all the others together.
        return 100.0 if (uid, sample) == ("p0", 0) else 1.0

    planner = ScriptedPlanner(duration)
    with SimulatedLoopThread() as bridge:
        overrides = ["rollout.mode=async", "rollout.staleness=2", "rollout.n=2", "rollout.concurrency=4"]
        rollouts = source(planner, cast(Any, bridge), load_config(overrides=overrides))
        episode = planner.episode

        async def count_running(*arguments: Any) -> Any:
            nonlocal most, now
            now += 1
            most = max(most, now)
            try:
                return await episode(*arguments)
            finally:
                now -= 1

        cast(Any, planner).episode = count_running
        rollouts.submit(prompts(0, 8))
        bridge.pass_time(2.5)
        # Simulated time: two waves of one-second episodes have ended, and the third is halfway.
        assert most == 4, "no more than there are places"
        assert now == 3, "the straggler has one place, one group two; the fourth waits for a whole group's places"
        # Two groups in the first second; from then on one at a time beside the straggler.
        assert len({uid for uid, _, _ in planner.played}) == 4
        bridge.pass_time(10.0)
        assert len({uid for uid, _, _ in planner.played}) == 8
        rollouts.close()
