"""Prompts by position: the rows of a step are a function of the seed and the step alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto, object_array

Row = Mapping[str, Any]
Collate = Callable[[Sequence[Row]], Mapping[str, Any]]


class Rows(Protocol):
    """A data set, such as ``fathom.trainers.data.RLHFDataset`` or a list of records."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...


def collate_records(rows: Sequence[Row]) -> dict[str, Any]:
    """Collate records without tensors: one object array per field."""
    return {name: object_array([row[name] for row in rows]) for name in rows[0]}


def epoch_order(rows: int, epoch: int, seed: int) -> list[int]:
    """Return the permutation of an epoch's rows, determined by seed and epoch."""
    # A prime far above any number of epochs: neighbouring seeds do not share permutations.
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return [int(row) for row in torch.randperm(rows, generator=generator)]


@dataclass(frozen=True)
class Prompts:
    """Batches of a data set; with ``shuffle`` each epoch has its own permutation. Incomplete batches are dropped.

    ``collate`` merges rows into columns, as ``DataProto.from_single_dict`` takes them.
    """

    data: Rows
    shuffle: bool = True
    seed: int = 7
    collate: Collate = field(default=collate_records)

    @property
    def rows(self) -> int:
        return len(self.data)

    def batches(self, size: int) -> int:
        """Return the number of whole batches per epoch; raises ``InvalidField`` when there is none."""
        # Checked here and not while training: no batch at all would end a training at step 0 without a word.
        if self.rows < size:
            raise InvalidField("data.train_batch_size", f"is {size}, but there are {self.rows} prompts")
        return self.rows // size

    def batch(self, position: int, size: int) -> DataProto:
        """Return the batch at a position, counted from 0 over all epochs, with a ``uid`` unique over the training."""
        return self.gather_rows(self.order(position, size), [f"{position}-{place}" for place in range(size)])

    def order(self, position: int, size: int) -> list[int]:
        """Return the row indices of the batch at a position."""
        epoch, place = divmod(position, self.batches(size))
        order = epoch_order(self.rows, epoch, self.seed) if self.shuffle else list(range(self.rows))
        return order[place * size : (place + 1) * size]

    def select_by_uid(self, uids: Sequence[str], size: int) -> DataProto:
        """Return the rows with these ``uid``s from batches of ``size``.

        Raises ``InvalidField("uid")`` for an unknown one.
        """
        orders: dict[int, list[int]] = {}
        indices = []
        for uid in uids:
            position, _, place = uid.partition("-")
            if not (position.isdecimal() and place.isdecimal() and int(place) < size):
                raise InvalidField("uid", f"{uid!r} names no row of a batch of {size}")
            if int(position) not in orders:
                orders[int(position)] = self.order(int(position), size)
            indices.append(orders[int(position)][int(place)])
        return self.gather_rows(indices, uids)

    def in_order(self, size: int) -> Iterator[DataProto]:
        """Yield all rows once, in batches of at most ``size``."""
        for start in range(0, self.rows, size):
            indices = range(start, min(start + size, self.rows))
            yield self.gather_rows(indices, [f"val-{start}-{place}" for place in range(len(indices))])

    def gather_rows(self, indices: Sequence[int], uids: Sequence[str]) -> DataProto:
        """Return rows as a batch with these ``uid``s, replacing any of their own."""
        merged = DataProto.from_single_dict(self.collate([self.data[index] for index in indices]))
        arrays = merged.non_tensor_batch | {"uid": object_array(list(uids))}
        return DataProto(merged.batch, arrays, merged.meta_info)
