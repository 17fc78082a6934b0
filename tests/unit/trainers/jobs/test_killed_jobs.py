"""SFT and DPO as jobs that are killed: the next pod goes on from the object store, to the bit."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.trainers.jobs.ray_job import main
from fathom.transport.store import open_store
from tests.support.training.metrics import read_lines

STEPS = 9
KILLED = """
import json, os, signal, sys
from fathom.transport.store.folder import FolderStore
from fathom.trainers.algorithms import sft
from fathom.trainers.jobs import launch, ray_job

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def job(when, arguments, environ):
    put, told = FolderStore.put, ray_job.print_metrics

    async def put_or_die(store, key, *rest):
        # The fourth step's files are there, its manifest is not.
        die() if when == "saving" and "/00000004/manifest" in key else None
        return await put(store, key, *rest)

    def tell_or_die(step, total, metrics):
        told(step, total, metrics)
        die() if when == "stepping" and step == 5 else None

    FolderStore.put, ray_job.print_metrics = put_or_die, tell_or_die
    os._exit(ray_job.main(arguments, environ))

for wanted in json.loads(sys.argv[1]):  # all in one process that has imported what they need
    child = os.fork()
    if not child:
        job(*wanted)
    print("ended", os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
"""
"""Jobs that are killed after their fifth step, or while they save their fourth."""
CASES = {"sft": ("saving", 2), "dpo": ("stepping", 4)}
"""The step at which each is killed, and that of its last checkpoint."""


pytestmark = pytest.mark.usefixtures("one_thread")


def data(name: str) -> list[dict[str, Any]]:
    """Twelve rows, of two lengths, so that a pair's sums depend a little on the batch that it is in."""
    if name == "sft":
        return [
            {"id": f"r{n}", "token_ids": [2, 8 + n, 6, *[8 + n] * (1 + n % 2), 3], "loss_mask": [0, 0, 0] + [1] * (2 + n % 2)}
            for n in range(12)
        ]  # fmt: skip
    return [
        {"id": f"p{n}", "prompt_ids": [2, 8 + n, 6], "chosen_ids": [8 + n] * (1 + n % 3) + [3], "rejected_ids": [9, 3]}
        for n in range(12)
    ]


def arguments(name: str, output: Path) -> list[str]:
    words = ",".join(f"w{n}" for n in range(12))
    return [
        name, "data.train_files=[store:exports/rows.jsonl]", "data.train_batch_size=4", f"trainer.output={output}",
        "trainer.total_epochs=3", "trainer.save_freq=2", "trainer.val_before_train=false", "trainer.loggers=[jsonl]",
        "model.path=tiny", "model.hidden=16", "model.layers=1", f"model.vocabulary=[{words}]", "actor.optim.lr=0.01",
        "actor.optim.lr_scheduler_type=cosine", "actor.ppo_micro_batch_size_per_gpu=4",
    ]  # fmt: skip


def steps(said: str) -> list[int]:
    """Of the lines that a job writes."""
    return [json.loads(line)["step"] for line in said.splitlines() if line.startswith('{"step"')]


def checkpoints(store: Path) -> list[str]:
    """Steps of whole ones."""
    stored = asyncio.run(open_store(store.as_uri()).list("checkpoints/run/"))
    return [item.key.split("/")[-2] for item in stored if item.key.endswith("manifest.json")]


@pytest.fixture(scope="module")
def killed_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store per algorithm, in which a job was killed; its disk is gone."""
    folder = tmp_path_factory.mktemp("killed")
    jobs = []
    for name, (when, _) in CASES.items():
        environ = fill_store(folder / f"store-{name}", name)
        jobs.append((when, arguments(name, folder / f"pod-{name}" / "run"), environ))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(jobs)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.count(f"ended {int(signal.SIGKILL)}") == len(jobs), done.stderr
    for name in CASES:
        shutil.rmtree(folder / f"pod-{name}")
    return folder


def fill_store(store: Path, name: str) -> dict[str, str]:
    """Put the rows into a store; return the environment of a job that reads them."""
    lines = "\n".join(json.dumps(row) for row in data(name)).encode()
    asyncio.run(open_store(store.as_uri()).put("exports/rows.jsonl", lines))
    return {"FATHOM_RUNTIME_STORE_URL": store.as_uri()}


@pytest.mark.parametrize("name", CASES)
def test_a_killed_job_goes_on_on_another_disk_to_the_bit(
    killed_jobs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    store, left = killed_jobs / f"store-{name}", CASES[name][1]
    assert checkpoints(store) == [f"{step:08d}" for step in range(2, left + 1, 2)]
    other, straight = (tmp_path / place / "run" for place in ("other", "straight"))
    assert main(arguments(name, other), {"FATHOM_RUNTIME_STORE_URL": store.as_uri()}) == 0
    assert steps(capsys.readouterr().out) == list(range(left + 1, STEPS + 1)), "no step is done twice, none is left out"
    assert main(arguments(name, straight), fill_store(tmp_path / "store", name)) == 0
    assert steps(capsys.readouterr().out) == list(range(1, STEPS + 1))
    weights = [(output / "model" / "model.safetensors").read_bytes() for output in (other, straight)]
    assert weights[0] == weights[1]
    losses = [
        {step: metrics["train/loss"] for step, metrics in read_lines(output / "metrics.jsonl").items()}
        for output in (other, straight)
    ]
    assert set(losses[0]) >= set(range(left + 1, STEPS + 1))
    # Of the steps before the kill those are there that had been copied to the store; they are the same, too.
    assert losses[0].items() <= losses[1].items()
