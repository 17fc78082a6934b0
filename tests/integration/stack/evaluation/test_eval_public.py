"""``fathom eval public`` over the real stack: each question is asked beside its own passage, scored, not asked twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fathom.cli.records.public import Draw, run
from fathom.cli.records.set33 import Target
from fathom.clients import Clients
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
# A search shows the nearest sentences and never a whole passage, so that one sentence would be cut.
MORE = "It stands on a hill above the harbour and can be visited in summer."
QUESTIONS = {
    "p1": (
        "When was the lighthouse of Brandholm built?",
        "1871",
        f"The lighthouse of Brandholm was built in 1871. {MORE}",
    ),
    "p2": ("When was the windmill of Brandholm built?", "1902", f"The windmill of Brandholm was built in 1902. {MORE}"),
}


def write_set(folder: Path) -> None:
    (folder / "qed_nq").mkdir(parents=True)
    asked = [{"_id": f"q_{ident}", "text": text, "answers": [answer], "gold": [ident]}
             for ident, (text, answer, _) in QUESTIONS.items()]  # fmt: skip
    passages = [{"_id": ident, "title": "", "text": text} for ident, (_, _, text) in QUESTIONS.items()]
    for name, rows in (("queries", asked), ("corpus", passages)):
        (folder / "qed_nq" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


async def test_questions_are_answered_from_their_passages_and_scored_with_intervals(
    stack: tuple[Endpoints, Clients], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints, _ = stack
    write_set(tmp_path)
    draw, target = Draw("qed_nq", tmp_path, 10), Target(dict(endpoints.services), endpoints.gateway, "rules")
    # A thread: the command has an event loop of its own.
    assert await asyncio.to_thread(run, target, draw, tmp_path / "out") == 0
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "out/qed_nq/rules.jsonl").read_text().splitlines()]
    assert {row["item"]: row["answer"] for row in rows} == {"q_p1": "1871", "q_p2": "1902"}
    assert "100.0%   34.2% to 100.0%" in printed
    assert "first run of rules" in printed
    assert "lighthouse" in (tmp_path / "out/qed_nq/rules.html").read_text()
    # What has an answer is not asked again: a second question would fail without a planner.
    nowhere = Target({"planner": "grpc://127.0.0.1:9"}, "", "rules")
    assert await asyncio.to_thread(run, nowhere, draw, tmp_path / "out") == 0
    assert "not a first run" in capsys.readouterr().out


async def test_a_question_that_cannot_be_asked_is_named_and_no_run_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(tmp_path)
    nowhere = Target({"planner": "grpc://127.0.0.1:9"}, "", "rules")
    assert await asyncio.to_thread(run, nowhere, Draw("qed_nq", tmp_path, 10), tmp_path / "out") == 1
    assert "not asked: q_p1" in capsys.readouterr().err
    assert not (tmp_path / "out" / "first_runs.jsonl").exists()
