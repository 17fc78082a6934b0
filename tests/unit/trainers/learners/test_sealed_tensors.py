"""Weights in sealed memory: what the library reads there is what it reads from a file that it has written itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from fathom.trainers.learners.sealed_tensors import NAMES, can_write, write_tensors
from fathom.trainers.shards import count_bytes
from fathom.transport.sealed_memory import SealedWriter

SHAPES: tuple[tuple[int, ...], ...] = ((3, 5), (7,), (), (0, 4))


@pytest.mark.parametrize("dtype", NAMES, ids=str)
def test_every_type_and_shape_is_read_back(dtype: torch.dtype) -> None:
    tensors = {f"t{n}": (torch.rand(shape) * 50).to(dtype) for n, shape in enumerate(SHAPES)}
    # A narrow type before a wide one would leave the wide one at an odd place.
    tensors |= {"a": torch.tensor([1], dtype=torch.uint8), "z": torch.rand(4, dtype=torch.float64)}
    writer = SealedWriter("model.safetensors")
    write_tensors(tensors, writer)
    file = writer.seal()
    data = file.read()
    assert (file.size_bytes, file.checksum) == (len(data), hashlib.sha256(data).hexdigest())
    found, expected = load(data), load(save(tensors, metadata={"format": "pt"}))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    assert count_bytes(tensors) < len(data)
    file.close()


def test_types_without_a_name_are_left_to_the_library(tmp_path: Path) -> None:
    assert not can_write({"a": torch.zeros(2, dtype=torch.complex64)})
