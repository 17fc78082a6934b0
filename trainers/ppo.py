"""PPO (arXiv 1707.06347) and its relatives: one loop, from prompts to a better policy.

``fit`` is: generate → reward → old log-probs → reference → values → KL in the reward → advantage → update critic →
update actor → publish → validate → save. Each is a small method; another algorithm overrides those that differ
(``trainers.rloo``, ``trainers.grpo``, ``trainers.prime``) and leaves the rest. The loop keeps no random state:
prompts follow from (seed, position), so a resume at any step, also at an epoch's end, draws what would have come.
Where episodes are sampled ahead of time, a checkpoint also names the prompts under way: a resume begins these anew
with the weights that it serves then, and no prompt of any epoch is left out or trained on twice.
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
    """Actor, and critic where advantages need one, trained on what a rollout source gives.

    ``role_worker_mapping`` says which worker class does which role, ``resource_pool_manager`` on how many ranks,
    and ``ray_worker_group_cls(worker, config, ranks)`` makes the group: on Ray, or in this process. ``reward_fn``
    scores episodes that come ungraded, ``val_reward_fn`` those of validations (else the same).
    """

    estimators: tuple[str, ...] = ESTIMATORS
    """Values of ``algorithm.adv_estimator`` that this trainer takes."""

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
        """Raises ``InvalidField`` naming a role that the settings need and the mapping lacks, or a wrong estimator."""
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
        """Prompts that were under way when the checkpoint was written that this training goes on from."""
        for role in self.roles():
            if role not in role_worker_mapping:
                raise InvalidField(f"role_worker_mapping.{role}", "is missing; these settings need it")

    # What there is to work with.

    def roles(self) -> list[Role]:
        """The learners that these settings need."""
        needed = [Role.ACTOR]
        if self.use_critic:
            needed.append(Role.CRITIC)
        if self.config.needs_reference:
            needed.append(Role.REF_POLICY)
        return needed

    def init_workers(self) -> None:
        """Makes the learners; raises what placing them raises, with the culprit's name."""
        groups = {role: self.make_group(role) for role in self.roles()}
        self.actor: ActorGroup = groups[Role.ACTOR]
        self.critic: CriticGroup | None = groups.get(Role.CRITIC)
        self.reference: ReferenceGroup | None = groups.get(Role.REF_POLICY)

    def make_group(self, role: Role) -> Any:
        """The workers of one role behind one object; schedules of learning rates end with the training."""
        length = self.config.trainer.model_copy(update={"total_training_steps": self.total_steps})
        config = self.config.model_copy(update={"trainer": length})
        try:
            group = self.group_factory(self.role_worker_mapping[role], config, self.pools.ranks(role))
        except NotReady as error:
            raise NotReady(f"learner {role}: {error.message}", metadata={"culprit": str(role)}) from error
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Ends the learners and gives their places back, also those of a training that could not begin."""
        while self._groups:
            self._groups.pop().close()

    @property
    def prompts_per_step(self) -> int:
        """Prompts that are drawn per step; PRIME draws more than it trains on."""
        return self.config.data.train_batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the prompts; raises ``InvalidField`` when there is none."""
        return self.around.train.batches(self.prompts_per_step)

    @property
    def total_steps(self) -> int:
        """Steps until the end: the cap, else all epochs."""
        trainer = self.config.trainer
        return trainer.total_training_steps or self.steps_per_epoch * trainer.total_epochs

    # The loop.

    def fit(self) -> Metrics:
        """Trains to the end and gives the last metrics; goes on from a checkpoint where there is one to go on from."""
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
        """One step with what belongs to its end; ``self.step`` counts it before validation and checkpoint."""
        metrics: Metrics = {}
        with timed(metrics, "step"):
            self.train_step(self.next_prompts(), metrics)
            if not self._warned and (said := warning(metrics, self.config)):
                self._warned = True
                self.around.warn(said)
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
        """From prompts to updated learners, top to bottom."""
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
        """At the end, and every ``frequency`` steps where that is not 0."""
        return self.step >= self.total_steps or bool(frequency and self.step % frequency == 0)

    # Its steps.

    def next_prompts(self) -> DataProto:
        """The next prompts with what a rollout must know: those that a kill cut short, then those of the next position.

        Behind the last position there are none to submit; those of this step say how many are wanted.
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
        """Episodes of whole groups, checked: from here on every field has the shape that ``DataProto`` says."""
        batch = self.rollouts.generate(prompts)
        batch.require("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
        empty = batch.tensor("response_mask").sum(dim=-1) == 0
        if bool(empty.any()):
            raise InvalidField("response_mask", f"row {int(empty.nonzero()[0])} has no sampled token")
        metrics |= batch.meta_info.get("metrics", {})
        batch = batch.with_meta(temperature=self.config.rollout.temperature)
        return batch if self.config.algorithm.state_masking else without_state_masking(batch)

    def compute_reward(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """``token_level_scores``: the source's, else ``reward_fn``'s. Raises ``InvalidField`` where there are none."""
        if "token_level_scores" in batch:
            scores = batch.tensor("token_level_scores")
        elif self.reward_fn is None:
            raise InvalidField("token_level_scores", "is missing: rollouts are not graded and there is no reward_fn")
        else:
            scores = self.reward_fn(batch)
        return batch.with_tensors(token_level_scores=checked_scores(scores, batch))

    def compute_old_log_prob(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """``old_log_probs`` of the policy before its update, and how far the rollout's own are from them."""
        batch, measured = old_log_probs(batch, self.actor, self.config)
        metrics |= measured
        return batch

    def apply_kl(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """``token_level_rewards``: scores, less KL where the settings want it in the reward and not in the loss."""
        if not self.config.algorithm.use_kl_in_reward:
            return batch.with_tensors(token_level_rewards=batch.tensor("token_level_scores"))
        batch, measured = apply_kl_penalty(batch, self.kl_ctrl, self.config.algorithm.kl_penalty)
        metrics |= measured
        return batch

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """``advantages`` and ``returns`` by the settings' estimator."""
        algorithm = self.config.algorithm
        return compute_advantage(
            batch,
            algorithm.adv_estimator,
            algorithm.gamma,
            algorithm.lam,
            norm_by_std=algorithm.norm_adv_by_std_in_grpo,
        )

    def publish(self) -> None:
        """Serves the actor's weights to whoever samples next."""
        self.rollouts.publish(self.actor.export)

    def validate(self) -> Metrics:
        """Mean score by data source over the validation prompts, sampled as ``rollout.val_temperature`` says."""
        if self.around.validation is None:
            return {}
        return validated(
            self.rollouts, self.around.validation, self.config, step=self.step, reward_fn=self.val_reward_fn
        )

    # What outlives a process.

    def learners(self) -> dict[str, Any]:
        """The groups whose state a checkpoint holds, by the name of their folder."""
        return {"actor": self.actor} | ({"critic": self.critic} if self.critic is not None else {})

    def identity(self) -> dict[str, str]:
        """What a checkpoint must be of, so that this training may go on from it."""
        return {"model": self.config.model.name, "algorithm": self.config.algorithm.adv_estimator}

    def state(self) -> dict[str, Any]:
        """What the loop itself must remember: positions, and which prompts were drawn and not trained on."""
        return {
            "step": self.step,
            **self.identity(),
            "kl_coef": self.kl_ctrl.value,
            "submitted": self.submitted,
            "pending": self.rollouts.pending(),
            "prompts_per_step": self.prompts_per_step,
        }

    def save_checkpoint(self) -> None:
        """Learners and loop, whole or not at all."""
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
        """Goes on where the settings say; without a checkpoint to go on from the start is step 0."""
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
