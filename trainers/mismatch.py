"""How far the learner's probabilities are from those that the rollout's engine gave the same tokens.

The two should be one policy: where they differ before any step, ratios of PPO's loss mean something else than the
policy's change. A learner in bfloat16 beside a sampler in float32 is enough for it, and another kernel may be.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trainers.data_proto import DataProto

FIRST_PASS = "mismatch_of_first_pass"  # noqa: S105 - a key of meta_info
"""In ``meta_info``: the update's first pass says how far the policies are, since nothing was computed before it."""


@dataclass(frozen=True)
class Mismatch:
    """Sums over sampled tokens, so that those of several passes add up; ``largest`` is their maximum."""

    tokens: float = 0.0
    distance: float = 0.0
    largest: float = 0.0
    k1: float = 0.0
    k3: float = 0.0
    outside: float = 0.0

    @classmethod
    def of(cls, rollout: Tensor, learner: Tensor, mask: Tensor, clip_low: float, clip_high: float) -> Mismatch:
        """Of log-probabilities [B, T] in nats where ``mask`` is 1.

        ``outside`` counts tokens whose ratio p_learner / p_rollout is not within [1 - clip_low, 1 + clip_high].
        """
        chosen = mask.bool()
        ours, theirs = learner.detach()[chosen].double(), rollout[chosen].double()
        if not len(ours):
            return cls()
        distance, log_ratio = (ours.exp() - theirs.exp()).abs(), ours - theirs
        ratio = log_ratio.exp()
        return cls(
            float(len(ours)),
            float(distance.sum()),
            float(distance.max()),
            float(-log_ratio.sum()),
            float((ratio - log_ratio - 1.0).sum()),
            float(((ratio < 1.0 - clip_low) | (ratio > 1.0 + clip_high)).sum()),
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
        """``mismatch/prob_diff/{mean,max}`` of |p_rollout - p_learner|; ``mismatch/kl`` the k1 estimate of KL(rollout,
        learner) in nats per token and ``mismatch/kl_k3`` its k3 estimate, which is never negative;
        ``mismatch/outside_clip``, a share.
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
    """[B, T]: what the model sampled, whatever the loss is on."""
    return data.tensor("model_mask" if "model_mask" in data else "response_mask")


def mismatch_metrics(data: DataProto, clip_low: float = 0.2, clip_high: float = 0.2) -> dict[str, float]:
    """Of ``rollout_log_probs`` and ``old_log_probs``; nothing without either."""
    if "rollout_log_probs" not in data or "old_log_probs" not in data:
        return {}
    rollout, old = data.tensor("rollout_log_probs"), data.tensor("old_log_probs")
    return Mismatch.of(rollout, old, sampled_mask(data), clip_low, clip_high).metrics()
