"""GRPO (arXiv 2402.03300), top to bottom: roll out, compare within groups, step, publish, serve.

Rollouts come from planner, grades from reward, and both see the version that the last step published, so every
batch is on-policy at its first pass. Exact resume is the reinforcement-learning issue's.
"""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import PROTOCOL_RESEARCH, PROTOCOL_SEARCH_R1, Trajectory
from fathom.api.policy.v1.policy_pb2 import LoadWeightsRequest, Sampling
from fathom.clients import Clients
from fathom.errors import FathomError
from fathom.ids import new_id
from fathom.protocol.weights import publish
from fathom.store import ObjectStore
from fathom.store.refs import to_ref
from trainers import tiny
from trainers.advantages import group_advantages
from trainers.batch import Batch, make_batch
from trainers.config import GrpoConfig
from trainers.losses import Totals, kl_loss, policy_loss, token_log_probs
from trainers.tasks import SYSTEM_PROMPT, Task, comparison_tasks, split, vocabulary

STOPS = ("</answer>", "</search>")


class TrainingDiverged(FathomError):
    """A loss was not finite; the last good version keeps being served."""

    code, reason = "ABORTED", "CONFLICT"


@dataclass(frozen=True)
class StepReport:
    """One step. ``mismatch`` is the largest |p_rollout - p_learner| over trained tokens, before the step."""

    step: int
    reward: float
    accuracy: float
    loss: float
    kl: float
    entropy: float
    grad_norm: float
    clip_fraction: float
    mismatch: float
    version: int


@dataclass(frozen=True)
class TrainReport:
    """What a training did; accuracies are greedy, on held-out tasks."""

    model: str
    version: int
    steps: int
    reward_first: float
    reward_last: float
    held_out_before: float
    held_out_after: float

    def summary(self) -> str:
        """The reward line."""
        return (
            f"reward {self.reward_first:.3f} → {self.reward_last:.3f}, held-out accuracy"
            f" {self.held_out_before:.2f} → {self.held_out_after:.2f} after {self.steps} steps;"
            f" policy serves {self.model!r} version {self.version}"
        )


class Learner:
    """The model under training, its optimiser, and the version that policy serves."""

    def __init__(self, config: GrpoConfig, tasks: Sequence[Task], clients: Clients, store: ObjectStore) -> None:
        words = vocabulary(tasks)
        self.config, self.clients, self.store = config, clients, store
        self.tokenizer = tiny.build_tokenizer(words)
        self.version = 0
        self.adopt(tiny.build_model(words, config.hidden, config.layers, config.seed, config.window))

    def adopt(self, model: LlamaForCausalLM) -> None:
        """Goes on with these weights: they are trained, and their first state is the reference."""
        self.model, self.reference = model, copy.deepcopy(model).eval()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.config.lr, weight_decay=0.0)

    async def serve(self) -> None:
        """Publishes the weights as the next version and waits until policy serves it."""
        with tempfile.TemporaryDirectory() as folder:
            tiny.save(self.model, self.tokenizer, Path(folder))
            manifest = await publish(self.store, Path(folder), self.config.model, self.version + 1)
        request = LoadWeightsRequest(
            request_id=new_id("weights"),
            model=self.config.model,
            manifest=to_ref(manifest),
            policy_version=self.version + 1,
        )
        await self.clients.policy.load_weights(request, timeout_s=60.0)
        self.version += 1

    async def rollout(self, tasks: Sequence[Task], group_size: int, temperature: float, seed: int) -> list[Trajectory]:
        """Graded episodes of the version that is served now."""
        config = self.config
        sampling = Sampling(temperature=temperature, max_tokens=config.max_tokens, seed=seed)
        request = pb.RolloutRequest(
            request_id=new_id("rollout"),
            tasks=[pb.RolloutTask(id=t.id, question=t.question, references=t.references) for t in tasks],
            group_size=group_size,
            model=config.model,
            policy_version=self.version,
            sampling=sampling,
            budget=pb.Budget(max_rounds=config.max_rounds),
        )
        if config.protocol == "search_r1":
            request.protocol, request.grader, request.system_prompt = PROTOCOL_SEARCH_R1, "search_r1", SYSTEM_PROMPT
            request.sampling.stop.extend(STOPS)
            request.grader_parameters["structure_weight"] = config.structure_weight
            request.grader_parameters["final_weight"] = config.final_weight
        else:
            request.protocol, request.grader = PROTOCOL_RESEARCH, "em"
        stream = self.clients.planner.rollout(request, timeout_s=config.rollout_timeout_s)
        return [response.trajectory async for response in stream]

    def step(self, batch: Batch) -> tuple[dict[str, float], float]:
        """``epochs`` optimiser passes over a batch; metrics of the first, and the rollout mismatch."""
        config = self.config
        advantages = group_advantages(batch.rewards, norm_by_std=config.norm_by_std)
        per_token = advantages.reshape(-1)[batch.owners].unsqueeze(1).expand_as(batch.log_probs)
        first: dict[str, float] = {}
        mismatch = 0.0
        for _ in range(config.epochs):
            self.optimizer.zero_grad()
            metrics, distance = self._accumulate(batch, per_token)
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
            if not (torch.isfinite(norm) and all(value == value for value in metrics.values())):
                raise TrainingDiverged(f"the loss or its gradient is not finite; version {self.version} stays served")
            self.optimizer.step()
            if not first:
                first, mismatch = {**metrics, "grad_norm": norm.item()}, distance
        return first, mismatch

    def _accumulate(self, batch: Batch, advantages: Tensor) -> tuple[dict[str, float], float]:
        """Gradients over micro-batches with the batch's own denominator: the split does not change them."""
        config, total = self.config, float(max(1, batch.trained_tokens))
        totals = Totals.of(batch.loss_mask)
        sums = dict.fromkeys(("loss", "kl", "entropy", "clip_fraction"), 0.0)
        mismatch = 0.0
        for start in range(0, len(batch.input_ids), config.micro_batch):
            rows = slice(start, start + config.micro_batch)
            ids, attention, mask = batch.input_ids[rows], batch.attention_mask[rows], batch.loss_mask[rows]
            logits = self.model(input_ids=ids, attention_mask=attention).logits
            log_probs, entropy = token_log_probs(logits, ids, config.temperature)
            old = batch.log_probs[rows]
            result = policy_loss(
                log_probs, old, advantages[rows], mask, totals,
                clip_low=config.clip_low, clip_high=config.clip_high,
            )  # fmt: skip
            mean_entropy, share = (entropy * mask).sum() / total, mask.sum().item() / total
            loss = result.loss - config.entropy_coef * mean_entropy
            if config.kl_coef:
                with torch.no_grad():
                    reference, _ = token_log_probs(
                        self.reference(input_ids=ids, attention_mask=attention).logits, ids, config.temperature
                    )
                loss = loss + config.kl_coef * kl_loss(log_probs, reference, mask, totals)
            loss.backward()
            sums["loss"] += loss.item()
            sums["kl"] += result.approx_kl.item() * share
            sums["entropy"] += mean_entropy.item()
            sums["clip_fraction"] += result.clip_fraction.item() * share
            mismatch = max(mismatch, ((log_probs.detach().exp() - old.exp()).abs() * mask).max().item())
        return sums, mismatch


