"""RLOO (arXiv 2402.14740): each episode against the mean of its prompt's other episodes, without a critic.

Settings: ``config/presets/rloo.yaml``.
"""

from __future__ import annotations

from fathom.trainers.algorithms.algorithm import Algorithm


class RLOO(Algorithm):
    """A = R - mean of the other n - 1 episodes, the same for every token the model wrote."""

    estimators = ("rloo",)
