"""The file of the reader's weights: matrices in 8 bits with a scale per row, the rest in 16 bits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData, MissingExtra
from fathom.domain.programs.language import TOKENS

FILE = Path(__file__).parent / "weights.safetensors"
SCALE = ".scale"
# Smaller tensors are biases and norms: rounding them to 8 bits would save nothing.
LEAST_PACKED = 4_096

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Weights:
    """Tensors by name, the encoder that they change, and the hash of the examples that they were trained on."""

    encoder: str
    version: str
    tensors: Mapping[str, Floats]
    tokens: tuple[str, ...] = TOKENS


def save_weights(weights: Weights, path: Path) -> None:
    """Write the file of the weights."""
    from safetensors.numpy import save

    packed: dict[str, NDArray[Any]] = {}
    for name, tensor in weights.tensors.items():
        if tensor.ndim == 2 and tensor.size >= LEAST_PACKED:
            packed[name], packed[name + SCALE] = pack(np.asarray(tensor, np.float32))
        else:
            packed[name] = np.asarray(tensor, np.float16)
    about = {"encoder": weights.encoder, "version": weights.version, "tokens": json.dumps(weights.tokens)}
    # As bytes: a file written by the library itself is readable by its owner alone.
    path.write_bytes(save(packed, metadata=about))


def load_weights(path: Path = FILE) -> Weights:
    """Load the weights; raise ``CorruptData`` naming the file when it does not fit the language of programs.

    Raises ``MissingExtra`` without safetensors.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtra("safetensors", "dense") from error
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            packed = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        tokens = tuple(json.loads(about["tokens"]))
        tensors = {
            name: unpack(tensor, packed[name + SCALE]) if name + SCALE in packed else tensor.astype(np.float32)
            for name, tensor in packed.items()
            if not name.endswith(SCALE)
        }
        weights = Weights(about["encoder"], about["version"], tensors, tokens)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CorruptData(path.name, f"{type(error).__name__} {error}") from error
    if weights.tokens != TOKENS:
        raise CorruptData(path.name, "was made for other functions than the language of programs has")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise CorruptData(path.name, "has weights that are no numbers")
    return weights


def pack(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return the numbers of a matrix in 8 bits and the scale of each row."""
    scale = np.abs(matrix).max(axis=1, keepdims=True).clip(min=1e-12) / 127
    return np.rint(matrix / scale).astype(np.int8), scale.astype(np.float32)


def unpack(packed: NDArray[np.int8], scale: Floats) -> Floats:
    """Return the matrix of numbers in 8 bits and the scales of its rows."""
    return packed.astype(np.float32) * scale
