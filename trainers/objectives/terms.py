"""The policy loss as a sum of terms, in the form in which an algorithm sends it to the learner's ranks.

A term is a pure function of a micro-batch. Module-level functions, and ``functools.partial`` of them, are pickled by
name, so that a loss also reaches ranks in other processes and on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import ActorConfig
from fathom.trainers.objectives.kl import Kind, kind_named
from fathom.trainers.objectives.policy_loss import (
    Aggregation,
    PolicyLoss,
    RatioLevel,
    Totals,
    aggregate,
    cispo_loss,
    kl_loss,
    policy_loss,
)


@dataclass(frozen=True)
class LossInput:
    """A micro-batch with the policy's scores of its response tokens; B rows, T response columns."""

    rows: DataProto
    """``response_mask``, ``advantages``, ``old_log_probs`` and the fields that the algorithm's hooks have added."""
    log_probs: Tensor
    """Log-probabilities under the policy being trained, [B, T] float32 with gradient, 0 outside the mask."""
    entropy: Tensor | None
    """Entropy of each token's distribution, [B, T] float32 with gradient; None unless a term needs it."""
    totals: Totals
    """Denominators of the whole mini-batch over all ranks, by which a term divides its sums."""


LossFunction = Callable[[LossInput], tuple[Tensor, dict[str, float]]]
"""Returns the micro-batch's share of the loss, a scalar with gradient, and its shares of metrics by name.

Shares are added up over micro-batches and ranks, so that the result does not depend on the split.
"""


@dataclass(frozen=True)
class LossTerm:
    """One summand of a policy loss."""

    function: LossFunction
    needs_entropy: bool = False
    """Compute the entropies, which costs another softmax over the vocabulary per token."""
    needs_advantage: bool = False
    """The term is 0 on rows whose advantages are all 0; when all terms are, such rows are not even computed."""

    def __call__(self, given: LossInput) -> tuple[Tensor, dict[str, float]]:
        """Compute the term; raises ``InvalidField("loss")`` naming a function whose value is not a scalar."""
        value, metrics = self.function(given)
        # backward() would fail on it as well, but names neither the term nor the algorithm.
        if value.dim():
            raise InvalidField("loss", f"{name_of(self.function)} returned shape {list(value.shape)}, not a scalar")
        return value, metrics


def clipped_loss(config: ActorConfig) -> tuple[LossTerm, ...]:
    """Return the loss of the settings: the clipped objective, or CISPO's, and the configured regularisers."""
    clipped = partial(
        clipped_objective,
        clip_low=config.clip_ratio_low,
        clip_high=config.clip_ratio_high,
        dual_clip=config.clip_ratio_c or 0.0,
        mode=config.loss_agg_mode,
        level=config.ratio_level,
    )
    if config.loss_mode == "cispo":
        clipped = partial(
            cispo_objective,
            clip_low=config.clip_ratio_low,
            clip_high=config.clip_ratio_high,
            mode=config.loss_agg_mode,
            level=config.ratio_level,
        )
    # Every summand of either objective has the advantage as a factor, also the one of the dual clip.
    return (LossTerm(clipped, needs_advantage=True), *regularisers(config))


def regularisers(config: ActorConfig) -> tuple[LossTerm, ...]:
    """Return the terms that any policy loss can be combined with: entropy bonus and KL penalty, as configured."""
    terms = []
    if config.entropy_coeff > 0:
        bonus = partial(entropy_bonus, weight=config.entropy_coeff, mode=config.loss_agg_mode)
        # No needs_advantage here or below: a row without advantage still has an entropy and a distance to the
        # reference.
        terms.append(LossTerm(bonus, needs_entropy=True))
    if config.use_kl_loss:
        penalty = partial(
            kl_penalty,
            weight=config.kl_loss_coef,
            kind=kind_named(config.kl_loss_type),
            mode=config.loss_agg_mode,
            weighted=config.kl_loss_weighted,
        )
        terms.append(LossTerm(penalty))
    return tuple(terms)


