"""Test what the soak makes of its samples: single peaks are no growth, a leak is one, and what is held is counted."""

from __future__ import annotations

import json
import random
from collections import deque
from pathlib import Path

import pytest

from tests.bench.soak.inside import write_held
from tests.bench.soak.slopes import compute_growth

HOURS = [number / 100 for number in range(100)]


def make_levels(per_hour: float) -> list[float]:
    """Return levels around 500 that grow so much per hour, with noise and, now and then, a peak."""
    noise = random.Random(3)
    return [
        500 + per_hour * at + noise.gauss(0, 5) + (300 if number % 17 == 0 else 0) for number, at in enumerate(HOURS)
    ]


def test_peaks_are_no_growth() -> None:
    found = compute_growth(HOURS, make_levels(0))
    assert found.is_flat(0.1)
    assert not found.is_growing(0.1)


@pytest.mark.parametrize("per_hour", [100, 200])
def test_a_leak_below_the_peaks_is_seen_with_its_size(per_hour: float) -> None:
    found = compute_growth(HOURS, make_levels(per_hour))
    assert found.is_growing(0.1)
    assert found.low < per_hour / found.level < found.high


def test_a_level_that_never_moves_is_flat_also_where_times_repeat() -> None:
    stalled = [HOURS[max(0, number - 60)] for number in range(100)]
    assert compute_growth(stalled, [24.0] * 100).is_flat(0.1)


def test_few_samples_leave_it_undecided() -> None:
    found = compute_growth(HOURS[:4], [500, 520, 490, 530])
    assert not found.is_flat(0.1)
    assert not found.is_growing(0.1)


def test_what_a_service_holds_is_counted_by_class_and_attribute(tmp_path: Path) -> None:
    kind = type("Holder", (), {"__module__": "fathom.services.example", "__slots__": ("waiting", "__dict__")})
    holders = [kind(), kind()]
    for holder in holders:
        holder.waiting, holder.cache = deque([1, 2, 3]), {"a": 1}
    write_held("example", tmp_path)
    held = json.loads((tmp_path / "example.0.json").read_text())
    assert held["entries"]["fathom.services.example.Holder.waiting"] == 6
    assert held["entries"]["fathom.services.example.Holder.cache"] == 2
    assert held["malloc"]["given out"] > 0
    assert held["lasting"]["threads"] >= 1
