"""Weights of one version in several files, so that processors hash and check them side by side.

Names and index are those of Hugging Face's folders: whoever loads these takes one file or several.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

Tensors = dict[str, Tensor]
# A checksum is computed from front to back, by one processor per file; it takes longer than copying the bytes.
MAX_SHARDS = 8
# Below it a file is hashed in a twentieth of a second, and one file is simpler.
MIN_SHARD_BYTES = 64 << 20


def count_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Return the bytes of the tensors' values."""
    return sum(tensor.nbytes for tensor in tensors.values())


def split_tensors(tensors: Tensors, min_shard_bytes: int = MIN_SHARD_BYTES) -> list[Tensors]:
    """Split tensors into parts of about equal size, the same ones for the same shapes; one part of small models."""
    number = min(MAX_SHARDS, len(tensors), count_bytes(tensors) // min_shard_bytes)
    if number < 2:
        return [tensors]
    parts: list[Tensors] = [{} for _ in range(number)]
    sizes = [0] * number
    # Largest first, each to the part that has least: the rest evens out what the large ones have made unequal.
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].nbytes, item[0])):
        least = sizes.index(min(sizes))
        parts[least][name] = tensor
        sizes[least] += tensor.nbytes
    return parts


def save_shards(tensors: Tensors, path: Path, save: Callable[[Tensors, Path], None]) -> None:
    """Save weights with ``save`` to ``path``, or to several files beside it with an index of what is where."""
    parts = split_tensors(tensors)
    if len(parts) == 1:
        save(tensors, path)
        return
    places: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        name = f"{path.stem}-{number:05d}-of-{len(parts):05d}{path.suffix}"
        save(part, path.with_name(name))
        places |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": count_bytes(tensors)}, "weight_map": dict(sorted(places.items()))}
    path.with_name(f"{path.name}.index.json").write_text(json.dumps(index, indent=1))
