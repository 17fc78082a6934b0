"""``fathom eval answers``: production's runs graded by the graders of training, over the real stack."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.cli.answers import Sample, format_table, grade_sample, list_means
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import InvalidField
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
ROOT = Path(__file__).resolve().parents[4]
# The stack is shared with other tests, whose runs may come first, and need no grades here.
SHARE, LIMIT = 0.02, 5_000
SEED = next(seed for seed in range(10_000) if Sample(SHARE, seed).takes("run-eval"))
OTHER = next(seed for seed in range(10_000) if not Sample(SHARE, seed).takes("run-eval"))
QUESTION = "Compare the price performance of Apple and Microsoft in 2019"


async def test_runs_are_graded_as_in_training_once(stack: Stack, tmp_path: Path) -> None:
    endpoints, clients = stack
    events = [event async for event in run(clients, pb.RunRequest(question=QUESTION, request_id="run-eval"))]
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    references = {QUESTION: ["Apple"]}
    graders = ["tool_steps", "code", "code_run", "sub_em", "em"]
    graded_rows, ungraded = await grade_sample(clients, graders, Sample(SHARE, SEED, LIMIT), references)
    rows = [row for row in graded_rows if row.run_id == "run-eval"]
    assert not [one for one in ungraded if one.run_id == "run-eval"]
    values = {row.grader: row.value for row in rows if not row.position}
    assert values["tool_steps"] == 1.0
    assert values["sub_em"] == 1.0
    assert values["em"] == 0.0
    # Run anew on its own sheets a cell earns what it earned then: the calculation, and the figure without a function.
    then, anew = ([row.value for row in rows if row.grader == grader] for grader in ("code", "code_run"))
    assert then == anew, [row.reason for row in rows]
    assert len(then) == 2
    assert max(then) > 0.4, [row.reason for row in rows]
    assert "tool_steps" in format_table(list_means(rows))
    with pytest.raises(InvalidField, match="'nope'"):
        await grade_sample(clients, ["nope"], Sample(), {})
    # The command itself, with a share that draws others and one that draws this run.
    command = [sys.executable, "-m", "fathom.cli.main", "eval", "answers", "--planner", endpoints.services["planner"], "--reward", endpoints.services["reward"], "--json", "--limit", str(LIMIT), "--share", str(SHARE)]  # fmt: skip
    for seed, expected in ((OTHER, 0), (SEED, 1)):
        process = await asyncio.create_subprocess_exec(
            *command, "--seed", str(seed), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 90)
        assert process.returncode == 0
        found = [json.loads(line) for line in out.decode().splitlines()]
        assert (
            len([row for row in found if row["run_id"] == "run-eval" and row["grader"] == "tool_steps"])
        ) == expected


async def test_the_stacks_own_judge_compares_two_answers(stack: Stack) -> None:
    """Reward asks policy for the role ``judge`` over the stack's own endpoints."""
    _, clients = stack
    pair = reward.Pair(question="What is CAGR?", left="CAGR is a yearly rate of growth, e.g. 12% [1].", right="No.")
    answer = await clients.reward.judge_pairs(reward.JudgePairsRequest(pairs=[pair]))
    assert answer.judgements[0].grade == reward.GRADE_GOOD
    assert answer.judge_version.startswith("rules@0/judge.pairwise.v1.en#")
