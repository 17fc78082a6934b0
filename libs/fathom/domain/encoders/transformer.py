"""Sentence encoders on PyTorch: prefixes by kind, mean or first-token pooling, unit length.

Prefixes and pooling are those of the models' training: E5 (arXiv 2212.03533), BGE (arXiv 2309.07597), MiniLM of
sentence-transformers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fathom.core.errors import CorruptData, MissingExtra, NotFound
from fathom.domain.encoders.base import Kind, check_vectors, scale_to_unit
from fathom.domain.encoders.loading import LOADING
from fathom.domain.encoders.packing import TOKENS_TOGETHER

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from fathom.domain.encoders.packed import PackedBert

# Thresholds for starting a new batch at a longer text: padding costs as much as words do.
ROWS_BEFORE_SPLIT, WIDTH_BEFORE_SPLIT = 8, 1.3
# The words of BGE's training; any others cost recall.
BGE_QUERY = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True)
class Style:
    """Prefixes, pooling and length limits of a model family."""

    query: str = ""
    passage: str = ""
    pooling: Literal["mean", "first"] = "mean"
    query_tokens: int = 256
    passage_tokens: int = 512

    def select(self, kind: Kind) -> tuple[str, int]:
        """Return the prefix and the maximum tokens of a kind of text."""
        return (self.query, self.query_tokens) if kind == "query" else (self.passage, self.passage_tokens)


STYLES = {
    "e5": Style("query: ", "passage: "),
    "bge": Style(BGE_QUERY, "", "first"),
    "plain": Style(passage_tokens=256),
}


def style_of(name: str) -> Style:
    """Return the style of a model's family, recognised by name as in Search-R1."""
    lower = Path(name).name.lower()
    return next((style for family, style in STYLES.items() if family in lower), STYLES["plain"])


@dataclass(frozen=True)
class Loaded:
    """A model in memory. ``tokenise`` returns ids with special tokens, cut to a number of tokens; not thread-safe."""

    tokenise: Callable[[Sequence[str], int], list[list[int]]]
    model: Any
    dim: int
    padding: int = 0


class TransformerEncoder:
    """An ``Encoder`` that loads its model on first use."""

    def __init__(
        self, name: str, load: Callable[[], Loaded], style: Style, threads: int = 0, *, half: bool = True
    ) -> None:
        self.name, self._load, self._style, self._half = name, load, style, half
        self._threads = threads or len(os.sched_getaffinity(0))
        self._loaded: Loaded | None = None
        self._packed: PackedBert | None = None
        self._lock, self._tokenising = threading.Lock(), threading.Lock()
        self._device = "cpu"

    @property
    def dim(self) -> int:
        """Length of a vector; loads the model."""
        return self._ready().dim

    def _ready(self) -> Loaded:
        with self._lock:
            if self._loaded is None:
                try:
                    import torch
                except ImportError as error:
                    raise MissingExtra("torch", "dense") from error
                # For the whole process: PyTorch has no number of threads per model.
                torch.set_num_threads(self._threads)
                self._loaded = self._place(self._load())
            return self._loaded

    def _place(self, loaded: Loaded) -> Loaded:
        """Move the model to its device; on a CPU, hand a BERT's weights to ``PackedBert``."""
        import torch

        from fathom.domain.encoders.packed import PackedBert, is_packable

        loaded.model.eval()
        if torch.cuda.is_available():
            self._device = "cuda"
            loaded.model.to(self._device, torch.float16 if self._half else torch.float32)
        elif is_packable(loaded.model):
            self._packed = PackedBert(loaded.model, self._style.pooling, self._threads)
            # The library's copy of the weights is released: PackedBert has its own.
            return replace(loaded, model=None)
        return loaded

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors [texts, dim] of length 1; longer texts are cut.

        On a GPU the model runs in half precision unless configured otherwise.
        """
        import numpy as np
        import torch

        loaded = self._ready()
        prefix, limit = self._style.select(kind)
        with self._tokenising:  # the limit is a state of the tokenizer
            rows = loaded.tokenise([prefix + text for text in texts], limit)
        if self._packed is not None and rows:
            pooled = scale_to_unit(self._packed(rows))
            return check_vectors(pooled, len(texts), loaded.dim, self.name)
        vectors = np.empty((len(texts), loaded.dim), dtype=np.float32)
        with torch.inference_mode():
            for batch in batches(rows):
                vectors[batch] = self._forward(loaded, [rows[at] for at in batch]).cpu().numpy()
        return check_vectors(vectors, len(texts), loaded.dim, self.name)

    def _forward(self, loaded: Loaded, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        import torch

        width = max(len(row) for row in rows)
        ids = torch.full((len(rows), width), loaded.padding, dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : len(row)] = 1
        mask = mask.to(self._device)
        states = loaded.model(input_ids=ids.to(self._device), attention_mask=mask).last_hidden_state.float()
        if self._style.pooling == "first":
            pooled = states[:, 0]
        else:
            weights = mask.unsqueeze(-1).float()
            pooled = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(pooled, dim=-1)


def batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield positions in batches of similar lengths, so that there is little padding."""
    batch: list[int] = []
    # By length: a batch is as wide as its longest text.
    for at in sorted(range(len(rows)), key=lambda at: len(rows[at])):
        # Padding counts: it takes memory as words do.
        full = (len(batch) + 1) * len(rows[at]) > TOKENS_TOGETHER
        wide = len(batch) >= ROWS_BEFORE_SPLIT and len(rows[at]) > WIDTH_BEFORE_SPLIT * len(rows[batch[0]])
        if batch and (full or wide):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def load_folder(folder: Path) -> Loaded:
    """Load a model from ``config.json``, ``model.safetensors`` and ``tokenizer.json`` in a folder; downloads nothing.

    Raises ``NotFound`` without such a folder, ``CorruptData`` for one that cannot be read, ``MissingExtra``.
    """
    try:
        from tokenizers import Tokenizer
        from transformers import AutoModel
        from transformers.utils import logging
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "dense") from error
    if not (folder / "config.json").exists():
        raise NotFound("model folder", str(folder))
    logging.disable_progress_bar()
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        with LOADING:
            model = AutoModel.from_pretrained(str(folder), local_files_only=True)
    # Tokenizer and model library raise bare Exception and many kinds of their own for a file they cannot read.
    except Exception as error:
        raise CorruptData(str(folder), f"{type(error).__name__} {error}") from error
    tokenizer.no_padding()
    longest = int(model.config.max_position_embeddings) - 2  # not by way of the model, which may be let go

    def tokenise(texts: Sequence[str], limit: int) -> list[list[int]]:
        tokenizer.enable_truncation(min(limit, longest))
        return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]

    return Loaded(tokenise, model, int(model.config.hidden_size), int(model.config.pad_token_id or 0))
