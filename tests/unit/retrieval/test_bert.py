"""BERT in NumPy gives what the library's BERT gives with the same weights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel  # type: ignore[attr-defined]

from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.encoders.bert import Bert, Block, Linear, Norm, apply_gelu
from fathom.domain.encoders.loading import LOADING


def read_linear(*layers: Any) -> Linear:
    """Return the library's layers with the same input as one."""
    return Linear(
        np.concatenate([layer.weight.detach().numpy() for layer in layers]).T.copy(),
        np.concatenate([layer.bias.detach().numpy() for layer in layers]),
    )


def read_norm(layer: Any) -> Norm:
    return Norm(layer.weight.detach().numpy(), layer.bias.detach().numpy(), layer.eps)


def read_block(layer: Any) -> Block:
    own, output = layer.attention.self, layer.attention.output
    return Block(
        read_linear(own.query, own.key, own.value), read_linear(output.dense), read_norm(output.LayerNorm),
        read_linear(layer.intermediate.dense), read_linear(layer.output.dense), read_norm(layer.output.LayerNorm),
    )  # fmt: skip


def test_mean_states_are_those_of_the_library() -> None:
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=40, type_vocab_size=2, layer_norm_eps=1e-12,
    )  # fmt: skip
    with LOADING:
        theirs = BertModel(config, add_pooling_layer=False).eval()
    parts = theirs.embeddings
    words = parts.word_embeddings.weight.detach().numpy()
    places = (parts.position_embeddings.weight + parts.token_type_embeddings.weight[0]).detach().numpy()
    rows = [torch.randint(1, 50, (length,)).tolist() for length in (12, 7, 12, 40, 1)]
    with ThreadPoolExecutor(2) as workers:
        blocks = tuple(read_block(layer) for layer in theirs.encoder.layer)
        found = Bert(lambda ids: words[ids], places, read_norm(parts.LayerNorm), blocks, 4, workers, 2).encode(rows)
    with torch.inference_mode():
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]
        expected = torch.nn.functional.normalize(torch.stack(means), dim=-1)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_gelu_is_the_exact_one() -> None:
    values = np.linspace(-9, 9, 4_001, dtype=np.float32).reshape(-1, 1)
    expected = torch.nn.functional.gelu(torch.from_numpy(values.copy())).numpy()
    np.testing.assert_allclose(apply_gelu(values), expected, atol=2e-6)


def test_vectors_get_length_one_and_a_vector_of_zeros_stays_one() -> None:
    found = scale_to_unit(np.array([[3, 4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], atol=1e-7)  # type: ignore[arg-type]
