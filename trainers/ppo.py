"""PPO (arXiv 1707.06347) and related algorithms: the training loop from prompts to published weights.

``fit`` runs: generate → reward → old log-probs → reference → values → KL in the reward → advantage → update critic →
update actor → publish → validate → save. Each is a small method; other algorithms override those that differ
(``trainers.rloo``, ``trainers.grpo``, ``trainers.prime``).

The loop keeps no random state: prompts are a function of (seed, position), so that resuming at any step, also at an
epoch's end, draws the prompts that would have followed. When episodes are sampled ahead of time, a checkpoint also
lists the prompts in flight: a resumed run restarts them with the weights it then serves, so that every prompt of every
epoch is trained on exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.errors import Conflict, InvalidField, NotReady
from trainers.checkpoints import keep, take_up
from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.kl import kl_controller
from trainers.old_policy import old_log_probs, warning
from trainers.roles import (
    ActorGroup,
    CriticGroup,
    Metrics,
    ReferenceGroup,
    ResourcePoolManager,
    RewardFunction,
    Role,
    WorkerGroupFactory,
)
from trainers.steps import (
    ESTIMATORS,
    apply_kl_penalty,
    batch_metrics,
    checked_scores,
    compute_advantage,
    without_state_masking,
)
from trainers.surroundings import Surroundings, check_finite, timed
from trainers.validation import validated


class RayPPOTrainer:
    """Trains an actor, and a critic when the advantages need one, on batches from a rollout source.

    ``role_worker_mapping`` gives the worker class of each role, ``resource_pool_manager`` the number of ranks, and
    ``ray_worker_group_cls(worker, config, ranks)`` creates the group: on Ray, or in this process. ``reward_fn`` scores
    ungraded episodes, ``val_reward_fn`` those of validation (default: the same).
    """

    estimators: tuple[str, ...] = ESTIMATORS
    """Values of ``algorithm.adv_estimator`` that this trainer supports."""

    def __init__(
        self,
        config: TrainConfig,
        tokenizer: Any,
        role_worker_mapping: Mapping[Role, Any],
        resource_pool_manager: ResourcePoolManager,
        ray_worker_group_cls: WorkerGroupFactory,
        reward_fn: RewardFunction | None = None,
        val_reward_fn: RewardFunction | None = None,
        *,
        surroundings: Surroundings,
    ) -> None:
        """Configure the trainer; raises ``InvalidField`` for a role without a worker, or an unsupported estimator."""
        if config.algorithm.adv_estimator not in self.estimators:
            known = ", ".join(self.estimators)
            raise InvalidField("algorithm.adv_estimator", f"is {config.algorithm.adv_estimator!r}, here it is {known}")
        self.config, self.tokenizer = config, tokenizer
        self.role_worker_mapping, self.pools = role_worker_mapping, resource_pool_manager
        self.group_factory = ray_worker_group_cls
        self.reward_fn, self.val_reward_fn = reward_fn, val_reward_fn or reward_fn
        self.around, self.rollouts = surroundings, surroundings.rollouts
        self.use_critic = config.algorithm.adv_estimator == "gae"
        self.kl_ctrl = kl_controller(config.algorithm)
        self.step, self.submitted = 0, 0
        self._warned = False
        self._groups: list[Any] = []
        self.backlog: list[str] = []
        """Prompts in flight at the checkpoint from which this training was resumed."""
        for role in self.roles():
            if role not in role_worker_mapping:
                raise InvalidField(f"role_worker_mapping.{role}", "is missing; these settings need it")

    # What there is to work with.

    def roles(self) -> list[Role]:
        """Return the learner roles that the settings need."""
        needed = [Role.ACTOR]
        if self.use_critic:
            needed.append(Role.CRITIC)
        if self.config.needs_reference:
            needed.append(Role.REF_POLICY)
        return needed

    def init_workers(self) -> None:
        """Create the learners; raises what placing them raises, naming the role."""
        groups = {role: self.make_group(role) for role in self.roles()}
        self.actor: ActorGroup = groups[Role.ACTOR]
        self.critic: CriticGroup | None = groups.get(Role.CRITIC)
        self.reference: ReferenceGroup | None = groups.get(Role.REF_POLICY)

    def make_group(self, role: Role) -> Any:
        """Create the worker group of one role."""
        # Learning-rate schedules end with the training, also when its length follows from the epochs.
        length = self.config.trainer.model_copy(update={"total_training_steps": self.total_steps})
        config = self.config.model_copy(update={"trainer": length})
        try:
            group = self.group_factory(self.role_worker_mapping[role], config, self.pools.ranks(role))
        except NotReady as error:
            raise NotReady(f"learner {role}: {error.message}", metadata={"culprit": str(role)}) from error
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Stop the learners and release their resources, including those of a training that failed to start."""
        while self._groups:
            self._groups.pop().close()

    @property
    def prompts_per_step(self) -> int:
        """Return the number of prompts drawn per step; PRIME draws more than it trains on."""
        return self.config.data.train_batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of whole batches in the prompts; raises ``InvalidField`` when there is none."""
        return self.around.train.batches(self.prompts_per_step)

    @property
    def total_steps(self) -> int:
        """Return the total number of steps: the configured cap, else all epochs."""
        trainer = self.config.trainer
        return trainer.total_training_steps or self.steps_per_epoch * trainer.total_epochs

    # The loop.

    def fit(self) -> Metrics:
        """Train to completion, resuming from a checkpoint when there is one; return the last metrics."""
        self.init_workers()
        self.load_checkpoint()
        try:
            self.publish()
            metrics: Metrics = {}
            if self.step == 0 and self.config.trainer.val_before_train and self.around.validation is not None:
                metrics = self.validate()
                self.around.on_step(0, metrics)
            for _ in range(min(self.rollouts.ahead, self.total_steps - self.step)):
                self.rollouts.submit(self.next_prompts())
            while self.step < self.total_steps:
                metrics = self.run_step()
                self.around.on_step(self.step, metrics)
            return metrics
        finally:
            self.rollouts.close()

    def run_step(self) -> Metrics:
        """Run one step with its publication, validation and checkpoint; return its metrics."""
        metrics: Metrics = {}
        with timed(metrics, "step"):
            self.train_step(self.next_prompts(), metrics)
            if not self._warned and (said := warning(metrics, self.config)):
                self._warned = True
                self.around.warn(said)
            # Counted before validation and checkpoint, which belong to the finished step.
            self.step += 1
            metrics["training/global_step"] = float(self.step)
            metrics["training/epoch"] = float((self.step - 1) // self.steps_per_epoch)
            check_finite(self.step, metrics)
            worth_keeping = self.around.inspect(self.step, metrics)
            with timed(metrics, "publish"):
                self.publish()
            if self.due(self.config.trainer.test_freq):
                with timed(metrics, "testing"):
                    metrics |= self.validate()
            if worth_keeping and self.due(self.config.trainer.save_freq):
                with timed(metrics, "save_checkpoint"):
                    self.save_checkpoint()
        return metrics

    def train_step(self, prompts: DataProto, metrics: Metrics) -> None:
        """Run one step from prompts to updated learners."""
        with timed(metrics, "gen"):
            batch = self.generate(prompts, metrics)
        with timed(metrics, "reward"):
            batch = self.compute_reward(batch, metrics)
        with timed(metrics, "old_log_prob"):
            batch = self.compute_old_log_prob(batch, metrics)
        if self.reference is not None:
            with timed(metrics, "ref"):
                batch = batch.union(self.reference.compute_ref_log_prob(batch))
        if self.critic is not None:
            with timed(metrics, "values"):
                batch = batch.union(self.critic.compute_values(batch))
        with timed(metrics, "adv"):
            batch = self.compute_advantage(self.apply_kl(batch, metrics), metrics)
        metrics |= batch_metrics(batch, self.config.data.max_response_length)
        if self.critic is not None:
            with timed(metrics, "update_critic"):
                metrics |= self.critic.update_critic(batch)
        if self.step >= self.config.trainer.critic_warmup:
            with timed(metrics, "update_actor"):
                metrics |= self.actor.update_policy(batch)

    def due(self, frequency: int) -> bool:
        """Return whether an action is due: at the end, and every ``frequency`` steps unless that is 0."""
        return self.step >= self.total_steps or bool(frequency and self.step % frequency == 0)

    # Its steps.

    def next_prompts(self) -> DataProto:
        """Return the next prompts with their sampling settings.

        Prompts in flight at the checkpoint come first, then those of the next position. After the last position there
        are none left to submit; the returned prompts then only determine the number of groups wanted.
        """
        size, number = self.prompts_per_step, self.submitted + 1
        if self.backlog:
            chosen, self.backlog = self.backlog[:size], self.backlog[size:]
            prompts, submitted, number = self.around.train.named(chosen, size), False, self.step + 1
        elif self.submitted < self.total_steps:
            prompts, submitted = self.around.train.batch(self.submitted, size), False
            self.submitted += 1
        else:
            prompts, submitted = self.around.train.batch(self.step, size), True
            number = self.step + self.rollouts.ahead + 1
        rollout = self.config.rollout
        return prompts.with_meta(
            n=rollout.n,
            step=number,
            seed=self.config.trainer.seed + 100_003 * number,
            validate=False,
            submitted=submitted,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
        )

    def generate(self, prompts: DataProto, metrics: Metrics) -> DataProto:
        """Generate episodes in whole groups and check the shapes of all fields.

        Raises ``InvalidField`` for a missing field, a wrong shape, or a row without a sampled token.
        """
        batch = self.rollouts.generate(prompts)
        batch.require("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
        empty = batch.tensor("response_mask").sum(dim=-1) == 0
        if bool(empty.any()):
            raise InvalidField("response_mask", f"row {int(empty.nonzero()[0])} has no sampled token")
        metrics |= batch.meta_info.get("metrics", {})
        batch = batch.with_meta(temperature=self.config.rollout.temperature)
        return batch if self.config.algorithm.state_masking else without_state_masking(batch)

    def compute_reward(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set ``token_level_scores`` from the source, else from ``reward_fn``; raises ``InvalidField`` with neither."""
        if "token_level_scores" in batch:
            scores = batch.tensor("token_level_scores")
        elif self.reward_fn is None:
            raise InvalidField("token_level_scores", "is missing: rollouts are not graded and there is no reward_fn")
        else:
            scores = self.reward_fn(batch)
        return batch.with_tensors(token_level_scores=checked_scores(scores, batch))

    def compute_old_log_prob(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set ``old_log_probs`` of the policy before its update, and measure the mismatch with the rollout's."""
        batch, measured = old_log_probs(batch, self.actor, self.config)
        metrics |= measured
        return batch

    def apply_kl(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set ``token_level_rewards``: the scores, minus a KL penalty when configured in the reward."""
        if not self.config.algorithm.use_kl_in_reward:
            return batch.with_tensors(token_level_rewards=batch.tensor("token_level_scores"))
        batch, measured = apply_kl_penalty(batch, self.kl_ctrl, self.config.algorithm.kl_penalty)
        metrics |= measured
        return batch

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Compute ``advantages`` and ``returns`` with the configured estimator."""
        algorithm = self.config.algorithm
        return compute_advantage(
            batch,
            algorithm.adv_estimator,
            algorithm.gamma,
            algorithm.lam,
            norm_by_std=algorithm.norm_adv_by_std_in_grpo,
        )

    def publish(self) -> None:
        """Publish the actor's weights to the samplers."""
        self.rollouts.publish(self.actor.export)

    def validate(self) -> Metrics:
        """Compute the mean score by data source over the validation prompts.

        Sampling uses ``rollout.val_temperature``; empty without validation prompts.
        """
        if self.around.validation is None:
            return {}
        return validated(
            self.rollouts, self.around.validation, self.config, step=self.step, reward_fn=self.val_reward_fn
        )

    # What outlives a process.

    def learners(self) -> dict[str, Any]:
        """Return the worker groups saved in a checkpoint, by folder name."""
        return {"actor": self.actor} | ({"critic": self.critic} if self.critic is not None else {})

    def identity(self) -> dict[str, str]:
        """Return the properties that a checkpoint must share to be resumed by this training."""
        return {"model": self.config.model.name, "algorithm": self.config.algorithm.adv_estimator}

    def state(self) -> dict[str, Any]:
        """Return the loop's state: positions, the KL coefficient, and prompts drawn but not yet trained on."""
        return {
            "step": self.step,
            **self.identity(),
            "kl_coef": self.kl_ctrl.value,
            "submitted": self.submitted,
            "pending": self.rollouts.pending(),
            "prompts_per_step": self.prompts_per_step,
        }

    def save_checkpoint(self) -> None:
        """Save learners and loop state atomically."""
        if self.around.checkpoints is not None:
            keep(self.around.checkpoints, self.step, self._write, self.state())

    def _write(self, folder: Path) -> None:
        for part, group in self.learners().items():
            (folder / part).mkdir()
            group.save_checkpoint(folder / part)

    def _read(self, folder: Path) -> None:
        for part, group in self.learners().items():
            group.load_checkpoint(folder / part)

    def load_checkpoint(self) -> None:
        """Restore the configured checkpoint; without one, start at step 0.

        Raises ``Conflict`` when its prompts in flight were drawn with another number of prompts per step.
        """
        checkpoints = self.around.checkpoints
        state = take_up(checkpoints, self.config.trainer, self.identity(), self._read) if checkpoints else None
        if state is None:
            return
        self.step, self.kl_ctrl.value = int(state["step"]), float(state["kl_coef"])
        self.submitted, self.backlog = int(state.get("submitted", self.step)), list(state.get("pending", []))
        if self.backlog and state["prompts_per_step"] != self.prompts_per_step:
            raise Conflict(
                f"the checkpoint has {len(self.backlog)} prompts under way, drawn by {state['prompts_per_step']};"
                f" now {self.prompts_per_step} are drawn per step",
                metadata={"field": "data.train_batch_size"},
            )
