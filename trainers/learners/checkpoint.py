"""Checkpoint files of a learner: model, optimiser, schedule and random state, for bit-exact resumption."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import distributed


class Stateful(Protocol):
    """Interface of a learner whose next step is determined by its state."""

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: Mapping[str, Any]) -> None: ...


def rank_file(folder: Path) -> Path:
    """Return the path of this rank's file."""
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    return folder / f"rank-{rank:05d}.pt"


def save(folder: Path, learner: Stateful) -> None:
    """Write this rank's file; the caller publishes the complete folder as a checkpoint."""
    # All ranks write into one folder, in any order: whichever is first makes it.
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"learner": learner.state(), "random": random_state()}, rank_file(folder))


def load(folder: Path, learner: Stateful) -> None:
    """Load what ``save`` wrote; raises ``FileNotFoundError`` when the folder has no file of this rank."""
    # weights_only is off for our own file: optimiser state and random state are not plain tensors.
    content = torch.load(rank_file(folder), map_location="cpu", weights_only=False)
    learner.load_state(content["learner"])
    # Last: building or loading anything draws random numbers, and the next step must draw those it would have drawn.
    set_random_state(content["random"])


def random_state() -> dict[str, Any]:
    """Return the random state of Python, numpy and torch, including CUDA devices."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        # Every device: dropout draws on the device, not from the CPU's generator.
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore the state returned by ``random_state``."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
