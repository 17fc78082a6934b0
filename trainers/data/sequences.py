"""Rows of ``fathom export`` as tensors for SFT and DPO: one padded sequence per row, no packing.

In the layout of ``fathom.trainers.batch``: the tokens before the first trained one are the prompt, left-padded, the
rest is the response, right-padded; ``response_mask`` is the row's loss mask on the response, so that tool results
between a model's words carry no loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.trainers.batch import DataProto
from fathom.trainers.config.imitation import ImitationConfig
from fathom.trainers.data.sets import json_lines

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """Token ids of one row with the loss mask; ``start`` is the index of the first trained token, at least 1."""

    id: str
    ids: tuple[int, ...]
    mask: tuple[int, ...]

    @property
    def start(self) -> int:
        return self.mask.index(1)


@dataclass(frozen=True)
class Preference:
    """A chosen and a rejected continuation of the same ids."""

    id: str
    chosen: Row
    rejected: Row


def check_row(row: Row, where: str, window: int = 0) -> Row:
    """Return the row; raises ``InvalidField`` naming its place when it has no trainable token or does not fit.

    ``window`` bounds the number of ids; 0 means unbounded.
    """
    if len(row.ids) != len(row.mask):
        raise InvalidField(f"{where}.loss_mask", f"{row.id} has {len(row.mask)} places for {len(row.ids)} ids")
    if not any(row.mask) or set(row.mask) - {0, 1}:
        raise InvalidField(f"{where}.loss_mask", f"{row.id} must be 0 or 1, and 1 somewhere")
    # A causal model predicts each token from those before it; the first has none.
    if row.mask[0]:
        raise InvalidField(f"{where}.loss_mask", f"{row.id} learns its first token, which nothing predicts")
    if window and len(row.ids) > window:
        raise InvalidField(
            f"{where}.token_ids", f"{row.id} has {len(row.ids)} tokens, imitation.max_length is {window}"
        )
    return row


def read_rows(paths: Sequence[Path], config: ImitationConfig) -> list[Row]:
    """Read the rows of SFT files; rows that are too long raise or are dropped, as configured.

    Raises ``InvalidField`` and ``NotFound``.
    """
    found = []
    for path in paths:
        for number, line in enumerate(json_lines(path)):
            where = f"{path.name}[{number}]"
            name, ids, mask = (
                f"{path.stem}:{number}:{line.get('id', '')}",
                *(ints(line, key, where) for key in ("token_ids", "loss_mask")),
            )
            row = check_row(Row(name, ids, mask), where)
            if fits(row, where, config):
                found.append(row)
    return require_rows(found, paths)


def read_pairs(paths: Sequence[Path], config: ImitationConfig) -> list[Preference]:
    """Read the pairs of DPO files; a pair with a side that is too long raises or is dropped, as configured."""
    found = []
    for path in paths:
        for number, line in enumerate(json_lines(path)):
            where = f"{path.name}[{number}]"
            prompt, name = ints(line, "prompt_ids", where), f"{path.stem}:{number}:{line.get('id', '')}"
            sides = [
                join_answer(name, prompt, ints(line, side, where), where) for side in ("chosen_ids", "rejected_ids")
            ]
            if all(fits(side, where, config) for side in sides):
                found.append(Preference(name, *sides))
    return require_rows(found, paths)


def join_answer(name: str, prompt: tuple[int, ...], answer: tuple[int, ...], where: str) -> Row:
    """Join a prompt and an answer into a row; the whole answer is trained."""
    return check_row(Row(name, (*prompt, *answer), (*[0] * len(prompt), *[1] * len(answer))), where)


def ints(line: Mapping[str, Any], field: str, where: str) -> tuple[int, ...]:
    """Return a field's token ids; raises ``InvalidField`` when it is not a list of integers."""
    values = line.get(field)
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise InvalidField(f"{where}.{field}", "is no list of token ids: export with --model")
    return tuple(values)


def fits(row: Row, where: str, config: ImitationConfig) -> bool:
    """Return whether the row is short enough; raises ``InvalidField`` for a long one when ``truncation`` is "error"."""
    if config.truncation == "error":
        check_row(row, where, config.max_length)
    return len(row.ids) <= config.max_length


def require_rows(found: list[T], paths: Sequence[Path]) -> list[T]:
    """Return the rows; raises ``InvalidField`` when there are none."""
    if not found:
        raise InvalidField("data.train_files", f"hold no row: {', '.join(map(str, paths)) or 'no file is named'}")
    return found


def batch(rows: Sequence[Row], pad: int) -> DataProto:
    """Build int64 tensors: prompts [B, P], responses [B, T] and the other fields; ``uid`` holds the rows' ids."""
    width = max(row.start for row in rows)
    rest = max(len(row.ids) - row.start for row in rows)
    columns: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "response_mask": []}
    for row in rows:
        left, right = width - row.start, rest - (len(row.ids) - row.start)
        columns["input_ids"].append([pad] * left + [*row.ids] + [pad] * right)
        columns["attention_mask"].append([0] * left + [1] * len(row.ids) + [0] * right)
        columns["response_mask"].append([*row.mask[row.start :], *[0] * right])
    tensors = {name: torch.tensor(values) for name, values in columns.items()}
    tensors["position_ids"] = (tensors["attention_mask"].cumsum(1) - 1).clamp(min=0)
    tensors["prompts"], tensors["responses"] = tensors["input_ids"][:, :width], tensors["input_ids"][:, width:]
    data = DataProto.from_dict(tensors, {"uid": [row.id for row in rows]})
    data.require("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
    return data


def pair_batch(pairs: Sequence[Preference], pad: int) -> DataProto:
    """Build a batch of 2 B rows: the chosen sides, then the rejected ones in the same order."""
    return batch([*(pair.chosen for pair in pairs), *(pair.rejected for pair in pairs)], pad)


def fingerprint(names: Sequence[str]) -> str:
    """Return a hash of the row ids in order, which ties a saved position to these rows."""
    return sha256("\n".join(names).encode())[:16]