def clipped_objective(
    given: LossInput,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float = 0.0,
    mode: Aggregation = "token-mean",
    level: RatioLevel = "token",
) -> tuple[Tensor, dict[str, float]]:
    """Compute PPO's clipped objective (``policy_loss``), weighted by ``rollout_is_weights`` where there are any."""
    rows, mask = given.rows, given.rows.tensor("response_mask")
    found = policy_loss(
        given.log_probs,
        rows.tensor("old_log_probs"),
        rows.tensor("advantages"),
        mask,
        given.totals,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
        weights=rows.batch.get("rollout_is_weights"),
        mode=mode,
        level=level,
    )
    return found.loss, share_metrics(given, found)


def cispo_objective(
    given: LossInput,
    *,
    clip_low: float,
    clip_high: float,
    mode: Aggregation = "token-mean",
    level: RatioLevel = "token",
) -> tuple[Tensor, dict[str, float]]:
    """Compute CISPO's objective (``cispo_loss``), weighted by ``rollout_is_weights`` where there are any."""
    rows = given.rows
    found = cispo_loss(
        given.log_probs,
        rows.tensor("old_log_probs"),
        rows.tensor("advantages"),
        rows.tensor("response_mask"),
        given.totals,
        clip_low=clip_low,
        clip_high=clip_high,
        weights=rows.batch.get("rollout_is_weights"),
        mode=mode,
        level=level,
    )
    return found.loss, share_metrics(given, found)


def share_metrics(given: LossInput, found: PolicyLoss) -> dict[str, float]:
    """Return the micro-batch's shares of the metrics of a policy loss."""
    # The fractions are means over this micro-batch's tokens: as shares of the mini-batch's tokens they can be added up.
    share = float(given.rows.tensor("response_mask").sum()) / max(given.totals.tokens, 1.0)
    return {
        "actor/pg_loss": float(found.loss.detach()),
        "actor/pg_clipfrac": float(found.clip_fraction) * share,
        "actor/pg_clipfrac_lower": float(found.clip_fraction_lower) * share,
        "actor/ppo_kl": float(found.approx_kl) * share,
    }


def entropy_bonus(
    given: LossInput, *, weight: float, mode: Aggregation = "token-mean"
) -> tuple[Tensor, dict[str, float]]:
    """Compute the entropy bonus, a negative loss; raises ``InvalidField("entropy")`` when it was not computed."""
    if given.entropy is None:
        raise InvalidField("entropy", "was not computed: set needs_entropy on the term")
    bonus = aggregate(given.entropy, given.rows.tensor("response_mask"), given.totals, mode)
    return -weight * bonus, {"actor/entropy_loss": float(bonus.detach())}


def kl_penalty(
    given: LossInput,
    *,
    weight: float,
    kind: Kind = "k3",
    mode: Aggregation = "token-mean",
    weighted: bool = False,
) -> tuple[Tensor, dict[str, float]]:
    """Compute the KL penalty against the rows' ``ref_log_prob``; ``weighted`` by the ratio to ``old_log_probs``."""
    rows = given.rows
    reference, mask = rows.tensor("ref_log_prob"), rows.tensor("response_mask")
    old = rows.tensor("old_log_probs") if weighted else None
    distance = kl_loss(given.log_probs, reference, mask, given.totals, kind=kind, mode=mode, old_log_probs=old)
    return weight * distance, {"actor/kl_loss": float(distance.detach())}


def check_loss(terms: Sequence[LossTerm]) -> tuple[LossTerm, ...]:
    """Return the terms; raises ``InvalidField("loss")`` when there are none, or something else than a term."""
    if not terms:
        raise InvalidField("loss", "has no term: the policy would not be trained")
    for term in terms:
        if not isinstance(term, LossTerm):
            raise InvalidField("loss", f"{term!r} is not a LossTerm")
    return tuple(terms)


def name_of(function: Any) -> str:
    """Return a function's name for error messages, also of a partial one."""
    plain = function.func if isinstance(function, partial) else function
    return str(getattr(plain, "__qualname__", plain))
