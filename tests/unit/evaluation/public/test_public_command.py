"""``fathom eval public`` against services that are named by their addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.cli import evaluate
from fathom.cli.records import public
from fathom.cli.records.set33 import Target
from fathom.core.errors import InvalidField

PLANNER, POLICY = "grpc://planner:1", "grpc://policy:2"


@pytest.mark.parametrize("name", ["bull", "defog_sql"])
def test_statements_are_asked_of_the_policy_service_that_is_named_beside_a_planner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    asked: list[Target] = []

    def run(target: Target, draw: public.Draw, output: Path) -> int:
        asked.append(target)
        return 0

    monkeypatch.setattr(public, "run", run)
    arguments = ["public", name, "--planner", PLANNER, "--output", str(tmp_path), "--model", "tiny"]
    refused = CliRunner().invoke(evaluate.app, arguments)
    assert isinstance(refused.exception, InvalidField)
    assert refused.exception.message == (
        f"policy: is needed with --planner: the questions of {name} are put to a model itself"
    )
    assert CliRunner().invoke(evaluate.app, [*arguments, "--policy", POLICY]).exit_code == 0
    assert [one.endpoints["policy"] for one in asked] == [POLICY]
