"""SR01: Search-R1's script, from settings to checkpoint and validation score, on a CPU with a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.learning.toy import prepare

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "trainers" / "search_r1" / "train_ppo.sh"
TINY = (
    "model.path=tiny", "data.train_batch_size=4", "rollout.n=2", "rollout.max_turns=1", "rollout.max_tokens=4",
    "rollout.system_prompt=answer", "actor.ppo_mini_batch_size=4", "critic.ppo_mini_batch_size=4", "model.hidden=32",
    "model.layers=1", "trainer.total_training_steps=2", "trainer.test_freq=1", "trainer.save_freq=1",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sr01_two_steps_from_settings_to_checkpoint(tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> None:
    """SR01: the script configures, makes the parts, runs PPO with a critic, validates and saves; again, it goes on."""
    home, output = tmp_path / "home", tmp_path / "search-r1"
    prepare(home, tables_dir, corpus_dir)
    environ = {
        **os.environ, "PYTHON": sys.executable, "COLUMNS": "200",
        "FATHOM_POLICY_MODELS": json.dumps({"rules": {"engine": "rules"}}),
    }  # fmt: skip

    def run(*more: str) -> str:
        command = ["sh", str(SCRIPT), "--home", str(home), *TINY, f"trainer.output={output}", *more]
        done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    said = run()
    assert "2 steps" in said
    kept = yaml.safe_load((output / "config.yaml").read_text())
    assert (kept["algorithm"]["adv_estimator"], kept["rollout"]["max_start_length"]) == ("gae", 2048)
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert {row["step"] for row in rows} == {0, 1, 2}
    assert "val/test_score" in rows[-1]["metrics"]
    assert {"critic/vf_loss", "actor/pg_loss", "actor/reward_kl_penalty", "mismatch/prob_diff/max"} <= rows[-1][
        "metrics"
    ].keys()
    manifests = sorted((home / "store").rglob("checkpoints/search-r1/*/manifest.json*"))
    assert manifests, "a checkpoint is in the object store"
    run("trainer.total_training_steps=3")
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows][-1] == 3
    assert sum(row["step"] == 1 for row in rows) == 1, "a resume does not begin again"
