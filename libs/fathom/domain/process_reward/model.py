"""The implicit process reward model: a causal language model phi and its frozen reference.

q = log phi - log ref of every sampled token; ``rewards``, ``losses`` and ``accuracy`` build on it. Source: arXiv
2412.01981, 2502.01456.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils import clip_grad_norm_

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.accuracy import compute_dpo_abs_accuracy, compute_dpo_accuracy
from fathom.domain.process_reward.losses import compute_ce_dpo_loss_rm, compute_detach_dpo_loss_rm
from fathom.domain.process_reward.masked import row_sums
from fathom.domain.process_reward.rewards import implicit_rewards, prime_norm, token_level_scores
from fathom.domain.process_reward.sequences import Sequences, micro_batches

Loss = Literal["ce", "dpo", "bon_acc", "bon_rm"]


@dataclass(frozen=True)
class Scoring:
    """Settings that turn q into rewards, with the names and values of PRIME's recipe."""

    beta: float = 0.05
    """Scale of the log-ratio."""
    lam: float = 0.0
    """0 gives r = beta q; above it r = beta q + lam r', computed backwards."""
    use_ground_truth: bool = False
    """Make each row's terms sum to its outcome (``lam`` above 0 only)."""
    granularity: Literal["token", "whole"] = "token"
    include_last_token: bool = False
    """Reward the last sampled token too; PRIME's recipe does not."""
    norm: Literal["batch_norm", "none"] = "batch_norm"


@dataclass(frozen=True)
class Learning:
    """Training settings of phi."""

    loss: Loss = "ce"
    bon_reduction: Literal["sum", "mean"] = "mean"
    lr: float = 1e-6
    weight_decay: float = 0.0
    grad_clip: float = 10.0
    """Maximum norm of the gradient."""
    mini_rows: int = 0
    """Rows per optimiser step; 0 takes all."""
    max_tokens: int = 16_384
    """Padded tokens of one forward pass."""


@dataclass(frozen=True)
class Scored:
    """``rewards`` and ``q`` [B, S] float32 without gradient, 0 off the mask; metrics by the recipe's names."""

    rewards: Tensor
    q: Tensor
    metrics: Mapping[str, float]


def log_probs(network: Module, batch: Sequences) -> Tensor:
    """Return the log-probability of each token given those before it, [B, S] float32, 0 at the first; with gradient."""
    # Positions count tokens, not padding, so that padding on either side changes nothing.
    positions = (batch.attention_mask.cumsum(dim=-1) - 1).clamp(min=0)
    logits = network(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, position_ids=positions, use_cache=False
    ).logits[:, :-1]
    # The logarithm of the chosen token alone, less the sum over the vocabulary: a log-softmax of all logits would take
    # as much memory again as they do.
    chosen = logits.gather(-1, batch.input_ids[:, 1:].unsqueeze(-1)).squeeze(-1).to(torch.float32)
    return torch.nn.functional.pad(chosen - torch.logsumexp(logits.to(torch.float32), dim=-1), (1, 0))


def forward_q(phi: Module, batch: Sequences, reference: Module | None, ref_log_probs: Tensor | None = None) -> Tensor:
    """Return q [B, S] float32 with gradient through phi alone, 0 off the mask.

    Without a reference network ``ref_log_probs`` [B, S] replace it, e.g. the old policy's. Raises
    ``InvalidField("ref_log_probs")`` when there is neither, or their shape differs.
    """
    if reference is not None:
        with torch.no_grad():
            ref_log_probs = log_probs(reference, batch)
    if ref_log_probs is None or ref_log_probs.shape != batch.input_ids.shape:
        raise InvalidField("ref_log_probs", f"must be {list(batch.input_ids.shape)} where there is no reference model")
    return torch.where(batch.mask.bool(), log_probs(phi, batch) - ref_log_probs, 0.0)


