"""GRPO (arXiv 2402.03300): each episode against its prompt's group, without a critic.

Settings: ``config/presets/grpo.yaml``. The whole of it on one page: ``examples/train/grpo_minimal.py``.
"""

from __future__ import annotations

from fathom.trainers.algorithms.algorithm import Algorithm


class GRPO(Algorithm):
    """A = (R - mean) / (std + 1e-6) within the group, the same for every token the model wrote."""

    estimators = ("grpo",)
