"""PPO (arXiv 1707.06347) and related algorithms: the training loop from prompts to published weights.

``fit`` runs: generate → reward → old log-probs → reference → values → KL in the reward → advantage → update critic →
update actor → publish → validate → save. An algorithm (``algorithms.algorithm``) is an object whose hooks the loop
calls where algorithms differ; ``PPO`` leaves every hook as it is.

The loop keeps no random state: prompts are a function of (seed, position), so that resuming at any step, also at an
epoch's end, draws the prompts that would have followed. When episodes are sampled ahead of time, a checkpoint also
lists the prompts in flight: a resumed run restarts them with the weights it then serves, so that every prompt of every
epoch is trained on exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fathom.core.errors import Conflict, CorruptData, InvalidField, NotReady
from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.algorithms.context import TrainingContext, check_finite, measure_time
from fathom.trainers.algorithms.validation import score_validation
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import extend_loss_mask
from fathom.trainers.checkpoints import restore_checkpoint
from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import (
    ActorGroup,
    CriticGroup,
    Metrics,
    ReferenceGroup,
    ResourcePoolManager,
    RewardFunction,
    Role,
    WorkerGroupFactory,
)
from fathom.trainers.objectives.kl import kl_controller
from fathom.trainers.objectives.old_policy import old_log_probs, warning
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder


class PPO(Algorithm):
    """Advantages by ``algorithm.adv_estimator``: with a critic (GAE), or within each prompt's group."""