class ImplicitRewardModel:
    """phi with its optimiser, and the reference. Not thread-safe.

    ``phi`` and ``reference`` are causal language models of the same vocabulary; the reference is frozen here, and with
    None the callers pass its log-probabilities. phi is in eval mode for scores, in train mode for steps.
    """

    def __init__(
        self, phi: Module, reference: Module | None, scoring: Scoring | None = None, learning: Learning | None = None
    ) -> None:
        self.phi, self.reference = phi, reference
        self.scoring, self.learning = scoring or Scoring(), learning or Learning()
        if reference is not None:
            # Frozen for good: dropout off, and no gradients that an optimiser could use by mistake.
            reference.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(
            phi.parameters(), lr=self.learning.lr, betas=(0.9, 0.999), weight_decay=self.learning.weight_decay
        )

    @torch.no_grad()
    def q(self, batch: Sequences, ref_log_probs: Tensor | None = None) -> Tensor:
        """Return q [B, S] without gradient, rows in input order however they were batched."""
        found = torch.zeros(batch.input_ids.shape, dtype=torch.float32, device=batch.input_ids.device)
        with mode(self.phi, training=False):
            for rows in self.passes(batch.lengths):
                part, start, end = batch.rows(rows)
                known = None if ref_log_probs is None else ref_log_probs[rows, start:end]
                found[rows, start:end] = forward_q(self.phi, part, self.reference, known)
        return found

    def score(
        self,
        batch: Sequences,
        n_samples: int,
        outcome: Tensor | None = None,
        *,
        ref_log_probs: Tensor | None = None,
        largest: Tensor | None = None,
    ) -> Scored:
        """Score whole groups of ``n_samples`` rows; ``outcome`` [B] in [0, 1] adds the accuracies.

        ``largest`` is the norm's maximum over all ranks. Raises ``InvalidField("outcome")`` where the settings need one
        and there is none.
        """
        q = self.q(batch, ref_log_probs)
        rewards = self.rewards(q, batch.mask, outcome, largest)
        metrics = {
            "reward_model/reward": float(row_sums(rewards, batch.mask).mean()),
            "reward_model/raw_reward": float(row_sums(q, batch.mask).mean()),
        }
        if outcome is not None:
            metrics |= accuracies(rewards, batch.mask, outcome, n_samples)
        return Scored(rewards, q, metrics)

    def rewards(self, q: Tensor, mask: Tensor, outcome: Tensor | None = None, largest: Tensor | None = None) -> Tensor:
        """Return the rewards [B, S] of q according to the settings.

        Raises ``InvalidField("outcome")`` where the settings need one and there is none.
        """
        scoring = self.scoring
        if scoring.use_ground_truth and scoring.lam and outcome is None:
            raise InvalidField("outcome", "is needed: the rewards of a row shall sum to it")
        truth = outcome if scoring.use_ground_truth and scoring.lam else None
        process = implicit_rewards(q, mask, beta=scoring.beta, lam=scoring.lam, outcome=truth)
        placed = token_level_scores(
            process, mask, granularity=scoring.granularity, include_last_token=scoring.include_last_token
        )
        return prime_norm(placed, scoring.norm, largest)

    def update(
        self,
        batch: Sequences,
        outcome: Tensor,
        n_samples: int,
        ref_log_probs: Tensor | None = None,
        groups: Groups | None = None,
    ) -> Scored:
        """Train one pass over the rows in order, one optimiser step per mini-batch.

        Returns the scores before the first step; metrics have the recipe's names. ``outcome`` [B] float in [0, 1]. dpo
        and bon_* compare with the group's sums of q before the first step, or with ``groups`` where they were computed
        earlier.
        """
        before = self.q(batch, ref_log_probs)
        rewards = self.rewards(before, batch.mask, outcome)
        found = accuracies(rewards, batch.mask, outcome, n_samples)
        metrics = {f"{name}_before": value for name, value in found.items()}
        groups = groups or Groups.of(row_sums(before, batch.mask), outcome, n_samples)
        size = self.learning.mini_rows or len(batch)
        steps = [
            self.step(batch, outcome, groups, range(start, min(start + size, len(batch))), ref_log_probs)
            for start in range(0, len(batch), size)
        ]
        metrics["reward_model/dpo_loss"] = sum(loss for loss, _ in steps) / len(steps)
        metrics["reward_model/grad_norm"] = sum(norm for _, norm in steps) / len(steps)
        return Scored(rewards, before, metrics | {"rm/lr": float(self.optimizer.param_groups[0]["lr"])})

    def step(
        self, batch: Sequences, outcome: Tensor, groups: Groups, rows: range, ref_log_probs: Tensor | None = None
    ) -> tuple[float, float]:
        """Take one optimiser step on these rows; return its loss and the norm of its gradient before clipping.

        The gradient is that of the whole mini-batch however it is cut into passes: each is weighted by its rows.
        """
        self.optimizer.zero_grad(set_to_none=True)
        total, lengths, together = 0.0, batch.lengths, self.rows_together(len(rows))
        with mode(self.phi, training=True):
            for chosen in self.passes([lengths[row] for row in rows]):
                picked = [rows[index] for index in chosen]
                part, start, end = batch.rows(picked)
                known = None if ref_log_probs is None else ref_log_probs[picked, start:end]
                q = forward_q(self.phi, part, self.reference, known)
                loss = self.loss(q, part.mask, outcome[picked], groups.rows(picked))
                # A sum over rows needs no weight; a mean counts as many as it has.
                loss = loss if self.is_summed else loss * (len(picked) / together)
                loss.backward()
                total += float(loss.detach())
        total = self.gather_gradients(total)
        norm = self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total, norm

    def passes(self, lengths: Sequence[int]) -> list[list[int]]:
        """Return the row numbers of each forward pass."""
        return micro_batches(lengths, self.learning.max_tokens)

    def clip(self) -> float:
        """Clip the gradient; return its norm before."""
        return float(clip_grad_norm_(self.phi.parameters(), self.learning.grad_clip))

    def rows_together(self, rows: int) -> int:
        """Return the rows of the mini-batch over all ranks; here there is one rank."""
        return rows

    def gather_gradients(self, loss: float) -> float:
        """Sum gradients and loss over all ranks; here there is one rank."""
        return loss

    @property
    def is_summed(self) -> bool:
        """True when the loss is a sum over rows."""
        return self.learning.loss.startswith("bon") and self.learning.bon_reduction == "sum"

    def loss(self, q: Tensor, mask: Tensor, outcome: Tensor, groups: Groups) -> Tensor:
        """Compute the loss chosen by the settings, a scalar; raise ``InvalidField("loss_type")``."""
        beta, name = self.scoring.beta, self.learning.loss
        if name == "ce":
            return compute_ce_dpo_loss_rm(q, outcome, mask, beta)
        if name not in ("dpo", "bon_acc", "bon_rm"):
            raise InvalidField("loss_type", f"{name!r} is not one of ce, dpo, bon_acc, bon_rm")
        return compute_detach_dpo_loss_rm(
            q,
            outcome,
            groups.q,
            groups.outcome,
            mask,
            beta,
            bon_mode="none" if name == "dpo" else name,
            bon_reduction=self.learning.bon_reduction,
        )

    def state(self) -> dict[str, Any]:
        """Return the state that the next step depends on: phi and its optimiser."""
        return {"phi": self.phi.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Load a state; raise ``RuntimeError`` or ``KeyError`` when it belongs to another model."""
        self.phi.load_state_dict(state["phi"])
        self.optimizer.load_state_dict(dict(state["optimizer"]))


@dataclass(frozen=True)
class Groups:
    """Group data of each row: sums of q before the update and outcomes, both [B, n]."""

    q: Tensor
    outcome: Tensor

    @classmethod
    def of(cls, sums: Tensor, outcome: Tensor, n_samples: int) -> Groups:
        """Build from ``sums`` and ``outcome`` [B] in group order."""
        return cls(*(one.view(-1, n_samples).repeat_interleave(n_samples, dim=0) for one in (sums, outcome)))

    def rows(self, indices: list[int]) -> Groups:
        """Return the data of some rows, each with its whole group."""
        return Groups(self.q[indices], self.outcome[indices])


def accuracies(rewards: Tensor, mask: Tensor, outcome: Tensor, n_samples: int) -> dict[str, float]:
    """Return pairwise and sign accuracy of rewards against outcomes; pairwise only for groups above one."""
    found = {"reward_model/dpo_acc_abs": float(compute_dpo_abs_accuracy(rewards, outcome, mask))}
    if n_samples > 1:
        found["reward_model/dpo_acc"] = float(compute_dpo_accuracy(rewards, outcome, mask, n_samples))
    return found


@contextmanager
def mode(network: Module, *, training: bool) -> Iterator[None]:
    """Switch the network to train or eval mode within the block."""
    was = network.training
    network.train(training)
    try:
        yield
    finally:
        network.train(was)
