"""Benchmarks are found by name, in whichever folder of ``tests/bench`` they lie."""

from __future__ import annotations

import os
import sys

import pytest

from tests.bench.__main__ import load_benches, main


def test_a_benchmark_is_found_by_its_own_name_in_any_folder() -> None:
    benches = load_benches(["stack", "losses", "house"])
    modules = {name: run.__module__ for name, run in benches.items()}
    assert modules == {
        "stack": "tests.bench.stack", "losses": "tests.bench.trainers.losses", "house": "tests.bench.house",
    }  # fmt: skip


def test_a_module_that_only_helps_is_no_benchmark() -> None:
    assert load_benches(["losses_loops", "nothing"]) == {}


def test_processes_of_a_benchmark_keep_what_they_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray's nodes did not start: their agents were still compiling when they should have been there."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["no-such-benchmark"]) == 2
    assert "unknown benchmark" in capsys.readouterr().out
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert not sys.dont_write_bytecode
