"""``fathom eval set33`` over the real stack: questions asked with their attachments, scored, ranked, and not asked twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fathom.cli.records.set33 import Target, run
from fathom.clients import Clients
from fathom.core.errors import CorruptData
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
# One of bundled data, one with a table and one with a document of its own.
ITEMS = ["financial-05", "financial-11", "event-09"]


async def test_questions_are_asked_scored_and_ranked_with_the_references(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints, _ = stack
    target = Target(dict(endpoints.services), endpoints.gateway, "rules")
    # A thread: the command has an event loop of its own.
    assert await asyncio.to_thread(run, target, ITEMS, tmp_path, "pairwise", 0) == 0
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "answers" / "rules.jsonl").read_text().splitlines()]
    assert sorted(row["item"] for row in rows) == sorted(ITEMS)
    assert all(row["is_finished"] and row["answer"] for row in rows)
    # The reference policy computes what the comparison of two shares asks.
    [compared] = [row for row in rows if row["item"] == "financial-05"]
    assert "278.17" in compared["answer"]
    assert "reference" in printed
    assert all((tmp_path / name).exists() for name in ("rules.html", "ranking.html", "matches.jsonl"))
    assert len((tmp_path / "matches.jsonl").read_text().splitlines()) == len(ITEMS)
    # What has an answer is not asked again: the second call would fail without a planner.
    nowhere = Target({"planner": "grpc://127.0.0.1:9", "reward": endpoints.services["reward"]}, "", "rules")
    assert await asyncio.to_thread(run, nowhere, ITEMS, tmp_path, "", 0) == 0
    assert len((tmp_path / "answers" / "rules.jsonl").read_text().splitlines()) == len(ITEMS)


async def test_answers_of_another_form_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "answers" / "default.jsonl"
    path.parent.mkdir()
    path.write_text('{"question": "x"}\n', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"default\.jsonl:1"):
        await asyncio.to_thread(run, Target({}, ""), ITEMS, tmp_path, "", 0)
