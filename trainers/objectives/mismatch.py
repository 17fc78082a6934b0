"""Mismatch between the learner's token probabilities and the rollout engine's.

Both should be the same policy: where they differ before any step, PPO's ratios no longer measure the policy's change
alone. A bfloat16 learner with a float32 sampler suffices to cause it, as may different kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.policy_loss import RatioLevel, log_ratios

FIRST_PASS = "mismatch_of_first_pass"  # noqa: S105 - a key of meta_info
"""Key of ``meta_info``: measure the mismatch in the update's first pass, because nothing was computed before it."""


OLD_IS_FIRST_PASS = "old_log_probs_of_first_pass"  # noqa: S105 - a key of meta_info
"""Key of ``meta_info``: the policy before its update is that of the update's pass, since there is one update."""


@dataclass(frozen=True)
class Mismatch:
    """Sums over sampled tokens, which can be added up over micro-batches; ``largest`` is a maximum."""

    tokens: float = 0.0
    distance: float = 0.0
    largest: float = 0.0
    k1: float = 0.0
    k3: float = 0.0
    outside: float = 0.0

    @classmethod
    def of(
        cls,
        rollout: Tensor,
        learner: Tensor,
        mask: Tensor,
        clip_low: float,
        clip_high: float,
        level: RatioLevel = "token",
    ) -> Mismatch:
        """Compute from log-probabilities [B, T] in nats where ``mask`` is 1.

        ``outside`` counts tokens whose ratio p_learner / p_rollout is outside [1 - clip_low, 1 + clip_high]; the ratio
        is that of the ``level`` at which the loss clips.
        """
        chosen = mask.bool()
        # float64, since the differences of interest are around 1e-4 and are summed over up to millions of tokens.
        ours, theirs = learner.detach()[chosen].double(), rollout[chosen].double()
        if not len(ours):
            return cls()
        distance, log_ratio = (ours.exp() - theirs.exp()).abs(), ours - theirs
        ratio = log_ratio.exp()
        clipped = log_ratios(learner.detach().double(), rollout.double(), mask, level)[chosen].exp()
        return cls(
            float(len(ours)),
            float(distance.sum()),
            float(distance.max()),
            # The tokens were sampled by the rollout's policy p, hence log p - log q is an unbiased estimate of KL(p ||
            # q).
            float(-log_ratio.sum()),
            float((ratio - log_ratio - 1.0).sum()),
            float(((clipped < 1.0 - clip_low) | (clipped > 1.0 + clip_high)).sum()),
        )

    def __add__(self, other: Mismatch) -> Mismatch:
        return Mismatch(
            self.tokens + other.tokens,
            self.distance + other.distance,
            max(self.largest, other.largest),
            self.k1 + other.k1,
            self.k3 + other.k3,
            self.outside + other.outside,
        )

    def metrics(self) -> dict[str, float]:
        """Return the metrics ``mismatch/…``.

        ``prob_diff/{mean,max}`` are of |p_rollout - p_learner|; ``kl`` is the k1 estimate of KL(rollout, learner) in
        nats per token and ``kl_k3`` its k3 estimate, which is never negative; ``outside_clip`` is a share of tokens.
        """
        count = max(1.0, self.tokens)
        return {
            "mismatch/prob_diff/mean": self.distance / count,
            "mismatch/prob_diff/max": self.largest,
            "mismatch/kl": self.k1 / count,
            "mismatch/kl_k3": self.k3 / count,
            "mismatch/outside_clip": self.outside / count,
        }


def sampled_mask(data: DataProto) -> Tensor:
    """Return the mask [B, T] of sampled tokens, whatever tokens the loss is on."""
    return data.tensor("model_mask" if "model_mask" in data else "response_mask")


def mismatch_metrics(
    data: DataProto, clip_low: float = 0.2, clip_high: float = 0.2, level: RatioLevel = "token"
) -> dict[str, float]:
    """Compute the metrics from ``rollout_log_probs`` and ``old_log_probs``; empty without either."""
    if "rollout_log_probs" not in data or "old_log_probs" not in data:
        return {}
    rollout, old = data.tensor("rollout_log_probs"), data.tensor("old_log_probs")
    return Mismatch.of(rollout, old, sampled_mask(data), clip_low, clip_high, level).metrics()
