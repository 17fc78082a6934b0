"""Benchmarks are found by name, in whichever folder of ``tests/bench`` they lie."""

from __future__ import annotations

from tests.bench.__main__ import load_benches


def test_a_benchmark_is_found_by_its_own_name_in_any_folder() -> None:
    benches = load_benches(["stack", "losses", "house"])
    modules = {name: run.__module__ for name, run in benches.items()}
    assert modules == {
        "stack": "tests.bench.stack", "losses": "tests.bench.trainers.losses", "house": "tests.bench.house",
    }  # fmt: skip


def test_a_module_that_only_helps_is_no_benchmark() -> None:
    assert load_benches(["losses_loops", "nothing"]) == {}
