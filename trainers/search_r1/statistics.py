"""Per-episode counters of a batch, under the original's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fathom.trainers.batch import DataProto


@dataclass
class Statistics:
    """Per-row counters: turns (from 1), valid actions, valid searches, and whether the row has not answered yet."""

    active: Tensor
    turns: Tensor = field(init=False)
    valid_actions: Tensor = field(init=False)
    valid_searches: Tensor = field(init=False)
    active_counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.turns = torch.ones_like(self.active, dtype=torch.int64)
        self.valid_actions, self.valid_searches = torch.zeros_like(self.turns), torch.zeros_like(self.turns)
        self.active_counts = [int(self.active.sum())]

    def add(self, dones: Sequence[int], valid: Sequence[int], searched: Sequence[int], last: bool) -> None:
        """Add the results of one turn's environment step; after the last turn no further turn is counted."""
        self.active = self.active & ~torch.tensor(dones, dtype=torch.bool)
        self.active_counts.append(int(self.active.sum()))
        # As the original counts: the final turn without search does not add to the turns.
        if not last:
            self.turns += self.active
        self.valid_actions += torch.tensor(valid, dtype=torch.int64)
        self.valid_searches += torch.tensor(searched, dtype=torch.int64)

    def meta(self) -> dict[str, Any]:
        """Return the statistics for ``meta_info``, under the original's names."""
        return {
            "turns_stats": self.turns.tolist(),
            "active_mask": self.active.tolist(),
            "valid_action_stats": self.valid_actions.tolist(),
            "valid_search_stats": self.valid_searches.tolist(),
        }


def rollout_metrics(episodes: DataProto) -> dict[str, float]:
    """Compute the original's ``env/`` metrics of a finished batch."""
    meta = episodes.meta_info
    turns = torch.tensor(meta["turns_stats"], dtype=torch.float32)
    valid = torch.tensor(meta["valid_action_stats"], dtype=torch.float32)
    active = torch.tensor(meta["active_mask"], dtype=torch.float32)
    return {
        "env/number_of_actions/mean": float(turns.mean()),
        "env/number_of_actions/max": float(turns.max()),
        "env/number_of_actions/min": float(turns.min()),
        "env/finish_ratio": 1.0 - float(active.mean()),
        "env/number_of_valid_action": float(valid.mean()),
        "env/ratio_of_valid_action": float((valid / turns).mean()),
        "env/number_of_valid_search": float(torch.tensor(meta["valid_search_stats"], dtype=torch.float32).mean()),
    }
