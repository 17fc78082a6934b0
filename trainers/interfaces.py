"""Interfaces of a training loop: roles, resource pools, rollout source, learners, reward functions, checkpoints.

The loop of ``algorithms.ppo`` depends on these only. ``rollouts`` and ``search_r1`` implement rollouts,
``learners.ranks.groups`` learners; tests use scripted ones. Shapes: B rows, P prompt columns, T response columns
(``batch``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.terms import LossTerm

Metrics = dict[str, float]


class Role(StrEnum):
    """Roles of a trainer's workers; verl's names."""

    ACTOR = "actor"
    CRITIC = "critic"
    REF_POLICY = "ref_policy"
    REWARD_MODEL = "reward_model"


@dataclass(frozen=True)
class ResourcePoolManager:
    """Assignment of roles to pools of ranks: ``spec`` gives ranks by pool, ``mapping`` the pool of each role.

    Raises ``InvalidField`` naming a role mapped to an unknown pool, or a pool without ranks.
    """

    spec: Mapping[str, int]
    mapping: Mapping[Role, str]

    def __post_init__(self) -> None:
        for role, pool in self.mapping.items():
            if pool not in self.spec:
                raise InvalidField(f"resource_pool.{role}", f"is pool {pool!r}; there are {sorted(self.spec)}")
        for pool, ranks in self.spec.items():
            if ranks < 1:
                raise InvalidField(f"resource_pool.{pool}", f"has {ranks} ranks")

    def ranks(self, role: Role) -> int:
        """Return the number of ranks in the role's pool; raises ``InvalidField`` for a role without one."""
        if role not in self.mapping:
            raise InvalidField(f"resource_pool.{role}", f"is missing; there are {sorted(self.mapping)}")
        return self.spec[self.mapping[role]]


@runtime_checkable
class RolloutSource(Protocol):
    """Source of episodes for prompts; the agent loop between prompt and reward is internal to it.

    ``ahead`` is the number of prompt batches the source needs beyond the one it returns: 0 for synchronous sources,
    more for those that sample while the learners train. The loop calls ``submit`` that many times before the first
    ``generate``. After a resume, prompts ``pending`` at the checkpoint come first, so that over a whole training each
    prompt of each epoch is returned exactly once, wherever the run was killed.
    """

    @property
    def ahead(self) -> int: ...

    def submit(self, prompts: DataProto) -> None:
        """Accept prompts without waiting for their episodes; never called when ``ahead`` is 0."""
        ...

    def pending(self) -> list[str]:
        """Return the ``uid`` of each prompt submitted and not yet returned, in order of submission."""
        ...

    def generate(self, prompts: DataProto) -> DataProto:
        """Submit one row per prompt and return as many groups of episodes, of any submitted prompts.

        With ``meta_info["submitted"]`` nothing is submitted: near the end, the pending prompts suffice.
        ``prompts.non_tensor_batch`` has ``uid`` (unique per prompt occurrence), ``raw_prompt`` (chat), ``data_source``,
        ``reward_model`` and ``extra_info`` (see ``fathom.trainers.data.records``), and ``prompts`` [B, P] when the loop
        has a tokenizer. ``meta_info`` has ``n`` (episodes per prompt), ``step``, ``seed``, ``validate`` (bool),
        ``temperature`` and ``top_p``, which also apply to validation.

        Returns B * n rows, group-major, with the prompts' non-tensor fields, ``prompts``, ``responses``, ``input_ids``,
        ``attention_mask``, ``position_ids``, ``response_mask``, ``rollout_log_probs`` if known, and, from a source that
        grades, ``token_level_scores`` [B * n, T] (the score is on the last model token) with ``acc`` [B * n]. Further
        rewards by component are float arrays named ``reward/<component>``; rollout metrics are
        ``meta_info["metrics"]``. The rows (segments) of one episode share the non-tensor ``episode``, and each carries
        the episode's full score.

        Raises typed errors; non-retryable ones end the training.
        """
        ...

    def publish(self, write: Callable[[Path], None]) -> int:
        """Publish new weights and return their version.

        ``write`` fills a folder with safetensors, config and tokenizer.
        """
        ...

    def close(self) -> None:
        """Cancel everything in flight."""
        ...


class Learner(Protocol):
    """Checkpointing of a worker group; folders hold at least one file per rank, and methods are called on all ranks."""

    def save_checkpoint(self, folder: Path) -> None: ...

    def load_checkpoint(self, folder: Path) -> None: ...


class ActorGroup(Learner, Protocol):
    """Interface of the policy under training."""

    def use_loss(self, terms: Sequence[LossTerm]) -> None:
        """Train with the sum of these terms; called once, before the first update, on all ranks."""
        ...

    def compute_log_prob(self, data: DataProto) -> DataProto:
        """Compute ``old_log_probs`` and ``entropys``, both [B, T] float32."""
        ...

    def update_policy(self, data: DataProto) -> Metrics:
        """Run all mini-batches and epochs of one step; return metrics under ``actor/``."""
        ...

    def export(self, folder: Path) -> None:
        """Save weights, config and tokenizer for an inference engine."""
        ...


class CriticGroup(Learner, Protocol):
    """Interface of the value function under training."""

    def compute_values(self, data: DataProto) -> DataProto:
        """Compute ``values`` [B, T] float32."""
        ...

    def update_critic(self, data: DataProto) -> Metrics:
        """Run all mini-batches and epochs of one step; return metrics under ``critic/``."""
        ...


class ReferenceGroup(Protocol):
    """Interface of the frozen reference policy."""

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        """Compute ``ref_log_prob`` [B, T] float32."""
        ...


class WorkerGroupFactory(Protocol):
    """Factory of one role's worker group with a number of ranks, such as ``LocalGroup``."""

    def __call__(self, worker: Any, config: Any, ranks: int) -> Any: ...


class RewardFunction(Protocol):
    """Reward function such as ``RewardManager``: [B, T] float32, 0 except on last model tokens."""

    def __call__(self, data: DataProto) -> Any: ...


class Checkpoints(Protocol):
    """Checkpoint storage: checkpoints are atomic, and the newest is found again after a crash at any moment."""

    def save(self, step: int, folder: Path, state: Mapping[str, Any]) -> None:
        """Save the folder's files and ``state`` (plain JSON) as the checkpoint of ``step``."""
        ...

    def load(self, folder: Path, name: str | None = None) -> Mapping[str, Any] | None:
        """Load the newest checkpoint, or the named one, into the folder and return its state.

        Returns None when there is none; raises ``NotFound`` for an unknown name.
        """
        ...
