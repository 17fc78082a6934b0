"""Every example of a training starts, steps, serves and keeps what it says: against the real stack, or from files."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.domain.training_report.reader import TrainingReader
from fathom.services.local import Endpoints
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.files import write_tasks
from fathom.trainers.jobs.launch import Interruption, Place, Run, fill_vocabulary
from fathom.trainers.jobs.registry import ALGORITHMS, load_settings
from fathom.trainers.learners.models import load_model
from fathom.trainers.prime import main_prime
from fathom.transport.store import open_store
from tests.support.training.metrics import read_lines
from tests.support.training.read_settings import keep_read

on_the_stack = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
EXAMPLES = Path(__file__).parents[4] / "examples" / "train"
SMALL = (
    "data.train_batch_size=2", "rollout.n=2", "actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2",
    "reward_model.mini_batch_size=2", "trainer.val_before_train=false", "trainer.test_freq=1000", "trainer.critic_warmup=0",
    "trainer.total_training_steps=1", "rollout.timeout_s=60", "brpo.references=1",
)  # fmt: skip


def settings(name: str, output: Path, *more: str) -> list[str]:
    return [
        *SMALL,
        f"trainer.output={output}",
        f"model.name=example-{name}",
        "model.hidden=16",
        "model.layers=1",
        *more,
    ]


def test_every_algorithm_has_an_example_that_names_its_own_command() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(ALGORITHMS)
    for name in ALGORITHMS:
        path = EXAMPLES / f"{name}.yaml"
        assert f"# fathom train {name} --config examples/train/{name}.yaml\n" in path.read_text()
        config = load_settings(name, [path], [])
        assert load_settings(name, [], [*overrides_of(config)]).to_yaml() == config.to_yaml(), "no setting is ignored"
    outputs = Counter(str(load_settings(name, [EXAMPLES / f"{name}.yaml"], []).trainer.output) for name in ALGORITHMS)
    assert max(outputs.values()) == 1, "none goes on from another's checkpoint"


def overrides_of(config: TrainConfig) -> list[str]:
    """The same settings, one by one."""
    sections: dict[str, dict[str, Any]] = config.model_dump(mode="json", by_alias=True)
    return [
        f"{section}.{key}={json.dumps(value)}" for section, found in sections.items() for key, value in found.items()
    ]


@on_the_stack
# grpo.yaml is test_train_job's; of the presets of its loop, those that draw again and that read the grader's components.
@pytest.mark.parametrize("name", ["ppo", "rloo", "search_r1", "brpo", "interpreter", "dapo", "gdpo"])
async def test_an_example_takes_its_first_step(
    stack: Stack, tmp_path: Path, tables_dir: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoints, clients = stack
    more, output = [], tmp_path / f"{name}-{tmp_path.name}"
    if name == "interpreter":
        write_tasks(Bundle(tables_dir.parent), tmp_path / "tasks", 8)
        more = [f"data.train_files={[str(tmp_path / 'tasks' / 'code' / 'train.parquet')]}"]
    config = load_settings(name, [EXAMPLES / f"{name}.yaml"], keep_read(name, settings(name, output, *more)))
    run = Run(name, config, Place(endpoints.services, endpoints.store), lambda *_: None, Interruption())
    outcome = await asyncio.to_thread(run.train)
    assert outcome.steps == 1
    [metrics] = read_lines(output / "metrics.jsonl").values()
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics["actor/grad_norm"] >= 0
    assert ("critic/vf_loss" in metrics) is (name in ("ppo", "search_r1"))
    if name == "search_r1":
        assert "[comparison] score" in capfd.readouterr().out, "its own manager has graded, and shown some"
    if name == "brpo":
        assert metrics["brpo/judge_failed"] == 0
        assert abs(metrics["reward/pairwise"]) <= 1
    if name == "dapo":
        assert 1 <= metrics["filter/draws"] <= 4
        assert metrics["reward/overlong"] <= 0
    if name == "interpreter":
        assert metrics["code/cells"] > 0
        assert {"reward/style", "reward/length", "reward/execution"} <= metrics.keys()
    model = (await clients.policy.get_model(policy.GetModelRequest(model=f"example-{name}"))).model
    assert model.policy_version == 2, "the start, then the step"
    assert outcome.report.is_file()
    # The page has it from the store: curves, and rows with the numbers of their tokens.
    store = open_store(endpoints.store)
    reader = TrainingReader(store)
    about = await reader.describe(output.name)
    assert (about.state, about.algorithm, (await reader.read_curves(about)).last) == ("finished", name, 1)
    [row, *_] = (await reader.read_samples(output.name, 1))["rows"]
    assert sum(row["response"]["mask"]) == row["trained_tokens"] > 0
    assert len(row["response"]["advantage"]) == len(row["response"]["text"]) == row["response_tokens"]
    await store.close()


@on_the_stack
@pytest.mark.parametrize("name", ["grpo", "prime"])
async def test_an_algorithm_takes_its_first_step_without_a_settings_file(
    stack: Stack, tmp_path: Path, name: str
) -> None:
    """As ``fathom train NAME`` does after an installation, where there are no examples."""
    endpoints, _ = stack
    output = tmp_path / f"first-{name}-{tmp_path.name}"
    more = ["rollout.n=4", "trainer.total_training_steps=1", "trainer.test_freq=0", "trainer.val_before_train=true"]
    config = load_settings(name, [], [f"trainer.output={output}", f"model.name=first-{name}", *more])
    run = Run(name, config, Place(endpoints.services, endpoints.store), lambda *_: None, Interruption())
    outcome = await asyncio.to_thread(run.train)
    assert outcome.steps == 1
    metrics = read_lines(output / "metrics.jsonl")[1]
    assert metrics["actor/grad_norm"] > 0
    assert metrics["response_length/mean"] <= config.rollout.max_tokens


@on_the_stack
async def test_primes_own_entry_runs_its_example(stack: Stack, tmp_path: Path) -> None:
    """To the end on a CPU. Policy and reward model have both moved. Nothing has a value head."""
    endpoints, _ = stack
    home = {"services": dict(endpoints.services), "gateway": "", "nats": "", "store": endpoints.store}
    (tmp_path / "endpoints.json").write_text(json.dumps(home))
    example, output = EXAMPLES / "prime.yaml", tmp_path / f"prime-{tmp_path.name}"
    overrides = keep_read("prime", settings("prime", output, "actor.optim.lr=0.01", "reward_model.optim.lr=0.01"))
    await asyncio.to_thread(main_prime.main, ["--config", str(example), "--home", str(tmp_path), *overrides])
    [metrics] = read_lines(output / "metrics.jsonl").values()
    expected = {"acc", "actor/pg_loss", "filter/pass_rate", "reward_model/dpo_loss", "reward_model/grad_norm"}
    before_and_after = {"reward_model/dpo_acc_before", "reward_model/dpo_acc", "reward_model/dpo_acc_abs"}
    assert expected | before_and_after <= metrics.keys()
    assert not [name for name in metrics if name.startswith(("critic/vf", "critic/values"))]
    kept = StoreCheckpoints(open_store(endpoints.store), endpoints.store, output.name)
    found = await asyncio.to_thread(kept.load)
    assert found is not None
    assert {name.split("/")[0] for name in found.folder.files} == {"actor", "reward"}
    await asyncio.to_thread(found.folder.fetch_all, tmp_path / "checkpoint")
    config = fill_vocabulary(load_settings("prime", [example], overrides), [])
    start = load_model(config.model, config.trainer.seed).state_dict()
    for part in ("actor", "reward"):
        dcp_to_torch_save(tmp_path / "checkpoint" / part, tmp_path / f"{part}.pt")
        state = torch.load(tmp_path / f"{part}.pt", weights_only=False)
        weights = {name.removeprefix("module."): value for name, value in state.items() if name.startswith("module.")}
        learned = {name.removeprefix("language_model."): value for name, value in weights.items()}
        assert learned.keys() == start.keys(), "the language model's parameters and no others"
        assert not all(torch.equal(value, learned[name]) for name, value in start.items()), f"{part} has not learned"


def test_files_alone_are_enough_for_sft_and_dpo(tmp_path: Path) -> None:
    """Rows in the shape that ``fathom export`` writes; DPO starts from what SFT has left."""
    rows = [
        {"id": f"r{at}", "token_ids": [2, 5, 8 + at, 3, 2, 6, 18, 8 + at, 19, 3], "loss_mask": [0] * 6 + [1] * 4}
        for at in range(6)
    ]
    pairs = [
        {
            "id": f"p{at}",
            "prompt_ids": [2, 5, 8 + at, 3, 2, 6],
            "chosen_ids": [18, 8 + at, 19, 3],
            "rejected_ids": [18, 9 + at, 3],
        }
        for at in range(6)
    ]
    for name, lines in (("sft", rows), ("dpo", pairs)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        more = [
            f"data.train_files={[str(file)]}",
            "data.train_batch_size=3",
            "trainer.val_before_train=false",
            "trainer.total_training_steps=2",
        ]
        start = [f"model.path={tmp_path / 'sft' / 'model'}"] if name == "dpo" else []
        config = load_settings(name, [EXAMPLES / f"{name}.yaml"], [*more, *start, f"trainer.output={tmp_path / name}"])
        run = Run(name, config, Place({}, ""), lambda *_: None, Interruption())
        assert run.train().steps == 2
        assert (tmp_path / name / "model" / "model.safetensors").is_file()
