"""A learner's state in a folder: model, optimiser, schedule and random state, so that a resume goes on bit by bit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import distributed


class Stateful(Protocol):
    """Whose next step follows from its state."""

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: Mapping[str, Any]) -> None: ...


def rank_file(folder: Path) -> Path:
    """This rank's file."""
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    return folder / f"rank-{rank:05d}.pt"


def save(folder: Path, learner: Stateful) -> None:
    """Writes this rank's file; the folder becomes a checkpoint only when whoever asked publishes it whole."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"learner": learner.state(), "random": random_state()}, rank_file(folder))


def load(folder: Path, learner: Stateful) -> None:
    """Takes up what ``save`` wrote; raises ``FileNotFoundError`` when this rank has no file there."""
    # Our own file, with optimiser state and random state beside tensors.
    content = torch.load(rank_file(folder), map_location="cpu", weights_only=False)
    learner.load_state(content["learner"])
    set_random_state(content["random"])


def random_state() -> dict[str, Any]:
    """Of Python, numpy and torch (and its accelerators)."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """What ``random_state`` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
