"""Batches of prompts in a seeded order, with a position that can be saved and restored.

A saved position is that of the next batch to be returned. At the end of an epoch it is the beginning of the next one,
so that a training resumed there continues instead of ending without a step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

from fathom.core.errors import Conflict, InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.data.dataset import RLHFDataset, collate_fn
from fathom.trainers.data.prompt_sampler import epoch_order


class EpochOrder(Sampler[list[int]]):
    """Batch sampler of one epoch, starting at a position; the order depends only on seed and epoch.

    ``drop_last`` leaves out the rows at the end that do not fill a batch (of the shuffled order: other rows each
    epoch).
    """

    def __init__(self, rows: int, batch_size: int, *, shuffle: bool, seed: int, drop_last: bool = True) -> None:
        if batch_size < 1:
            raise InvalidField("batch_size", f"{batch_size} must be at least 1")
        self.rows, self.batch_size, self.shuffle, self.seed, self.drop_last = rows, batch_size, shuffle, seed, drop_last
        self.epoch, self.position = 0, 0

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.rows // self.batch_size if self.drop_last else math.ceil(self.rows / self.batch_size)

    def order(self) -> list[int]:
        """Return all row numbers of the current epoch."""
        return epoch_order(self.rows, self.epoch, self.seed) if self.shuffle else list(range(self.rows))

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order()
        for batch in range(self.position, len(self)):
            yield order[batch * self.batch_size : (batch + 1) * self.batch_size]


class PromptLoader:
    """Resumable ``DataLoader`` over prompts; iterating yields the rest of the current epoch.

    Raises ``InvalidField`` when the rows do not fill one batch.
    """

    def __init__(
        self,
        dataset: RLHFDataset,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 7,
        drop_last: bool = True,
        num_workers: int = 0,
    ) -> None:
        self.dataset = dataset
        self.sampler = EpochOrder(len(dataset), batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
        if not len(self.sampler):
            raise InvalidField("batch_size", f"{batch_size} prompts per step, but there are {len(dataset)}")
        # A generator of its own: beginning to iterate must not move the random state of whoever trains.
        self._loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=self.sampler,
            collate_fn=collate_fn,
            num_workers=num_workers,
            generator=torch.Generator().manual_seed(seed),
        )

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""
        return len(self.sampler)

    @property
    def epoch(self) -> int:
        """Return the epoch of the next batch, from 0."""
        return self.sampler.epoch

    @property
    def position(self) -> int:
        """Return the index of the next batch in its epoch, from 0."""
        return self.sampler.position

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the remaining batches of this epoch; after the last one the next epoch begins.

        The position counts returned batches, not those that loader workers have prefetched.
        """
        for batch in self._loader:
            self._advance()
            yield batch

    def protos(self) -> Iterator[DataProto]:
        """Yield the same batches as ``DataProto``, with ``epoch`` and ``batch`` in ``meta_info``."""
        epoch = self.epoch
        for number, batch in enumerate(self, start=self.position):
            yield DataProto.from_single_dict(batch, {"epoch": epoch, "batch": number})

    def _advance(self) -> None:
        self.sampler.position += 1
        if self.sampler.position == len(self):
            self.sampler.epoch, self.sampler.position = self.sampler.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the next batch, and the data and settings it refers to."""
        return {"epoch": self.epoch, "position": self.position, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved position.

        Raises ``Conflict`` naming the field when it was saved with other rows, batches, order or seed, and
        ``InvalidField`` for a position that does not exist.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise Conflict(
                    f"data position: {name} was {state.get(name)!r} and is {value!r}", metadata={"field": name}
                )
        epoch, position = state.get("epoch"), state.get("position")
        if not isinstance(epoch, int) or not isinstance(position, int) or epoch < 0 or not 0 <= position < len(self):
            raise InvalidField("position", f"batch {position} of epoch {epoch} is none of {len(self)}")
        self.sampler.epoch, self.sampler.position = epoch, position

    def _identity(self) -> dict[str, Any]:
        sampler = self.sampler
        return {
            "rows": sampler.rows,
            "fingerprint": self.dataset.fingerprint,
            "batch_size": sampler.batch_size,
            "shuffle": sampler.shuffle,
            "seed": sampler.seed,
            "drop_last": sampler.drop_last,
        }


def loader_batch_size(train_batch_size: int, oversample_factor: float) -> int:
    """Return the prompts per step: the product, rounded down with a warning when it is not whole."""
    product = train_batch_size * oversample_factor
    # 1e-9 absorbs rounding: 100 x 1.15 is 114.99999999999999 in floating point, where 115 prompts are meant.
    whole = math.floor(product + 1e-9)
    if abs(product - whole) > 1e-9:
        warnings.warn(
            f"data.train_batch_size {train_batch_size} x data.oversample_factor {oversample_factor} is {product:g}:"
            f" {whole} prompts are drawn per step",
            stacklevel=2,
        )
    return whole
