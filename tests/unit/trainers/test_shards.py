"""Weights in several files: all of them there, once, of about equal size, the same ones each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fathom.trainers import shards
from fathom.trainers.shards import MAX_SHARDS, count_bytes, save_shards, split_tensors


def test_small_models_and_single_tensors_stay_in_one_file() -> None:
    tensors = {"a": torch.rand(100), "b": torch.rand(100)}
    assert split_tensors(tensors) == [tensors]
    assert len(split_tensors({"a": torch.rand(100)}, 10)) == 1


def test_parts_are_even_and_follow_from_the_shapes() -> None:
    tensors = {f"t{n}": torch.rand(10 + n) for n in range(60)}
    parts = split_tensors(tensors, 200)
    assert len(parts) == MAX_SHARDS
    assert sorted(name for part in parts for name in part) == sorted(tensors)
    sizes = [count_bytes(part) for part in parts]
    assert max(sizes) - min(sizes) <= 4 * 69, "no more apart than one tensor"
    again = split_tensors({name: tensor + 1 for name, tensor in reversed(tensors.items())}, 200)
    assert [part.keys() for part in again] == [part.keys() for part in parts]


def test_the_index_says_where_each_tensor_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "split_tensors", lambda tensors: split_tensors(tensors, 100))
    tensors = {f"t{n}": torch.rand(20) for n in range(4)}
    save_shards(tensors, tmp_path / "model.safetensors", save_file)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 320
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)
    ]
    for name, tensor in tensors.items():
        assert torch.equal(load_file(tmp_path / index["weight_map"][name])[name], tensor)
