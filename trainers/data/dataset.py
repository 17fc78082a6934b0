"""Prompt dataset: rows of parquet files as left-padded token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.domain.chat.encoding import ContentEncoder
from fathom.trainers.data.records import Record, read_all

Truncation = Literal["error", "left", "right"]
Item = dict[str, Any]


class ChatTokenizer(Protocol):
    """The part of the interface of fast ``transformers`` tokenizers used here."""

    pad_token_id: int | None
    eos_token_id: int | None
    unk_token: Any
    chat_template: Any

    @property
    def backend_tokenizer(self) -> Any:
        """Return the tokenizer of the library ``tokenizers``."""
        ...

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


class RLHFDataset(Dataset[Item]):
    """Rows of parquet files as tensors [P] plus the fields a trainer needs; P is ``max_prompt_length``.

    ``filter_prompts`` drops prompts of more than P tokens; otherwise ``truncation`` cuts them ("left" keeps the end,
    "right" the beginning) or, with "error", raises ``InvalidField`` with the row's id. ``return_raw_chat`` adds the
    messages. Raises ``InvalidField`` for files that :func:`fathom.trainers.data.records.read` rejects and when no row
    is left.
    """

    def __init__(
        self,
        parquet_files: Path | str | Sequence[Path | str],
        tokenizer: ChatTokenizer,
        prompt_key: str = "prompt",
        max_prompt_length: int = 1024,
        filter_prompts: bool = True,
        return_raw_chat: bool = False,
        truncation: Truncation = "error",
    ) -> None:
        files = [parquet_files] if isinstance(parquet_files, Path | str) else list(parquet_files)
        if not files:
            raise InvalidField("parquet_files", "names no file")
        if truncation not in ("error", "left", "right"):
            raise InvalidField("truncation", f"{truncation!r} must be error, left or right")
        if max_prompt_length < 1:
            raise InvalidField("max_prompt_length", f"{max_prompt_length} must be at least 1")
        self.encoder, self.max_prompt_length = ContentEncoder(tokenizer), max_prompt_length
        self.return_raw_chat, self.truncation = return_raw_chat, truncation
        self.pad = pad_id(tokenizer)
        records = read_all([Path(file) for file in files], prompt_key)
        self.total = len(records)
        if filter_prompts:
            # Dropped here and not while training: the number of steps follows from the number of rows.
            records = [record for record in records if len(prompt_ids(self.encoder, record)) <= max_prompt_length]
        if not records:
            raise InvalidField("parquet_files", f"none of {self.total} prompts has at most {max_prompt_length} tokens")
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def fingerprint(self) -> str:
        """Return a hash of sources, ids and questions in order, which ties a saved position to these rows."""
        return sha256("\n".join(f"{r.data_source}\t{r.id}\t{r.question}" for r in self.records).encode())[:16]

    def __getitem__(self, number: int) -> Item:
        record = self.records[number]
        ids = self._cut(prompt_ids(self.encoder, record), record)
        row = record.row()
        item: Item = {
            **pad_left(ids, self.max_prompt_length, self.pad),
            "raw_prompt_ids": ids,
            "data_source": record.data_source,
            "ability": record.ability,
            "reward_model": row["reward_model"],
            "extra_info": {**row["extra_info"], "grader_parameters": dict(record.grader_parameters)},
            "index": number,
        }
        return item | {"raw_prompt": row["prompt"]} if self.return_raw_chat else item

    def _cut(self, ids: list[int], record: Record) -> list[int]:
        width = self.max_prompt_length
        if len(ids) <= width:
            return ids
        if self.truncation == "error":
            raise InvalidField("prompt", f"{record.id} has {len(ids)} tokens, at most {width} are allowed")
        return ids[-width:] if self.truncation == "left" else ids[:width]


def pad_id(tokenizer: ChatTokenizer) -> int:
    """Return the padding id, or the end-of-text id when there is none; raises ``InvalidField`` with neither."""
    # Masks are explicit, so eos may serve as padding.
    found = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if found is None:
        raise InvalidField("tokenizer", "has neither a padding nor an end-of-text id")
    return found


def prompt_ids(encoder: ContentEncoder, record: Record) -> list[int]:
    """Tokenise the chat as serving does, with the generation prompt; without a template, the contents by line."""
    return encoder.encode_chat([{"role": role, "content": content} for role, content in record.prompt])


def pad_left(ids: Sequence[int], width: int, pad: int) -> dict[str, Tensor]:
    """Return ``input_ids``, ``attention_mask`` and ``position_ids`` [width] int64.

    Positions are 0 on padding, then 0, 1, …
    """
    empty = width - len(ids)
    mask = torch.tensor([0] * empty + [1] * len(ids))
    return {
        "input_ids": torch.tensor([pad] * empty + list(ids)),
        "attention_mask": mask,
        # Positions begin with the first word: padding on the left must not move them.
        "position_ids": (mask.cumsum(0) - 1).clamp(min=0),
    }


def collate_fn(items: Sequence[Mapping[str, Any]]) -> dict[str, Tensor | np.ndarray[Any, Any]]:
    """Stack tensors to [B, ...] and everything else to object arrays [B].

    Raises ``InvalidField`` naming a field that not every item has, or whose tensors differ in shape.
    """
    if not items:
        raise InvalidField("items", "is empty")
    names = items[0].keys()
    for item in items:
        if odd := names ^ item.keys():
            raise InvalidField(min(odd), "is not in every item")
    return {name: merge_column(name, [item[name] for item in items]) for name in names}


def merge_column(name: str, values: Sequence[Any]) -> Tensor | np.ndarray[Any, Any]:
    """Merge one field of all items into a column."""
    if all(isinstance(value, Tensor) for value in values):
        if len({value.shape for value in values}) > 1:
            raise InvalidField(name, f"has shapes {sorted({tuple(value.shape) for value in values})}")
        return torch.stack(list(values))
    # Filled one by one: NumPy would make lists of equal length a matrix.
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column
