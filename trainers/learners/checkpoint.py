"""Sharded checkpoint of a learner: model, optimiser, schedule and random state, for bit-exact resumption.

Written by ``torch.distributed.checkpoint``: every rank saves its own shards, and any number of ranks can load them.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.futures import Future

from fathom.core.errors import Conflict
from fathom.trainers.learners.ranks.fsdp import rank

INDEX = ".metadata"
"""torch's name of the index of all shards."""
Fetch = Callable[[str], None]


@dataclass(frozen=True)
class LearnerState:
    """Everything that determines a learner's next step."""

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler


def is_here(name: str) -> None:
    """Fetch nothing: the folder has all files."""


def save(folder: Path, state: LearnerState) -> None:
    """Write this rank's shards, and on rank 0 the index; call on all ranks, each with a folder of its own or one."""
    folder.mkdir(parents=True, exist_ok=True)
    # Flat already: torch would otherwise take the random state apart into its numbers.
    planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    writer = FileSystemWriter(folder)
    with without_group_warning():
        save_shards(flatten(state), storage_writer=writer, planner=planner, no_dist=is_alone())


def load(folder: Path, state: LearnerState, fetch: Fetch = is_here) -> None:
    """Load what ``save`` wrote on any number of ranks; ``fetch`` brings a file into the folder before it is read.

    A rank that the saving training did not have keeps its own random state. Raises ``Conflict`` when the checkpoint is
    of another model, ``FileNotFoundError`` for a folder without a checkpoint.
    """
    reader = ShardReader(folder, fetch)
    target = build_target(state, reader.read_metadata())
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    with without_group_warning():
        load_shards(target, storage_reader=reader, planner=planner, no_dist=is_alone())
    unflatten(state, target)
    # Last: building or loading anything draws random numbers, and the next step must draw those it would have drawn.
    if f"random.{rank()}" in target:
        set_random_state(target[f"random.{rank()}"])


class ShardReader(FileSystemReader):
    """Reads shards from a folder into which it fetches those files only that the plan of this rank needs."""

    def __init__(self, folder: Path, fetch: Fetch) -> None:
        super().__init__(folder)
        self._folder, self._fetch = folder, fetch

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        self._fetch(INDEX)
        return super().read_metadata(*args, **kwargs)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for name in sorted({self.storage_data[item.storage_index].relative_path for item in plan.items}):
            self._fetch(name)
        return super().read_data(plan, planner)


def flatten(state: LearnerState) -> dict[str, Any]:
    """Return the state by dotted name: tensors, sharded ones among them, and plain objects."""
    found: dict[str, Any] = {f"module.{name}": value for name, value in state.module.state_dict().items()}
    for name, parameter in select_trained(state).items():
        # Moments that do not exist yet are not saved: those of a first step, made up, would not be those that it makes.
        for what, value in state.optimizer.state.get(parameter, {}).items():
            found[f"optimizer.{name}.{what}"] = value
    found["groups"] = settings_of_groups(state.optimizer)
    found["schedule"] = state.schedule.state_dict()
    return found | {f"random.{rank()}": random_state()}


def build_target(state: LearnerState, index: Metadata) -> dict[str, Any]:
    """Return the state to be filled from a checkpoint: the module's own tensors, and new ones for the moments.

    Raises ``Conflict`` naming a parameter that only one of the two has, or whose shape differs.
    """
    stored = index.state_dict_metadata
    target: dict[str, Any] = {f"module.{name}": value for name, value in state.module.state_dict().items()}
    different = {name for name in stored if name.startswith("module.")} ^ target.keys()
    different |= {name for name in target if name in stored and shape_of(stored[name]) != target[name].shape}
    if different:
        raise Conflict(f"the checkpoint is of another model: {sorted(different)[:5]} differ")
    for name, parameter in select_trained(state).items():
        prefix = f"optimizer.{name}."
        for key in (key for key in stored if key.startswith(prefix) and "." not in key.removeprefix(prefix)):
            shape = shape_of(stored[key])
            # AdamW's step counter is a scalar, the same on all ranks and never sharded.
            alike = shape == parameter.shape and parameter.dim() > 0
            target[key] = torch.zeros_like(parameter, requires_grad=False) if alike else torch.zeros(shape or ())
    random_states = {name for name in stored if name == f"random.{rank()}"}
    return target | dict.fromkeys({"groups", "schedule"} | random_states)


def unflatten(state: LearnerState, found: Mapping[str, Any]) -> None:
    """Load the dotted state into optimiser and schedule; the module's tensors were filled in place."""
    moments: dict[Tensor, dict[str, Any]] = {}
    for name, parameter in select_trained(state).items():
        prefix = f"optimizer.{name}."
        own = {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}
        if own:
            moments[parameter] = own
    state.optimizer.state.clear()
    state.optimizer.state.update(moments)
    for group, settings in zip(state.optimizer.param_groups, found["groups"], strict=True):
        group.update(settings)
    state.schedule.load_state_dict(found["schedule"])


def select_trained(state: LearnerState) -> dict[str, Tensor]:
    """Return the optimiser's parameters by their names in the module."""
    ours = {id(parameter) for group in state.optimizer.param_groups for parameter in group["params"]}
    return {name: parameter for name, parameter in state.module.named_parameters() if id(parameter) in ours}


def settings_of_groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the settings of each parameter group, the scheduled rate among them."""
    return [{name: value for name, value in one.items() if name != "params"} for one in optimizer.param_groups]


def shape_of(entry: Any) -> torch.Size | None:
    """Return the whole shape of a stored tensor; None for a plain object."""
    return entry.size if isinstance(entry, TensorStorageMetadata) else None


def is_alone() -> bool:
    """Return whether there is no process group."""
    return not distributed.is_initialized()


@contextmanager
def without_group_warning() -> Iterator[None]:
    """Silence torch's warning that there is no process group: a learner of one rank has none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        yield


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
