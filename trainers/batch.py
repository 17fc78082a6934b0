"""``DataProto``: a batch of rows under field names, with operations that keep fields and groups consistent.

The layout is that of verl's ``DataProto`` (B rows, P prompt columns, T response columns, S = P + T):

| field | shape | dtype |
|---|---|---|
| ``prompts`` | [B, P], left-padded | int64 |
| ``responses`` | [B, T], right-padded | int64 |
| ``input_ids``, ``attention_mask``, ``position_ids`` | [B, S] | int64 |
| ``response_mask`` | [B, T], 1 on tokens sampled by the policy | int64 |
| ``rollout_log_probs``, ``old_log_probs``, ``ref_log_prob``, ``values``, ``token_level_scores``, | | |
| ``token_level_rewards``, ``rm_scores``, ``advantages``, ``returns`` | [B, T] | float32 |
| ``acc`` | [B], the verifier's outcome | float32 |

Column t of a [B, T] field belongs to response token t. ``uid`` (not a tensor) names the row's group; rows g * n to g *
n + n - 1 are the n samples of prompt g.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fathom.core.errors import InvalidField

Arrays = dict[str, "np.ndarray[Any, Any]"]
Rows = slice | Sequence[int] | Tensor
Shape = tuple[str, ...]

SCHEMA: Mapping[str, tuple[Shape, torch.dtype]] = {
    "prompts": (("B", "P"), torch.int64),
    "responses": (("B", "T"), torch.int64),
    "input_ids": (("B", "S"), torch.int64),
    "attention_mask": (("B", "S"), torch.int64),
    "position_ids": (("B", "S"), torch.int64),
    "response_mask": (("B", "T"), torch.int64),
    "rollout_log_probs": (("B", "T"), torch.float32),
    "old_log_probs": (("B", "T"), torch.float32),
    "ref_log_prob": (("B", "T"), torch.float32),
    "values": (("B", "T"), torch.float32),
    "token_level_scores": (("B", "T"), torch.float32),
    "token_level_rewards": (("B", "T"), torch.float32),
    "rm_scores": (("B", "T"), torch.float32),
    "q": (("B", "T"), torch.float32),
    "Q_bc": (("B", "n"), torch.float32),
    "acc_bc": (("B", "n"), torch.float32),
    "advantages": (("B", "T"), torch.float32),
    "returns": (("B", "T"), torch.float32),
    "acc": (("B",), torch.float32),
}
"""Shape and dtype of every field with a fixed meaning; each letter has one size throughout a batch."""


@dataclass(frozen=True)
class DataProto:
    """A batch of rows; every operation returns a new batch that shares tensors without modifying them.

    ``batch`` holds tensors [B, ...], ``non_tensor_batch`` object arrays [B], ``meta_info`` values common to all rows.
    Raises ``InvalidField`` naming a field whose number of rows differs.
    """

    batch: dict[str, Tensor] = field(default_factory=dict)
    non_tensor_batch: Arrays = field(default_factory=dict)
    meta_info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows: int | None = None
        for name, value in self.columns():
            if value.ndim == 0:
                raise InvalidField(name, "is a scalar; a field has a row dimension")
            rows = len(value) if rows is None else rows
            if len(value) != rows:
                raise InvalidField(name, f"has {len(value)} rows where the others have {rows}")
        both = self.batch.keys() & self.non_tensor_batch.keys()
        if both:
            raise InvalidField(min(both), "is both a tensor and not")

    @classmethod
    def from_dict(
        cls,
        tensors: Mapping[str, Tensor],
        non_tensors: Mapping[str, Sequence[Any]] | None = None,
        meta_info: Mapping[str, Any] | None = None,
    ) -> DataProto:
        """Build a batch; sequences become object arrays."""
        arrays = {name: object_array(values) for name, values in (non_tensors or {}).items()}
        return cls(dict(tensors), arrays, dict(meta_info or {}))

    @classmethod
    def from_single_dict(cls, data: Mapping[str, Any], meta_info: Mapping[str, Any] | None = None) -> DataProto:
        """Build a batch from one mapping, as collate functions return, separating tensors from other fields."""
        tensors = {name: value for name, value in data.items() if isinstance(value, Tensor)}
        return cls.from_dict(tensors, {k: v for k, v in data.items() if k not in tensors}, meta_info)

    def columns(self) -> Iterator[tuple[str, Any]]:
        """Return every field as (name, value)."""
        return chain(self.batch.items(), self.non_tensor_batch.items())

    def __len__(self) -> int:
        return next((len(value) for _, value in self.columns()), 0)

    def __contains__(self, name: object) -> bool:
        return name in self.batch or name in self.non_tensor_batch

    def tensor(self, name: str) -> Tensor:
        """Return a tensor field; raises ``InvalidField`` when it is missing."""
        try:
            return self.batch[name]
        except KeyError:
            raise InvalidField(name, f"is missing; there are {sorted(self.batch)}") from None

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Return a non-tensor field; raises ``InvalidField`` when it is missing."""
        try:
            return self.non_tensor_batch[name]
        except KeyError:
            raise InvalidField(name, f"is missing; there are {sorted(self.non_tensor_batch)}") from None

    def __getitem__(self, rows: Rows) -> DataProto:
        """Select rows by slice, indices or a boolean mask [B]."""
        # One index tensor for all kinds of selection, so that tensors and object arrays cannot be cut differently.
        chosen = torch.arange(len(self))[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
        places = chosen.numpy()
        return DataProto(
            {name: value[chosen.to(value.device)] for name, value in self.batch.items()},
            {name: value[places] for name, value in self.non_tensor_batch.items()},
            dict(self.meta_info),
        )

    def reorder(self, indices: Sequence[int] | Tensor) -> DataProto:
        """Permute all rows; raises ``InvalidField`` when ``indices`` is not a permutation."""
        order = torch.as_tensor(indices)
        if not torch.equal(order.sort().values, torch.arange(len(self))):
            raise InvalidField("indices", f"is no permutation of {len(self)} rows")
        return self[order]

    def select(self, names: Sequence[str]) -> DataProto:
        """Return only these fields; raises ``InvalidField`` naming a missing one."""
        for name in names:
            if name not in self:
                raise InvalidField(name, f"is missing; there are {sorted(n for n, _ in self.columns())}")
        return DataProto(
            {name: self.batch[name] for name in names if name in self.batch},
            {name: self.non_tensor_batch[name] for name in names if name in self.non_tensor_batch},
            dict(self.meta_info),
        )

    def pop(self, names: Sequence[str]) -> tuple[DataProto, DataProto]:
        """Split into (these fields, the others)."""
        return self.select(names), self.select([name for name, _ in self.columns() if name not in set(names)])

    def rename(self, names: Mapping[str, str]) -> DataProto:
        """Rename fields; raises ``InvalidField`` when one is missing or would overwrite another."""
        for old, new in names.items():
            if old not in self:
                raise InvalidField(old, "is missing")
            if new in self and new not in names:
                raise InvalidField(new, f"is there already: {old} cannot take its name")
        return DataProto(
            {names.get(name, name): value for name, value in self.batch.items()},
            {names.get(name, name): value for name, value in self.non_tensor_batch.items()},
            dict(self.meta_info),
        )

    def union(self, other: DataProto) -> DataProto:
        """Merge the fields of two batches; raises ``InvalidField`` for a field with different values in both."""
        for name, value in other.columns():
            mine = self.batch.get(name) if isinstance(value, Tensor) else self.non_tensor_batch.get(name)
            # A silent overwrite here would train on one worker's values and log another's.
            if mine is not None and not equal(mine, value):
                raise InvalidField(name, "differs between the two sides of a union")
        for name, value in other.meta_info.items():
            if name in self.meta_info and self.meta_info[name] != value:
                raise InvalidField(f"meta_info.{name}", "differs between the two sides of a union")
        return DataProto(
            self.batch | other.batch,
            self.non_tensor_batch | other.non_tensor_batch,
            self.meta_info | other.meta_info,
        )

    def with_tensors(self, **tensors: Tensor) -> DataProto:
        """Return the batch with these tensors added or replaced."""
        return DataProto(self.batch | tensors, dict(self.non_tensor_batch), dict(self.meta_info))

    def with_meta(self, **values: Any) -> DataProto:
        """Return the batch with these values in ``meta_info``."""
        return DataProto(dict(self.batch), dict(self.non_tensor_batch), self.meta_info | values)

    def split(self, size: int) -> list[DataProto]:
        """Split into parts of ``size`` rows in order; the last may be smaller."""
        if size < 1:
            raise InvalidField("size", f"{size} must be at least 1")
        return [self[start : start + size] for start in range(0, len(self), size)]

    def chunk(self, count: int) -> list[DataProto]:
        """Split into ``count`` equal parts; raises ``InvalidField`` when the rows do not divide evenly."""
        if count < 1 or len(self) % count:
            raise InvalidField("count", f"{len(self)} rows cannot be divided into {count} equal parts")
        return self.split(max(1, len(self) // count))

    @staticmethod
    def concat(parts: Sequence[DataProto]) -> DataProto:
        """Concatenate the rows of all parts; ``meta_info`` is the first's.

        Raises ``InvalidField`` when fields differ.
        """
        if not parts:
            raise InvalidField("parts", "is empty")
        # Fields must agree: torch would concatenate what all parts have and silently lose the rest.
        names = {name for name, _ in parts[0].columns()}
        for part in parts[1:]:
            odd = names ^ {name for name, _ in part.columns()}
            if odd:
                raise InvalidField(min(odd), "is not in every part")
        return DataProto(
            {name: torch.cat([part.batch[name] for part in parts]) for name in parts[0].batch},
            {name: np.concatenate([p.non_tensor_batch[name] for p in parts]) for name in parts[0].non_tensor_batch},
            dict(parts[0].meta_info),
        )

    def repeat(self, times: int, *, interleave: bool = True) -> DataProto:
        """Repeat each row ``times`` times: aabb with ``interleave`` (groups), else abab."""
        if times < 1:
            raise InvalidField("times", f"{times} must be at least 1")
        rows = torch.arange(len(self))
        return self[rows.repeat_interleave(times) if interleave else rows.repeat(times)]

    def to(self, device: str | torch.device) -> DataProto:
        """Move the tensors to another device."""
        moved = {name: value.to(device) for name, value in self.batch.items()}
        return DataProto(moved, dict(self.non_tensor_batch), dict(self.meta_info))

    def require(self, *names: str) -> None:
        """Check that these fields exist and that all fields fit ``SCHEMA``.

        Raises ``InvalidField`` naming the first that fails.
        """
        for name in names:
            self.tensor(name)
        sizes = {"B": len(self)}
        for name, value in self.batch.items():
            if name in SCHEMA:
                check_field(name, value, sizes)
        if {"P", "T", "S"} <= sizes.keys() and sizes["P"] + sizes["T"] != sizes["S"]:
            raise InvalidField(
                "input_ids", f"has {sizes['S']} columns, prompts and responses {sizes['P']}+{sizes['T']}"
            )

    def require_groups(self, size: int) -> None:
        """Check that rows g * ``size`` to (g + 1) * ``size`` - 1 share a ``uid`` unique to them.

        Raises ``InvalidField``.
        """
        uids = self.array("uid").tolist()
        # Only the order makes rows g * n to (g + 1) * n - 1 one group: a reshape of rows in another order would compare
        # answers to different questions, and nothing would fail.
        if size < 1 or len(uids) % size:
            raise InvalidField("uid", f"{len(uids)} rows are no groups of {size}")
        groups = [uids[start : start + size] for start in range(0, len(uids), size)]
        if any(len(set(group)) != 1 for group in groups) or len({group[0] for group in groups}) != len(groups):
            raise InvalidField("uid", f"rows are not contiguous groups of {size}, one prompt each")


def check_field(name: str, value: Tensor, sizes: dict[str, int]) -> None:
    """Check one field against ``SCHEMA``, recording the sizes of new letters in ``sizes``."""
    shape, dtype = SCHEMA[name]
    if value.dtype != dtype:
        raise InvalidField(name, f"is {value.dtype}, must be {dtype}")
    if value.ndim != len(shape):
        raise InvalidField(name, f"has shape {list(value.shape)}, must be {list(shape)}")
    for letter, size in zip(shape, value.shape, strict=True):
        if sizes.setdefault(str(letter), size) != size:
            raise InvalidField(name, f"has shape {list(value.shape)}, but {letter} is {sizes[str(letter)]}")


def object_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Convert values to an object array [B]; nested lists stay one object per row."""
    # numpy would turn nested lists of equal length into one more dimension: rows are assigned one by one below.
    if isinstance(values, np.ndarray):
        return values
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def equal(left: Any, right: Any) -> bool:
    """Return whether two fields have the same shape and values."""
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and left.shape == right.shape and torch.equal(left, right)
    # Identity first: NaN is equal to itself only that way, and large values need no comparison.
    return len(left) == len(right) and all(a is b or a == b for a, b in zip(left, right, strict=True))
