"""``fathom shadow`` over the real stack: both sides are played, compared, kept, and kept out of training."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.main import app
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.core.call import Call, calling
from fathom.services.local import Endpoints
from fathom.trainers.data.export.files import Wanted, read_trajectories
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "In which city are the headquarters of PepsiCo?"


async def test_a_question_is_mirrored_to_both_sides_once(stack: Stack, tmp_path: Path) -> None:
    endpoints, _ = stack
    (tmp_path / "endpoints.json").write_text(endpoints.to_json())
    # A tenant of its own: other tests' runs are not mirrored.
    clients, call = connect(endpoints.services, tenant="shadowed"), Call.new(tenant="shadowed")
    try:
        request = pb.RunRequest(request_id="shadow-run", question=QUESTION)
        assert [event async for event in run(clients, request)][-1].finished.answer.markdown

        def compare(threshold: float) -> Result:
            command = ["shadow", "compare", "rules", "rules", "--home", str(tmp_path), "--share", "1", "--tenant"]
            more = ["shadowed", "--grader", "tool_steps", "--least", "1", "--threshold", str(threshold)]
            return CliRunner().invoke(app, [*command, *more, "--report", str(tmp_path / "report.jsonl")])

        for _ in range(2):  # the second time from what was kept
            done = await asyncio.to_thread(compare, 0.5)
            # The reference policy beside itself: as good as itself, which decides nothing.
            assert done.exit_code == 3, done.output
            assert "0 wins, 1 ties, 0 losses, 0 not compared" in done.output
            assert "undecided" in done.output
        (line,) = (tmp_path / "report.jsonl").read_text().splitlines()
        assert json.loads(line)["run_id"] == "shadow-run"

        runs = (await clients.planner.list_runs(pb.ListRunsRequest())).runs
        assert [found.run_id for found in runs] == ["shadow-run"], "nothing of it is among the user's runs"
        with calling(call):
            store = TenantStore(open_store(endpoints.store))
            assert await store.keys("rollouts/shadow-"), "it was played as rollouts"
            found = [item.trajectory.run_id async for item in read_trajectories(store, Wanted("sft"))]
            assert found == ["shadow-run"], "which are no training data"
    finally:
        await clients.close()
