"""Scripted roles for tests of the training loop: they note who was called, and answer with numbers known before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import PPO, RayPPOTrainer
from fathom.trainers.batch import DataProto
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config import TrainConfig, load_config
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics, ResourcePoolManager, Role
from fathom.trainers.objectives.terms import LossTerm
from fathom.trainers.store_files import StoredFiles, StoreFolder
from fathom.trainers.transfers import StoreTransfer
from fathom.transport.store import open_store

RECORDS = [
    {
        "data_source": "toy" if index % 2 else "other",
        "prompt": [{"role": "user", "content": f"question {index}"}],
        "reward_model": {"style": "rule", "ground_truth": {"target": [str(index)]}},
        "extra_info": {"split": "train", "index": index},
    }
    for index in range(5)
]


def episodes(prompts: DataProto, samples: int, width: int = 3) -> DataProto:
    """``samples`` rows per prompt: one observation token between two sampled ones, the last row of a group right."""
    rows = prompts.repeat(samples)
    count = len(rows)
    responses = torch.arange(count * width).view(count, width) % 7 + 1
    mask = torch.ones(count, width, dtype=torch.int64)
    mask[:, 1] = 0
    acc = torch.tensor([float(row % samples == samples - 1) for row in range(count)])
    scores = torch.zeros(count, width)
    scores[:, -1] = acc
    tensors = {
        "prompts": torch.ones(count, 2, dtype=torch.int64),
        "responses": responses,
        "input_ids": torch.cat([torch.ones(count, 2, dtype=torch.int64), responses], dim=1),
        "attention_mask": torch.ones(count, 2 + width, dtype=torch.int64),
        "position_ids": torch.arange(2 + width).repeat(count, 1),
        "response_mask": mask,
        "rollout_log_probs": torch.full((count, width), -1.0) * mask,
        "token_level_scores": scores,
        "acc": acc,
    }
    return DataProto(tensors, dict(rows.non_tensor_batch), dict(rows.meta_info))


class ScriptedSource:
    """A rollout source that answers at once; ``ahead`` batches late."""

    def __init__(
        self, calls: list[str], ahead: int = 0, change: Callable[[DataProto], DataProto] | None = None
    ) -> None:
        self.calls, self.ahead, self.queue, self.change = calls, ahead, list[DataProto](), change
        self.seen: list[DataProto] = []
        self.version, self.newest_first = 0, False

    def submit(self, prompts: DataProto) -> None:
        self.queue.append(prompts)

    def pending(self) -> list[str]:
        return [uid for prompts in self.queue for uid in prompts.array("uid").tolist()]

    def generate(self, prompts: DataProto) -> DataProto:
        if prompts.meta_info["validate"]:
            self.calls.append("validate")
            return episodes(prompts, 1)
        if not prompts.meta_info["submitted"]:
            self.submit(prompts)
        oldest = self.queue.pop(-1 if self.newest_first else 0)
        self.seen.append(oldest)
        self.calls.append("generate")
        found = episodes(oldest, oldest.meta_info["n"])
        return self.change(found) if self.change else found

    def publish(self, write: Callable[[StoreFolder], StoredFiles], write_base: Any = None) -> int:
        self.calls.append("publish")
        self.version += 1
        return self.version

    def close(self) -> None:
        self.calls.append("close")


class ScriptedGroup(StoreTransfer):
    """Every learner in one; its state is a count of its updates."""

    def __init__(self, role: Role, calls: list[str]) -> None:
        self.role, self.calls, self.updates, self.worker = role, calls, 0, self
        self.trained: list[DataProto] = []
        self.terms: tuple[LossTerm, ...] = ()
        self.metrics: Metrics = {}

    def answer(self, name: str, data: DataProto, field: str, value: float) -> DataProto:
        self.calls.append(name)
        return DataProto({field: torch.full(data.tensor("responses").shape, value)})

    def use_loss(self, terms: Sequence[LossTerm]) -> None:
        self.terms = tuple(terms)

    def compute_log_prob(self, data: DataProto) -> DataProto:
        found = self.answer("old_log_prob", data, "old_log_probs", -1.25)
        return found.with_tensors(entropys=torch.full(data.tensor("responses").shape, 0.5))

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        return self.answer("ref", data, "ref_log_prob", -1.75)

    def compute_values(self, data: DataProto) -> DataProto:
        return self.answer("values", data, "values", 0.25)

    def update_policy(self, data: DataProto) -> Metrics:
        return self.update("update_actor", data)

    def update_critic(self, data: DataProto) -> Metrics:
        return self.update("update_critic", data)

    def update(self, name: str, data: DataProto) -> Metrics:
        self.calls.append(name)
        self.trained.append(data)
        self.updates += 1
        return {f"{self.role}/updates": float(self.updates), **self.metrics}

    def export(self, folder: Path) -> None:
        raise AssertionError("the scripted source asks for no weights")

    def save_checkpoint(self, folder: Path) -> None:
        (folder / "updates").write_text(str(self.updates))

    def load_checkpoint(self, folder: Path, fetch: Callable[[str], None]) -> None:
        fetch("updates")
        self.updates = int((folder / "updates").read_text())


class CountedCheckpoints(StoreCheckpoints):
    """Checkpoints in a store below ``root``, all of them kept."""

    def __init__(self, root: Path, calls: list[str]) -> None:
        super().__init__(
            open_store((root / "store").resolve().as_uri()), (root / "store").resolve().as_uri(), "toy", 99
        )
        object.__setattr__(self, "calls", calls)

    def save(self, step: int, write: Callable[[StoreFolder], StoredFiles], state: Mapping[str, Any]) -> None:
        vars(self)["calls"].append("save")
        super().save(step, write, state)


class Scene:
    """A trainer with everything around it scripted. ``groups`` are the learners that were made, by role."""

    def __init__(
        self,
        root: Path,
        *overrides: str,
        ahead: int = 0,
        change: Callable[[DataProto], DataProto] | None = None,
        algorithm: type[Algorithm] = PPO,
    ) -> None:
        self.calls: list[str] = []
        self.config: TrainConfig = load_config(
            overrides=["data.train_batch_size=2", "rollout.n=2", "trainer.total_epochs=2", *overrides]
        )
        self.source = ScriptedSource(self.calls, ahead, change)
        self.groups: dict[Role, ScriptedGroup] = {}
        self.steps: list[tuple[int, Metrics]] = []
        context = TrainingContext(
            self.source,
            Prompts(RECORDS, seed=3),
            Prompts(RECORDS, shuffle=False),
            CountedCheckpoints(root, self.calls),
            lambda step, metrics: self.steps.append((step, dict(metrics))),
        )
        pools = ResourcePoolManager({"all": 1}, dict.fromkeys(Role, "all"))
        roles = {role: role for role in (Role.ACTOR, Role.CRITIC, Role.REF_POLICY)}
        self.trainer = RayPPOTrainer(
            self.config, None, roles, pools, self.make, context=context, algorithm=algorithm(self.config)
        )

    def make(self, worker: Role, config: TrainConfig, ranks: int) -> ScriptedGroup:
        assert ranks == 1
        self.groups[worker] = ScriptedGroup(worker, self.calls)
        return self.groups[worker]