class RayPPOTrainer:
    """The training loop: trains the learners that its algorithm needs on batches from a rollout source.

    ``role_worker_mapping`` gives the worker class of each role, ``resource_pool_manager`` the number of ranks, and
    ``ray_worker_group_cls(worker, config, ranks)`` creates the group: on Ray, or in this process. ``reward_fn`` scores
    ungraded episodes, ``val_reward_fn`` those of validation (default: the same). ``algorithm`` has the hooks that the
    loop calls (default: ``PPO``).
    """

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
        context: TrainingContext,
        algorithm: Algorithm | None = None,
    ) -> None:
        """Configure the trainer; raises ``InvalidField`` for a role without a worker, or an unsupported estimator."""
        self.algorithm = algorithm or PPO(config)
        self.config, self.tokenizer = config, tokenizer
        self.role_worker_mapping, self.pools = role_worker_mapping, resource_pool_manager
        self.group_factory = ray_worker_group_cls
        self.reward_fn, self.val_reward_fn = reward_fn, val_reward_fn or reward_fn
        self.context, self.rollouts = context, context.rollouts
        self.kl_ctrl = kl_controller(config.algorithm)
        self.step, self.submitted, self.refills = 0, 0, 0
        self._warned = False
        self._made: list[Any] = []
        self.backlog: list[str] = []
        """Prompts in flight at the checkpoint from which this training was resumed."""
        for role in self.algorithm.roles():
            if role not in role_worker_mapping:
                raise InvalidField(f"role_worker_mapping.{role}", "is missing; these settings need it")

    # What there is to work with.

    def init_workers(self) -> None:
        """Create the learners; raises what placing them raises, naming the role."""
        self.groups = {role: self.make_group(role) for role in self.algorithm.roles()}
        self.actor: ActorGroup = self.groups[Role.ACTOR]
        # Once, before anything is trained: the loss follows from settings that do not change within a training.
        self.actor.use_loss(self.algorithm.loss())
        self.critic: CriticGroup | None = self.groups.get(Role.CRITIC)
        self.reference: ReferenceGroup | None = self.groups.get(Role.REF_POLICY)

    def make_group(self, role: Role) -> Any:
        """Create the worker group of one role."""
        # Learning-rate schedules end with the training, also when its length follows from the epochs.
        length = self.config.trainer.model_copy(update={"total_training_steps": self.total_steps})
        config = self.config.model_copy(update={"trainer": length})
        try:
            group = self.group_factory(self.role_worker_mapping[role], config, self.pools.ranks(role))
        except NotReady as error:
            raise NotReady(f"learner {role}: {error.message}", metadata={"culprit": str(role)}) from error
        # Kept apart from ``groups``: when a later role cannot be placed, the earlier ones must still be released.
        self._made.append(group)
        return group

    def close(self) -> None:
        """Stop the learners and release their resources, including those of a training that failed to start."""
        while self._made:
            self._made.pop().close()

    @property
    def prompts_per_step(self) -> int:
        """Return the number of prompts drawn per step."""
        return self.algorithm.prompts_per_step

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of whole batches in the prompts; raises ``InvalidField`` when there is none."""
        return self.context.train.batches(self.prompts_per_step)

    @property
    def total_steps(self) -> int:
        """Return the total number of steps: the configured cap, else all epochs."""
        trainer = self.config.trainer
        return trainer.total_training_steps or self.steps_per_epoch * trainer.total_epochs

    # The loop.

    def fit(self) -> Metrics:
        """Train to completion, resuming from a checkpoint when there is one; return the last metrics."""
        self.init_workers()
        # After the learners exist and before the first publication: samplers must never serve the initial weights of a
        # training that has learned.
        self.load_checkpoint()
        try:
            self.publish()
            metrics: Metrics = {}
            if self.step == 0 and self.config.trainer.val_before_train and self.context.validation is not None:
                metrics = self.validate()
                self.context.on_step(0, metrics)
            # The pipeline is filled after the publication, so that its first episodes are sampled by the published
            # weights.
            for _ in range(min(self.rollouts.ahead, self.total_steps - self.step)):
                self.rollouts.submit(self.next_prompts())
            while self.step < self.total_steps:
                metrics = self.run_step()
                self.context.on_step(self.step, metrics)
            # A training that ends well leaves nothing behind that the store does not have.
            self.actor.settle()
            return metrics
        finally:
            # However it ends: episodes in flight would otherwise be played on by the planner for nobody.
            self.rollouts.close()

    def run_step(self) -> Metrics:
        """Run one step with its publication, validation and checkpoint; return its metrics."""
        metrics: Metrics = {}
        with measure_time(metrics, "step"):
            self.train_step(self.next_prompts(), metrics)
            if not self._warned and (said := warning(metrics, self.config)):
                self._warned = True
                self.context.warn(said)
            # Counted before validation and checkpoint, which belong to the finished step.
            self.step += 1
            metrics["training/global_step"] = float(self.step)
            metrics["training/epoch"] = float((self.step + self.refills - 1) // self.steps_per_epoch)
            # Before anything leaves this process: diverged weights are neither published nor saved.
            check_finite(self.step, metrics)
            worth_keeping = self.context.inspect(self.step, metrics)
            # Publication before validation, which is sampled by the served weights and must measure this step's.
            with measure_time(metrics, "publish"):
                self.publish()
            if self.due(self.config.trainer.test_freq):
                with measure_time(metrics, "testing"):
                    metrics |= self.validate()
            # Suspicious states are left out, so that the newest checkpoint is one from which a resume can recover.
            if worth_keeping and self.due(self.config.trainer.save_freq):
                with measure_time(metrics, "save_checkpoint"):
                    self.save_checkpoint()
        return metrics

    def train_step(self, prompts: DataProto, metrics: Metrics) -> None:
        """Run one step from prompts to updated learners."""
        batch = self.collect(prompts, metrics)
        with measure_time(metrics, "old_log_prob"):
            batch = self.compute_old_log_prob(batch, metrics)
        # Everything frozen or old is computed before the first update: after it, neither old log-probabilities nor
        # values could be had.
        if self.reference is not None:
            with measure_time(metrics, "ref"):
                batch = batch.union(self.reference.compute_ref_log_prob(batch))
        if self.critic is not None:
            with measure_time(metrics, "values"):
                batch = batch.union(self.critic.compute_values(batch))
        batch = self.algorithm.learn_rewards(batch, self.groups, metrics)
        with measure_time(metrics, "adv"):
            batch = self.algorithm.advantages(self.algorithm.rewards(batch, self.kl_ctrl, metrics))
        metrics |= self.algorithm.batch_metrics(batch)
        with measure_time(metrics, "samples"):
            self.context.on_batch(self.step + 1, batch)
        if self.critic is not None:
            with measure_time(metrics, "update_critic"):
                metrics |= self.critic.update_critic(batch)
        # A critic that has seen nothing gives the policy noise for a baseline; it may learn alone first.
        if self.step >= self.algorithm.warmup_steps:
            with measure_time(metrics, "update_actor"):
                metrics |= self.actor.update_policy(batch)

    def collect(self, prompts: DataProto, metrics: Metrics) -> DataProto:
        """Generate and score episodes, and draw further prompts for as long as the algorithm asks for them.

        Times of several draws are added up, their other metrics averaged.
        """
        drawn: list[DataProto] = []
        measured: list[Metrics] = []
        while True:
            of_draw: Metrics = {}
            with measure_time(of_draw, "gen"):
                batch = self.generate(prompts, of_draw)
            drawn.append(self.algorithm.score(batch, self.reward_fn, of_draw))
            measured.append(of_draw)
            found = self.algorithm.select_groups(drawn, metrics)
            if found is not None:
                # The selection's metrics are of all draws together, and stay.
                metrics |= merge_draws(measured) | metrics
                return found
            self.refills += 1
            prompts = self.next_prompts()

    def due(self, frequency: int) -> bool:
        """Return whether an action is due: at the end, and every ``frequency`` steps unless that is 0."""
        return self.step >= self.total_steps or bool(frequency and self.step % frequency == 0)

    # Its steps.

    def next_prompts(self) -> DataProto:
        """Return the next prompts with their sampling settings.

        Prompts in flight at the checkpoint come first, then those of the next position. After the last position there
        are none left to submit; the returned prompts then only determine the number of groups wanted.
        """
        size, number, done = self.prompts_per_step, self.submitted + 1, self.step + self.refills
        if self.backlog:
            chosen, self.backlog = self.backlog[:size], self.backlog[size:]
            prompts, submitted, number = self.context.train.select_by_uid(chosen, size), False, done + 1
        # Every refill takes a batch more than the steps do, which must be submitted for it.
        elif self.submitted < self.total_steps + self.refills:
            prompts, submitted = self.context.train.batch(self.submitted, size), False
            self.submitted += 1
        else:
            prompts, submitted = self.context.train.batch(done, size), True
            number = done + self.rollouts.ahead + 1
        rollout = self.config.rollout
        return prompts.with_meta(
            n=rollout.n,
            step=number,
            # A prime far above the number of rows in a step: seeds of rows, which are offsets to this one, do not meet
            # those of another step.
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
        # A row without a sampled token has no place for its reward, and would count in its group's mean all the same.
        empty = batch.tensor("response_mask").sum(dim=-1) == 0
        if bool(empty.any()):
            raise InvalidField("response_mask", f"row {int(empty.nonzero()[0])} has no sampled token")
        metrics |= batch.meta_info.get("metrics", {})
        # The learner divides its logits by what the sampler divided them by; otherwise the first ratio would not be 1.
        batch = batch.with_meta(temperature=self.config.rollout.temperature)
        return batch if self.config.algorithm.state_masking else extend_loss_mask(batch)

    def compute_old_log_prob(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set ``old_log_probs`` of the policy before its update, and measure the mismatch with the rollout's."""
        batch, measured = old_log_probs(batch, self.actor, self.config)
        metrics |= measured
        return batch

    def publish(self) -> None:
        """Publish the actor's weights to the samplers, or its adapter alone."""
        upload = self.actor.upload
        if self.config.model.lora_publish == "adapter":
            self.rollouts.publish(partial(upload, "export_adapter"), partial(upload, "export_base"))
        else:
            self.rollouts.publish(partial(upload, "export"))

    def validate(self) -> Metrics:
        """Compute the mean score by data source over the validation prompts.

        Sampling uses ``rollout.val_temperature``; empty without validation prompts.
        """
        if self.context.validation is None:
            return {}
        return score_validation(
            self.rollouts, self.context.validation, self.config, step=self.step, reward_fn=self.val_reward_fn
        )

    # What outlives a process.

    def learners(self) -> dict[str, Any]:
        """Return the worker groups saved in a checkpoint, by folder name."""
        return {name: self.groups[role] for name, role in self.algorithm.checkpoint_parts().items()}

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
            "refills": self.refills,
            "pending": self.rollouts.pending(),
            "prompts_per_step": self.prompts_per_step,
        }

    def save_checkpoint(self) -> None:
        """Save learners and loop state atomically."""
        if self.context.checkpoints is not None:
            self.context.checkpoints.save(self.step, self._write, self.state())

    def _write(self, target: StoreFolder) -> StoredFiles:
        found = StoredFiles()
        for part, group in self.learners().items():
            files = group.upload("save_checkpoint", target.part(part))
            # Without this part the checkpoint could not be loaded, and the one before it would be deleted for it.
            if not files:
                raise CorruptData(f"{target.prefix}/{part}", "has no files: the learner has written none")
            found |= files.below(part)
        return found

    def _read(self, source: StoredFolder) -> None:
        for part, group in self.learners().items():
            group.restore(source.part(part))

    def load_checkpoint(self) -> None:
        """Restore the configured checkpoint; without one, start at step 0.

        Raises ``Conflict`` when its prompts in flight were drawn with another number of prompts per step.
        """
        checkpoints = self.context.checkpoints
        state = (
            restore_checkpoint(checkpoints, self.config.trainer, self.identity(), self._read) if checkpoints else None
        )
        if state is None:
            return
        self.step, self.kl_ctrl.value = int(state["step"]), float(state["kl_coef"])
        self.submitted, self.backlog = int(state.get("submitted", self.step)), list(state.get("pending", []))
        self.refills = int(state.get("refills", 0))
        # Positions count in steps: with another size the prompts that are under way would be drawn twice, or never.
        if self.backlog and state["prompts_per_step"] != self.prompts_per_step:
            raise Conflict(
                f"the checkpoint has {len(self.backlog)} prompts under way, drawn by {state['prompts_per_step']};"
                f" now {self.prompts_per_step} are drawn per step",
                metadata={"field": "data.train_batch_size"},
            )


def merge_draws(measured: Sequence[Metrics]) -> Metrics:
    """Return the metrics of a step's draws of prompts: times are added up, all others averaged."""
    found: Metrics = {}
    for name in dict.fromkeys(name for metrics in measured for name in metrics):
        values = [metrics[name] for metrics in measured if name in metrics]
        found[name] = sum(values) if name.startswith("timing_s/") else sum(values) / len(values)
    return found