async def train(
    config: GrpoConfig, clients: Clients, store: ObjectStore, progress: Callable[[StepReport], None]
) -> TrainReport:
    """The loop. Contract errors stop it and name the field; the served version is always a good one."""
    tasks = comparison_tasks(config.digits)
    training, held_out = split(tasks, config.held_out, config.seed)
    learner = Learner(config, tasks, clients, store)
    chooser = random.Random(config.seed)
    config.output.mkdir(parents=True, exist_ok=True)
    (config.output / "config.json").write_text(config.model_dump_json(indent=2))
    await learner.serve()
    before = await accuracy(learner, held_out)
    reports: list[StepReport] = []
    with (config.output / "metrics.jsonl").open("w") as log:
        for step in range(1, config.steps + 1):
            chosen = chooser.sample(training, min(config.prompts_per_step, len(training)))
            seed = config.seed + step * 100_003
            trajectories = await learner.rollout(chosen, config.group_size, config.temperature, seed)
            batch = make_batch(trajectories, len(chosen), config.group_size, learner.version)
            metrics, mismatch = learner.step(batch)
            await learner.serve()
            correct = [item.reward_components.get("correct", 0.0) for item in trajectories]
            report = StepReport(
                step=step, reward=batch.rewards.mean().item(), accuracy=sum(correct) / len(correct),
                mismatch=mismatch, version=learner.version, **metrics,
            )  # fmt: skip
            reports.append(report)
            log.write(json.dumps(asdict(report)) + "\n")
            progress(report)
    after = await accuracy(learner, held_out)
    return TrainReport(
        config.model, learner.version, config.steps, reports[0].reward, mean_of_last(reports), before, after
    )


async def accuracy(learner: Learner, tasks: Sequence[Task]) -> float:
    """Share of tasks that a greedy episode answers rightly."""
    trajectories = await learner.rollout(tasks, 1, 0.0, 0)
    return sum(item.reward_components.get("correct", 0.0) for item in trajectories) / len(trajectories)


def mean_of_last(reports: Sequence[StepReport], count: int = 5) -> float:
    """Mean reward of the last steps: single steps are noisy."""
    last = reports[-count:]
    return sum(report.reward for report in last) / len(last)
