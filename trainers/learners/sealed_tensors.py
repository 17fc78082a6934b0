"""Weights in the format safetensors, into sealed memory or a file: one pass that writes and hashes.

The library writes to a new file and renames it, which memory without a name cannot take, and hashes nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from fathom.transport.hashed_files import HashingWriter

NAMES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
        torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    }
)  # fmt: skip
# Readers map the file into memory and want numbers at multiples of their size.
ALIGNMENT = 8
LENGTH = struct.Struct("<Q")


def can_write(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether all tensors have a type of ``NAMES``."""
    return all(tensor.dtype in NAMES for tensor in tensors.values())


def write_tensors(tensors: Mapping[str, Tensor], writer: HashingWriter) -> None:
    """Write contiguous tensors, which must not change until the writer has finished; ``OSError`` without room."""
    # Wide types first, so that every value stands at a multiple of its size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for key, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[key] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    writer.write(LENGTH.pack(len(header)) + header)
    for _, tensor in ordered:
        values = tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy()
        if values.size:
            writer.write(values.data)
