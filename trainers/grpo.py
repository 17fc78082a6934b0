"""GRPO (arXiv 2402.03300): each episode against its prompt's group, without a critic; the loop of ``trainers.ppo``.

Settings: ``config/presets/grpo.yaml``. ``train`` runs it on a small task with a tiny model against the running
services: the planner plays rollouts, reward grades them, policy serves each step's version.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from fathom.clients import Clients
from fathom.store import ObjectStore
from trainers.config import GrpoConfig, TrainConfig
from trainers.config.learning import ActorConfig, OptimConfig
from trainers.config.sections import (
    AlgorithmConfig,
    DataConfig,
    ModelConfig,
    RewardConfig,
    RolloutConfig,
    TrainerConfig,
)
from trainers.data_proto import DataProto
from trainers.learners.workers import ActorWorker, ReferenceWorker
from trainers.ppo import RayPPOTrainer
from trainers.prompts import Prompts
from trainers.roles import Metrics, ResourcePoolManager, Role
from trainers.rollouts import PlannerRollouts
from trainers.rollouts.bridge import RunningLoop
from trainers.rollouts.publisher import Publisher
from trainers.steps import compute_advantage
from trainers.surroundings import Surroundings
from trainers.tasks import SYSTEM_PROMPT, comparison_tasks, records, split, vocabulary
from trainers.workers import LocalGroup

STOPS = ("</answer>", "</search>")


class GRPOTrainer(RayPPOTrainer):
    """GRPO trainer: A = (R - mean) / (std + 1e-6) within the group, the same for every token the model wrote."""

    estimators = ("grpo",)

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Compute group-relative advantages; without division by the deviation it is Dr. GRPO (arXiv 2503.20783)."""
        return compute_advantage(batch, "grpo", norm_by_std=self.config.algorithm.norm_adv_by_std_in_grpo)


@dataclass(frozen=True)
class StepReport:
    """Metrics of one step; ``mismatch`` is the largest |p_rollout - p_learner| over trained tokens, before the step."""

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
    """Results of a training; accuracies are greedy, on held-out tasks."""

    model: str
    version: int
    steps: int
    reward_first: float
    reward_last: float
    held_out_before: float
    held_out_after: float

    def summary(self) -> str:
        """Format rewards, accuracies and the served version as one line."""
        return (
            f"reward {self.reward_first:.3f} → {self.reward_last:.3f}, held-out accuracy"
            f" {self.held_out_before:.2f} → {self.held_out_after:.2f} after {self.steps} steps;"
            f" policy serves {self.model!r} version {self.version}"
        )


def tree(config: GrpoConfig, words: Sequence[str]) -> TrainConfig:
    """Convert the small training's settings to the common settings tree; ``words`` are the tiny model's vocabulary."""
    tags = config.protocol == "search_r1"
    weights = {"structure_weight": config.structure_weight, "final_weight": config.final_weight}
    return TrainConfig(
        data=DataConfig(train_batch_size=config.prompts_per_step, seed=config.seed),
        model=ModelConfig(
            name=config.model, hidden=config.hidden, layers=config.layers, window=config.window, vocabulary=tuple(words)
        ),
        rollout=RolloutConfig(
            n=config.group_size,
            protocol=config.protocol,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            max_turns=config.max_rounds,
            final_turn=False,
            stop=STOPS if tags else (),
            system_prompt=SYSTEM_PROMPT if tags else "",
            timeout_s=config.rollout_timeout_s,
            record=False,
        ),
        actor=ActorConfig(
            optim=OptimConfig(lr=config.lr, grad_clip=config.grad_clip),
            ppo_mini_batch_size=config.prompts_per_step,
            ppo_micro_batch_size_per_gpu=config.micro_batch,
            ppo_epochs=config.epochs,
            clip_ratio_low=config.clip_low,
            clip_ratio_high=config.clip_high,
            clip_ratio_c=None,
            entropy_coeff=config.entropy_coef,
            use_kl_loss=config.kl_coef > 0,
            kl_loss_coef=config.kl_coef,
        ),
        reward=RewardConfig(grader="search_r1", parameters=weights) if tags else RewardConfig(grader="em"),
        algorithm=AlgorithmConfig(adv_estimator="grpo", norm_adv_by_std_in_grpo=config.norm_by_std),
        trainer=TrainerConfig(
            total_training_steps=config.steps, test_freq=0, save_freq=0, seed=config.seed, output=config.output
        ),
    )


async def train(
    config: GrpoConfig, clients: Clients, store: ObjectStore, progress: Callable[[StepReport], None]
) -> TrainReport:
    """Train in a worker thread beside the caller's event loop; ``progress`` is called from that thread.

    Non-retryable errors stop the training and name the field; the last good version stays in service.
    """
    tasks = comparison_tasks(config.digits)
    training, held_out = split(tasks, config.held_out, config.seed)
    size = min(config.prompts_per_step, len(training))
    settings = tree(config.model_copy(update={"prompts_per_step": size}), vocabulary(tasks))
    config.output.mkdir(parents=True, exist_ok=True)
    (config.output / "config.json").write_text(config.model_dump_json(indent=2))
    publisher = Publisher(clients, store, config.model)
    seen: list[StepReport] = []
    held: list[float] = []

    def note(step: int, metrics: Metrics) -> None:
        if "val/test_score" in metrics:
            held.append(metrics["val/test_score"])
        if step:
            seen.append(report(step, metrics, publisher.version))
            log.write(json.dumps(asdict(seen[-1])) + "\n")
            progress(seen[-1])

    with (config.output / "metrics.jsonl").open("w") as log:
        rollouts = PlannerRollouts(settings, clients, publisher, RunningLoop(asyncio.get_running_loop()))
        around = Surroundings(
            rollouts,
            Prompts(records(training, "train"), seed=config.seed),
            Prompts(records(held_out, "held_out"), shuffle=False),
            on_step=note,
        )
        roles = {Role.ACTOR: ActorWorker, Role.REF_POLICY: ReferenceWorker}
        pools = ResourcePoolManager({"learners": 1}, dict.fromkeys(roles, "learners"))
        trainer = GRPOTrainer(settings, None, roles, pools, LocalGroup, surroundings=around)
        await asyncio.to_thread(trainer.fit)
    first, last = seen[0].reward, mean_of_last(seen)
    return TrainReport(config.model, publisher.version, config.steps, first, last, held[0], held[-1])


def report(step: int, metrics: Metrics, version: int) -> StepReport:
    """Build a step's report from its metrics."""
    return StepReport(
        step=step,
        reward=metrics["critic/score/mean"],
        accuracy=metrics["acc"],
        loss=metrics["actor/pg_loss"],
        kl=metrics["actor/ppo_kl"],
        entropy=metrics["actor/entropy"],
        grad_norm=metrics["actor/grad_norm"],
        clip_fraction=metrics["actor/pg_clipfrac"],
        mismatch=metrics["mismatch/prob_diff/max"],
        version=version,
    )


def mean_of_last(reports: Sequence[StepReport], count: int = 5) -> float:
    """Return the mean reward of the last ``count`` steps."""
    # Averaged, because the rewards of single steps are noisy.
    last = reports[-count:]
    return sum(item.reward for item in last) / len(last)
