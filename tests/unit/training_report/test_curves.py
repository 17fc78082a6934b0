"""Curves of any length on a page of bounded size: nothing that was extreme is lost on the way."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise

import pytest

from fathom.core.errors import CorruptData
from fathom.domain.training_report.curves import (
    MAX_NAMES,
    Curves,
    Series,
    reduce_curves,
    reduce_series,
    share_points,
)
from fathom.domain.training_report.samples import KEPT_STEPS, choose_shown, cut, is_due, surplus


def make_curves(values: list[float], name: str = "a") -> Curves:
    curves = Curves()
    for step, value in enumerate(values, 1):
        curves.add(step, {name: value})
    return curves


def test_a_short_curve_is_shown_as_it_is() -> None:
    found = reduce_curves(make_curves([0.5, 0.25, 1.0]), 400)
    assert found["steps"] == [[1, 2, 3]]
    assert found["series"]["a"] == {"x": 0, "y": [0.5, 0.25, 1.0]}
    assert found["summary"]["a"] == {
        "first": 0.5, "last": 1.0, "min": 0.25, "max": 1.0, "min_step": 2, "max_step": 3, "count": 3,
    }  # fmt: skip


@pytest.mark.parametrize("count", [401, 10_000, 12_345])
def test_a_long_curve_keeps_its_spikes_its_mean_and_its_end(count: int) -> None:
    chosen = random.Random(count)
    values = [chosen.gauss(0, 1) for _ in range(count)]
    values[count // 3], values[count // 2] = 50.0, -70.0
    steps, found = reduce_series(make_curves(values).series["a"], 400)
    assert len(steps) == len(found["y"]) <= 400
    assert (max(found["hi"]), min(found["lo"])) == (50.0, -70.0)
    assert all(low <= mean <= high for low, mean, high in zip(found["lo"], found["y"], found["hi"], strict=True))
    assert steps == sorted(set(steps))
    assert steps[-1] == count
    assert math.fsum(found["y"]) / len(steps) == pytest.approx(math.fsum(values) / count, abs=0.05)


def test_a_metric_of_every_hundredth_step_is_not_thinned_out() -> None:
    series = Series()
    for step in range(100, 10_001, 100):
        series.add(step, step / 100)
    steps, found = reduce_series(series, 400)
    assert (steps, found["y"]) == (list(range(100, 10_001, 100)), [float(value) for value in range(1, 101)])


def test_series_of_the_same_steps_share_them() -> None:
    curves = Curves()
    for step in range(1, 1_001):
        metrics = {f"m{number}": float(step) for number in range(50)}
        curves.add(step, metrics | ({"val/score": 1.0} if step % 100 == 0 else {}))
    found = reduce_curves(curves, 400)
    assert len(found["steps"]) == 2
    assert len(json.dumps(found)) < 50 * 400 * 3 * 9


def test_values_that_are_not_finite_are_named_and_not_drawn() -> None:
    curves = make_curves([1.0, float("nan"), float("inf"), 2.0])
    found = reduce_curves(curves, 400)
    assert found["not_finite"] == {"a": 2}
    assert found["series"]["a"]["y"] == [1.0, 2.0]
    json.dumps(found, allow_nan=False)


def test_a_training_that_goes_on_from_a_checkpoint_drops_what_was_after_it() -> None:
    curves = make_curves([1.0, 2.0, 3.0, 4.0, 5.0])
    curves.add(4, {"a": 40.0})
    assert list(curves.series["a"].values) == [1.0, 2.0, 3.0, 40.0]
    assert curves.last == 4
    # Begun anew altogether.
    curves.add(1, {"b": 1.0})
    assert list(curves.series) == ["b"]


def test_speed_and_tokens_are_known_of_every_training() -> None:
    curves = Curves()
    for step in (1, 2, 3):
        curves.add(step, {"state_tokens/total": 100.0, "timing_s/step": 4.0}, time=1_000.0 + step)
    assert list(curves.series["tokens"].values) == [100.0, 200.0, 300.0]
    assert list(curves.series["perf/tokens_per_s"].values) == [25.0] * 3
    assert list(curves.series["time"].values) == [1001.0, 1002.0, 1003.0]


def test_more_metrics_than_a_page_takes_are_named() -> None:
    curves = Curves()
    curves.add(1, {f"m{number:04}": 1.0 for number in range(MAX_NAMES + 3)})
    assert len(curves.series) == MAX_NAMES
    assert reduce_curves(curves, 400)["left_out"] == ["m0400", "m0401", "m0402"]


def test_lines_are_read_while_they_are_written() -> None:
    lines = [json.dumps({"step": step, "time": 1.0, "metrics": {"a": step}}) + "\n" for step in (1, 2, 3)]
    curves = Curves()
    assert curves.add_lines("m", lines[0] + lines[1] + lines[2][:10]) == 2
    # The same piece again, which has grown: what was read is skipped.
    assert curves.add_lines("m", "".join(lines), skip=2) == 3
    assert list(curves.series["a"].steps) == [1, 2, 3]
    with pytest.raises(CorruptData, match=r"m:2"):
        Curves().add_lines("m", lines[0] + "{}\n")
    with pytest.raises(CorruptData, match=r"m:1"):
        Curves().add_lines("m", "[]\n")


def test_points_are_shared_by_all_curves_of_a_page() -> None:
    assert share_points([["a"] * 60], 120_000, 400, 24) == 400
    assert share_points([["a"] * 400] * 12, 120_000, 400, 24) == 25
    assert share_points([], 120_000, 400, 24) == 400


@pytest.mark.parametrize("total", [1, 5, 63, 64, 200, 10_000])
def test_sampled_steps_are_few_and_even_at_every_moment(total: int) -> None:
    kept: list[int] = []
    for step in range(1, total + 1):
        if is_due(step, total):
            kept = [one for one in (*kept, step) if one not in surplus([*kept, step], step)]
        assert len(kept) <= KEPT_STEPS + 2
    assert {1, total} <= set(kept)
    gaps = [later - earlier for earlier, later in pairwise(kept)]
    assert max(gaps, default=0) <= max(1, total // 16)


def test_samples_after_a_resumed_step_are_dropped() -> None:
    assert surplus([1, 2, 3, 4, 5, 6], 4) == [5, 6]


def test_samples_that_fit_are_the_newest_the_first_and_even_between_them() -> None:
    sizes = [(step, 100) for step in range(1, 65)]
    assert choose_shown(sizes, 100) == [64]
    assert choose_shown(sizes, 450) == [1, 17, 33, 64]
    assert len(choose_shown(sizes, 1_650)) == 16
    assert choose_shown(sizes, 10**9) == [step for step, _ in sizes]
    assert choose_shown([], 100) == []


def test_a_long_response_keeps_its_beginning_and_its_end() -> None:
    values, left_out = cut(list(range(100_000)))
    assert left_out == {"at": 1_200, "count": 98_000}
    assert values[:1_200] == list(range(1_200))
    assert values[-1] == 99_999
    assert cut([1, 2]) == ([1, 2], None)
