"""Dependencies of a training loop (rollouts, prompts, checkpoints, callbacks), timing and divergence checks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fathom.core.errors import FathomError
from fathom.trainers.batch import DataProto
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Checkpoints, Metrics, RolloutSource


class TrainingDiverged(FathomError):
    """A metric is not finite; the last good version stays in service, and the last checkpoint is good."""

    code, reason = "ABORTED", "CONFLICT"


@dataclass(frozen=True)
class TrainingContext:
    """Dependencies of a training loop: rollouts, prompts, checkpoints and callbacks."""

    rollouts: RolloutSource
    train: Prompts
    validation: Prompts | None = None
    checkpoints: Checkpoints | None = None
    on_step: Callable[[int, Metrics], None] = lambda step, metrics: None
    """Called after each step, and with step 0 for a validation before training; an exception ends the training."""
    on_batch: Callable[[int, DataProto], None] = lambda step, batch: None
    """Called within each step with the batch that is about to be trained on, advantages included."""
    warn: Callable[[str], None] = lambda text: None
    """Receives a warning, once, about a training that continues."""
    inspect: Callable[[int, Metrics], bool] = lambda step, metrics: True
    """Called before a step's weights are published; False keeps its state out of the checkpoints."""


def check_finite(step: int, metrics: Metrics) -> None:
    """Raise ``TrainingDiverged`` naming the first metric that is not finite; call before publishing."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingDiverged(f"{name} is {value} at step {step}; the version before stays served")


@contextmanager
def measure_time(metrics: Metrics, name: str) -> Iterator[None]:
    """Measure the block's duration as ``timing_s/<name>``, in seconds."""
    start = time.perf_counter()
    try:
        yield
    # Also when the block raises: how long a failed step took is part of its diagnosis.
    finally:
        metrics[f"timing_s/{name}"] = time.perf_counter() - start
