"""What stands around a training loop: what it reads and writes, how long its parts take, and when it must stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fathom.errors import FathomError
from trainers.prompts import Prompts
from trainers.roles import Checkpoints, Metrics, RolloutSource


class TrainingDiverged(FathomError):
    """A metric is not finite; the last good version keeps being served, and the last checkpoint is good."""

    code, reason = "ABORTED", "CONFLICT"


@dataclass(frozen=True)
class Surroundings:
    """What a training reads and writes: prompts, episodes, checkpoints, and who hears of each step."""

    rollouts: RolloutSource
    train: Prompts
    validation: Prompts | None = None
    checkpoints: Checkpoints | None = None
    on_step: Callable[[int, Metrics], None] = lambda step, metrics: None
    """Called after each step, and as step 0 for a validation before training; what it raises ends the training."""
    warn: Callable[[str], None] = lambda text: None
    """Hears, once, what is wrong with a training that goes on."""
    inspect: Callable[[int, Metrics], bool] = lambda step, metrics: True
    """Called before a step's weights are published; False keeps its state out of the checkpoints."""


def check_finite(step: int, metrics: Metrics) -> None:
    """Raises ``TrainingDiverged`` naming the first metric that is not finite; nothing is published then."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingDiverged(f"{name} is {value} at step {step}; the version before stays served")


@contextmanager
def timed(metrics: Metrics, name: str) -> Iterator[None]:
    """Adds ``timing_s/<name>``."""
    start = time.perf_counter()
    try:
        yield
    finally:
        metrics[f"timing_s/{name}"] = time.perf_counter() - start
