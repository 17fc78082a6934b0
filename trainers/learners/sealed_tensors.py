"""Weights into sealed memory in the format safetensors: one pass that writes and hashes, without a file on disk.

The library writes to a new file and renames it, which memory without a name cannot take.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from fathom.transport.sealed_memory import SealedFile, SealedWriter

NAMES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
        torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    }
)  # fmt: skip
# Readers map the file into memory and want numbers at multiples of their size.
ALIGNMENT = 8
LENGTH = struct.Struct("<Q")


def count_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Return the bytes of the tensors' values."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def can_write(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether all tensors have a type of ``NAMES``."""
    return all(tensor.dtype in NAMES for tensor in tensors.values())


def write_tensors(tensors: Mapping[str, Tensor], name: str) -> SealedFile:
    """Write contiguous tensors into a sealed file, whose ``name`` operators see; raises ``OSError`` without memory."""
    # Wide types first, so that every value stands at a multiple of its size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for key, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[key] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    writer = SealedWriter(name)
    try:
        writer.write(LENGTH.pack(len(header)) + header)
        for _, tensor in ordered:
            values = tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy()
            if values.size:
                writer.write(values.data)
        return writer.seal()
    # Also when it is cancelled: memory that nobody can name again would stay until the process ends.
    except BaseException:
        writer.discard()
        raise
