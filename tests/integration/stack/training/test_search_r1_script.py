"""Search-R1's script, from settings to checkpoint and validation score, on a CPU with a tiny model."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients, connect
from fathom.services.local import Endpoints
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.commands.local_run import stack as open_stack
from fathom.transport.store import open_store
from tests.integration.stack.conftest import MODELS, prepare
from tests.support.training.metrics import read_lines

ROOT = Path(__file__).parents[4]
SCRIPT = ROOT / "trainers" / "search_r1" / "train_ppo.sh"
TINY = (
    "model.path=tiny", "model.name=search-r1-script", "data.train_batch_size=4", "rollout.n=2", "rollout.max_turns=1",
    "rollout.max_tokens=4", "rollout.system_prompt=answer", "actor.ppo_mini_batch_size=4",
    "critic.ppo_mini_batch_size=4", "model.hidden=32", "model.layers=1", "trainer.total_training_steps=2",
    "trainer.test_freq=1", "trainer.save_freq=1",
)  # fmt: skip


async def run_script(home: Path, output: Path, *more: str) -> str:
    """Run the script to its end and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        "sh", str(SCRIPT), "--home", str(home), *TINY, f"trainer.output={output}", *more, cwd=ROOT,
        env=os.environ | {"PYTHON": sys.executable, "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed[-4000:]
    return printed


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="package")
async def test_two_steps_from_settings_to_checkpoint(stack: tuple[Endpoints, Clients], tmp_path: Path) -> None:
    """The script configures, makes the parts, runs PPO with a critic, validates and saves; again, it goes on."""
    endpoints, _ = stack
    output = tmp_path / f"search-r1-{tmp_path.name}"
    (tmp_path / "endpoints.json").write_text(endpoints.to_json())
    assert "2 steps" in await run_script(tmp_path, output)
    settings = yaml.safe_load((output / "config.yaml").read_text())
    assert (settings["algorithm"]["adv_estimator"], settings["rollout"]["max_start_length"]) == ("gae", 2048)
    steps = read_lines(output / "metrics.jsonl")
    assert set(steps) == {0, 1, 2}
    assert "val/test_score" in steps[2]
    assert {"critic/vf_loss", "actor/pg_loss", "actor/reward_kl_penalty", "mismatch/prob_diff/max"} <= steps[2].keys()
    checkpoints = StoreCheckpoints(open_store(endpoints.store), endpoints.store, output.name)
    assert await asyncio.to_thread(checkpoints.load)
    await run_script(tmp_path, output, "trainer.total_training_steps=3")
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows][-1] == 3
    assert sum(row["step"] == 1 for row in rows) == 1, "a resume does not begin again"


@pytest.mark.asyncio(loop_scope="package")
async def test_a_training_without_a_stack_has_one_of_its_own(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATHOM_POLICY_MODELS", json.dumps(MODELS))
    home, console = prepare(tmp_path / "home", tables_dir, corpus_dir), Console(file=io.StringIO(), width=200)
    async with open_stack(home, console) as endpoints:
        clients = connect(endpoints.services)
        assert (await clients.planner.list_tools(pb.ListToolsRequest())).tools
        await clients.close()
        async with open_stack(home, console) as joined:
            assert joined.services == endpoints.services, "a second training joins it"
    assert console.file.getvalue().count("no stack is up: starting one for this training") == 1  # type: ignore[attr-defined]
    assert not (home / "endpoints.json").exists(), "it ends with the training"
