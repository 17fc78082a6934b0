"""The job against the real stack: stopped by SIGTERM it leaves a checkpoint, started again it goes on from there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.services.local import Endpoints
from tests.support.training.metrics import read_lines

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo.yaml"
SMALL = [
    "trainer.use_ray=false", "model.name=tiny-job", "model.hidden=16", "model.layers=1", "data.train_batch_size=2",
    "rollout.n=2", "actor.ppo_mini_batch_size=2", "actor.ppo_epochs=1", "trainer.save_freq=100", "trainer.test_freq=0",
    "trainer.val_before_train=false", "trainer.total_training_steps=6",
]  # fmt: skip


async def job(
    endpoints: Endpoints, output: Path, *more: str, stop_after: int = 0
) -> tuple[int, list[dict[str, Any]], str]:
    """(exit status, the steps' lines, stderr); SIGTERM after ``stop_after`` lines."""
    environ = os.environ | {
        "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(endpoints.services)), "FATHOM_RUNTIME_STORE_URL": endpoints.store,
        "FATHOM_TRAIN_CONFIG": str(EXAMPLE), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fathom.trainers.jobs.ray_job", "grpo", *SMALL, f"trainer.output={output}", *more,
        env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=1 << 22,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    steps = []
    async for line in process.stdout:
        if line.startswith(b'{"step"'):
            steps.append(json.loads(line))
            if stop_after and len(steps) == stop_after:
                process.send_signal(signal.SIGTERM)
    said = (await process.stderr.read()).decode()
    return await process.wait(), steps, said


async def test_sigterm_leaves_a_checkpoint_and_the_next_job_goes_on(stack: Stack, tmp_path: Path) -> None:
    endpoints, clients = stack
    output = tmp_path / "job-stopped"
    status, first, said = await job(endpoints, output, stop_after=2)
    assert status == 143, said
    assert "its checkpoint is written" in said
    reached = first[-1]["step"]
    assert 2 <= reached < 6
    status, then, said = await job(endpoints, output)
    assert status == 0, said
    assert [line["step"] for line in then] == list(range(reached + 1, 7)), "no step is done twice, none is left out"
    assert list(read_lines(output / "metrics.jsonl")) == list(range(1, 7))
    model = (await clients.policy.get_model(policy.GetModelRequest(model="tiny-job"))).model
    versions = 2 * 1 + 6  # each job serves what it begins with, then one version per step
    assert model.policy_version == versions
    assert (output / "report.html").exists()

    status, replayed, said = await job(
        endpoints, tmp_path / "job-replayed", f"rollout.replay={output / 'rollouts'}", "trainer.resume_mode=disable"
    )
    assert status == 0, said
    for one, other in zip([*first, *then], replayed, strict=True):
        for name in ("actor/pg_loss", "critic/score/mean", "actor/grad_norm", "actor/entropy"):
            assert one[name] == pytest.approx(other[name], rel=1e-6), "the run that was stopped is the run that was not"


async def test_a_contract_error_ends_the_job_for_good_and_names_the_field(stack: Stack, tmp_path: Path) -> None:
    endpoints, _ = stack
    status, steps, said = await job(endpoints, tmp_path / "job-wrong", "reward.grader=nope")
    assert (status, steps) == (2, []), said
    assert "field=items[0].grader" in said
