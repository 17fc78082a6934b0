"""Interfaces of a training loop: roles, resource pools, rollout source, learners, reward functions, checkpoints.

The loop of ``algorithms.ppo`` depends on these only. ``rollouts`` and ``search_r1`` implement rollouts,
``learners.ranks.groups`` learners; tests use scripted ones. Shapes: B rows, P prompt columns, T response columns
(``batch``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.terms import LossTerm
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder

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

    def publish(
        self,
        write: Callable[[StoreFolder], StoredFiles],
        write_base: Callable[[StoreFolder], StoredFiles] | None = None,
    ) -> int:
        """Publish new weights and return their version.

        ``write`` uploads safetensors, config and tokenizer into a folder of the object store. With ``write_base`` it
        uploads an adapter, and ``write_base`` the weights to which the adapter is added.
        """
        ...

    def close(self) -> None:
        """Cancel everything in flight."""
        ...


class Learner(Protocol):
    """Files of a worker group: ranks read and write the object store by themselves, since they share no disk."""

    def upload(self, method: str, target: StoreFolder) -> StoredFiles:
        """Call a method of every rank's worker that writes a folder, such as ``export``, and upload the files."""
        ...

    def settle(self) -> None:
        """Wait until the store has all that was uploaded."""
        ...

    def restore(self, source: StoredFolder) -> None:
        """Load on every rank what ``upload("save_checkpoint", …)`` stored, on any number of ranks."""
        ...


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


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's files, which those who load them fetch, and the loop's state."""

    folder: StoredFolder
    state: Mapping[str, Any]


class Checkpoints(Protocol):
    """Checkpoint storage: checkpoints are atomic, and the newest is found again after a crash at any moment."""

    def save(self, step: int, write: Callable[[StoreFolder], StoredFiles], state: Mapping[str, Any]) -> None:
        """Save the files that ``write`` uploads, and ``state`` (plain JSON), as the checkpoint of ``step``."""
        ...

    def load(self, name: str | None = None) -> Checkpoint | None:
        """Return the newest checkpoint, or the named one.

        Returns None when there is none; raises ``NotFound`` for an unknown name.
        """
        ...
