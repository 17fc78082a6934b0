"""``fathom eval public deep_research_bench`` over the real stack, with a scripted endpoint as the judge."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fathom.cli.records.public import Draw
from fathom.cli.records.research import run
from fathom.cli.records.set33 import Target
from fathom.clients import Clients
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.operations.evaluation.public.items import REPORT_SET
from fathom.services.local import Endpoints
from fathom.services.policy.config import Config
from fathom.services.policy.server import build
from tests.support.endpoint import FakeEndpoint, Reply, fake_endpoint
from tests.support.files.report_tasks import TASKS, write_tasks

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
NUMBERED = re.compile(r"^(\d+)\. ", re.MULTILINE)


def grade(body: dict[str, Any]) -> Reply:
    """Score every criterion 6, support every first statement of a source, and no other."""
    shown = body["messages"][-1]["content"]
    listed = NUMBERED.findall(shown.partition("# Report")[0].partition("# Statements")[2] or shown)
    if "# Statements" in shown:
        verdicts = [{"statement": int(n), "verdict": "supported" if n == "1" else "unsupported"} for n in listed]
        return Reply(text=json.dumps({"verdicts": verdicts}))
    count = len(NUMBERED.findall(shown.partition("# Criteria")[2].partition("# Report")[0]))
    return Reply(text=json.dumps({"scores": [{"criterion": n, "report": 6} for n in range(1, count + 1)]}))


@asynccontextmanager
async def serve_judge(script: list[Any]) -> AsyncIterator[tuple[str, FakeEndpoint]]:
    """Serve a policy service whose role ``judge`` is a model at a scripted endpoint; yield its URL and the endpoint."""
    runtime = Runtime(store_url="memory://", grace_s=0.1, log_level="error")
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(fake_endpoint("deepseek", script))
        config = Config.model_validate({"models": {"critic": endpoint.settings()}, "default_model": "critic"})
        deps = await stack.enter_async_context(dependencies("policy", runtime))
        hosted = await stack.enter_async_context(hosting(build(config, deps), deps, runtime))
        await hosted.warm
        yield hosted.url, endpoint


def aim(stack: Stack, policy: str = "") -> Target:
    """Return the stack's planner with another policy service as the judge's, by default its own."""
    services = dict(stack[0].services)
    return Target({**services, "policy": policy or services["policy"]}, stack[0].gateway, "rules")


async def test_reports_are_made_and_graded_by_their_criteria_and_citations(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tasks(tmp_path)
    draw, out = Draw(REPORT_SET, tmp_path, 10), tmp_path / "out"
    # A thread: the command has an event loop of its own.
    assert await asyncio.to_thread(run, aim(stack), draw, out, "judge") == 0
    alone = capsys.readouterr().out
    assert "no judge ('judge' is the reference policy" in alone
    assert "race" not in alone
    reports = [json.loads(line) for line in (out / REPORT_SET / "rules.jsonl").read_text().splitlines()]
    assert {row["item"] for row in reports} == {"1", "2"}
    assert all(row["sources"] and not row["fault"] for row in reports), reports
    assert re.search(r"all +resolved +2 +100\.0%", alone)

    async with serve_judge([grade]) as (url, endpoint):
        assert await asyncio.to_thread(run, aim(stack, url), draw, out, "judge") == 0
        printed = capsys.readouterr().out
        asked = len(endpoint.requests)
        # What is made and graded is not paid for again.
        assert await asyncio.to_thread(run, aim(stack, url), draw, out, "judge") == 0
        assert len(endpoint.requests) == asked
    assert "judge: critic" in printed
    assert "no reference reports" in printed
    for measure in ("race", "insight", "readability"):
        assert re.search(rf"all +{measure} +2 +60\.0%", printed), printed
    assert "first run of rules, judge critic" in printed
    gradings = [json.loads(line) for line in (out / REPORT_SET / "rules.by.critic.jsonl").read_text().splitlines()]
    sources = {row["item"]: row["sources"] for row in reports}
    # One statement of each source that is cited in a sentence.
    assert all(0 < row["figures"]["effective"] <= len(sources[row["item"]]) for row in gradings)
    page = (out / REPORT_SET / "rules.html").read_text(encoding="utf-8")
    assert TASKS[0]["prompt"] in page
    assert "race 60.0%" in page


async def test_a_report_that_cannot_be_graded_is_named_and_graded_by_the_next_call(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tasks(tmp_path)
    draw, out = Draw(REPORT_SET, tmp_path, 1), tmp_path / "out"
    async with serve_judge([Reply(text="I would rather not.")]) as (url, endpoint):
        assert await asyncio.to_thread(run, aim(stack, url), draw, out, "critic") == 1
        # The judge was shown once what was wrong with its reply.
        assert "cannot be read" in endpoint.requests[1].body["messages"][-1]["content"]
    said = capsys.readouterr()
    assert "not graded" in said.err
    assert "there is no JSON object" in said.err
    assert "race" not in said.out
    assert not (out / "first_runs.jsonl").exists()
    async with serve_judge([grade]) as (url, _):
        assert await asyncio.to_thread(run, aim(stack, url), draw, out, "critic") == 0
    assert re.search(r"all +race +1 +60\.0%", capsys.readouterr().out)


async def test_a_report_that_cannot_be_asked_for_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tasks(tmp_path)
    nowhere = Target({"planner": "grpc://127.0.0.1:9"}, "", "rules")
    assert await asyncio.to_thread(run, nowhere, Draw(REPORT_SET, tmp_path, 1), tmp_path / "out", "judge") == 1
    assert "not asked: " in capsys.readouterr().err
