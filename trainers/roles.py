"""What a training loop is made of: roles, where their workers run, and what the loop asks of each.

The loop of ``trainers.ppo`` knows only these interfaces. ``trainers.rollouts`` and ``trainers.search_r1`` give
rollouts, ``trainers.workers`` gives learners; tests give scripted ones. Shapes: B rows, P prompt columns,
T response columns (``trainers.data_proto``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fathom.errors import InvalidField
from trainers.data_proto import DataProto

Metrics = dict[str, float]


class Role(StrEnum):
    """Who works for a trainer; verl's names."""

    ACTOR = "actor"
    CRITIC = "critic"
    REF_POLICY = "ref_policy"
    REWARD_MODEL = "reward_model"
    ROLLOUT = "rollout"


@dataclass(frozen=True)
class ResourcePoolManager:
    """Which role's workers share which pool of ranks: ``spec`` ranks by pool, ``mapping`` pool by role.

    Raises ``InvalidField`` naming a role that is mapped to a pool which is not there.
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
        """Ranks of the role's pool; raises ``InvalidField`` for a role without one."""
        if role not in self.mapping:
            raise InvalidField(f"resource_pool.{role}", f"is missing; there are {sorted(self.mapping)}")
        return self.spec[self.mapping[role]]


@runtime_checkable
class RolloutSource(Protocol):
    """Episodes for prompts. The loop holds no agent: what happens between prompt and reward is the source's.

    ``ahead`` is how many batches of prompts the source wants beyond the one whose episodes it gives: 0 with a
    barrier, more when it samples while the learners learn. The loop calls ``submit`` so often before the first
    ``generate``. After a resume the prompts that were ``pending`` at the checkpoint come first, so that over a whole
    training each prompt of each epoch is given out once, wherever it was killed.
    """

    @property
    def ahead(self) -> int: ...

    def submit(self, prompts: DataProto) -> None:
        """Takes prompts without waiting for their episodes. Never called when ``ahead`` is 0."""
        ...

    def pending(self) -> list[str]:
        """``uid`` of each prompt that was submitted and not given out, in the order of submission."""
        ...

    def generate(self, prompts: DataProto) -> DataProto:
        """Submits one row per prompt and gives as many groups of episodes, of any prompts that were submitted.

        With ``meta_info["submitted"]`` the prompts are not submitted: the end is near, and what is pending is enough.
        ``prompts.non_tensor_batch`` has ``uid`` (a fresh id per prompt occurrence), ``raw_prompt`` (chat),
        ``data_source``, ``reward_model`` and ``extra_info`` (SR33); ``prompts`` [B, P] too where a tokenizer
        is known to the loop. ``meta_info`` has ``n`` (episodes per prompt), ``step``, ``seed``, ``validate``
        (bool), ``temperature`` and ``top_p``: a validator's sampling is said here, and nowhere else.

        Gives B * n rows, group-major, with the prompts' non-tensor fields, ``prompts``, ``responses``,
        ``input_ids``, ``attention_mask``, ``position_ids``, ``response_mask``, and, where they are known,
        ``rollout_log_probs``, and from a graded source ``token_level_scores`` [B * n, T] (the score stands on the
        last model token) with ``acc`` [B * n]. Further rewards by component are float arrays named
        ``reward/<component>``; metrics of the rollout are ``meta_info["metrics"]``. An episode of several rows
        (segments) has the same non-tensor ``episode`` in each of them and its whole score in each.
        Raises typed errors; contract errors are fatal to the loop.
        """
        ...

    def publish(self, write: Callable[[Path], None]) -> int:
        """Serves new weights: ``write`` fills a folder with safetensors, config and tokenizer. Gives the version."""
        ...

    def close(self) -> None:
        """Stops what is under way."""
        ...


class Learner(Protocol):
    """State of a worker group. Folders hold one file or more per rank; each method is called on all ranks."""

    def save_checkpoint(self, folder: Path) -> None: ...

    def load_checkpoint(self, folder: Path) -> None: ...


class ActorGroup(Learner, Protocol):
    """The policy under training."""

    def compute_log_prob(self, data: DataProto) -> DataProto:
        """``old_log_probs`` and ``entropys``, both [B, T] float32."""
        ...

    def update_policy(self, data: DataProto) -> Metrics:
        """All mini-batches and epochs of one step; metrics under ``actor/``."""
        ...

    def export(self, folder: Path) -> None:
        """Weights, config and tokenizer as an inference engine loads them."""
        ...


class CriticGroup(Learner, Protocol):
    """The value function under training."""

    def compute_values(self, data: DataProto) -> DataProto:
        """``values`` [B, T] float32."""
        ...

    def update_critic(self, data: DataProto) -> Metrics:
        """Metrics under ``critic/``."""
        ...


class ReferenceGroup(Protocol):
    """The frozen policy."""

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        """``ref_log_prob`` [B, T] float32."""
        ...


class WorkerGroupFactory(Protocol):
    """Makes the workers of one role, such as ``trainers.workers.LocalGroup``: ``ranks`` of them behind one object."""

    def __call__(self, worker: Any, config: Any, ranks: int) -> Any: ...


class RewardFunction(Protocol):
    """Scores of a batch, such as ``trainers.search_r1.RewardManager``: [B, T] float32, 0 but at last model tokens."""

    def __call__(self, data: DataProto) -> Any: ...


class Checkpoints(Protocol):
    """Where checkpoints are: whole ones only, the newest found again after a crash at any moment."""

    def save(self, step: int, folder: Path, state: Mapping[str, Any]) -> None:
        """Keeps the folder's files and ``state`` (plain JSON) as the checkpoint of ``step``."""
        ...

    def load(self, folder: Path, name: str | None = None) -> Mapping[str, Any] | None:
        """Fills the folder from the newest checkpoint, or from that of this name, and gives its state.

        None when there is none; raises ``NotFound`` for a name that is not there.
        """
        ...
