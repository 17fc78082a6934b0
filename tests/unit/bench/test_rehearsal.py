"""Test what the rehearsal of killed parts calls a broken bound."""

from __future__ import annotations

from tests.bench.trainers.rehearsal import Result, Strike, find_differences, list_broken_bounds


def make_result(weights: str = "w", **changed: float) -> Result:
    """Return a pair of trainings of six steps; ``changed`` names metrics as ``training_step``."""
    lines = {
        name: {
            step: {"actor/loss": changed.get(f"{name}_{step}", float(step)), "mismatch/kl": 1e-3, "timing_s/step": 0.1}
            for step in range(1, 7)
        }
        for name in ("a", "b")
    }
    return Result({"a": weights, "b": "v"}, lines, 1.0, {"a": 1, "b": 1})


def make_strikes() -> list[Strike]:
    policy = Strike("policy", 2, {"a": 2, "b": 1}, 3.0, {"a": "0", "b": "1 (driver)"})
    return [policy, Strike("planner", 4, {"a": 4, "b": 4}, 3.0, {"a": "1 (learners)", "b": "0"})]


def test_trainings_that_end_alike_break_no_bound() -> None:
    strikes, struck = make_strikes(), make_result()
    for metrics in struck.lines["a"].values():
        # What depends on the clock, and the sampler's rounding.
        metrics["timing_s/step"] = 9.0
        metrics["mismatch/kl"] += 1e-7
    assert list_broken_bounds(strikes, find_differences(make_result(), struck, strikes)) == []


def test_a_metric_that_differs_is_said_of_the_part_that_was_killed_before_its_step() -> None:
    strikes = make_strikes()
    differences = find_differences(make_result(), make_result(a_3=0.5, b_2=0.5, b_6=0.5), strikes)
    assert [strike.differing for strike in strikes] == [2, 1]
    assert list_broken_bounds(strikes, differences) == [
        "policy: 2 metrics differ after it",
        "planner: 1 metrics differ after it",
        "a, step 3: actor/loss 3.0 and 0.5",
        "b, step 2: actor/loss 2.0 and 0.5",
        "b, step 6: actor/loss 6.0 and 0.5",
    ]


def test_other_weights_and_a_step_that_is_missing_are_differences() -> None:
    struck = make_result(weights="x")
    del struck.lines["b"][6]
    strikes = make_strikes()
    broken = list_broken_bounds(strikes, find_differences(make_result(), struck, strikes))
    assert broken[:2] == ["planner: 2 metrics differ after it", "a: weights"]


def test_more_than_the_step_under_way_done_again_breaks_the_bound() -> None:
    strikes = make_strikes()
    strikes[0].again["b"] = "2 (driver)"
    assert list_broken_bounds(strikes, []) == ["policy: b did 2 (driver) steps again"]
