"""Report of the bench of restarts with kills, and without."""

from __future__ import annotations

from tests.bench.data_restarts import describe_kills


def test_a_service_that_nobody_kills_has_no_times() -> None:
    assert describe_kills("datafetch", [], []) == "datafetch: not killed"
    assert "2 kills" in describe_kills("datafetch", [1.0, 3.0], [0.5, 0.7])
    assert "after 2.0 s (most 3.0), 0.6 s" in describe_kills("datafetch", [1.0, 3.0], [0.5, 0.7])
