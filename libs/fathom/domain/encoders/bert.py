"""BERT's encoder in PyTorch alone, with the attribute names of the transformers library.

Importing the library's BERT takes two seconds of processor time and compiles two thousand modules. Architecture:
arXiv 1810.04805, with norms after each residual, learned positions and the exact GELU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class BertShape:
    """Sizes of a model, named as in its ``config.json``."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    position_embedding_type: str = "absolute"
    hidden_act: str = "gelu"
    is_decoder: bool = False


@dataclass(frozen=True)
class States:
    """Output of the encoder: states [texts, tokens, hidden]."""

    last_hidden_state: torch.Tensor


class Embeddings(nn.Module):
    """Sum of the embeddings of words, positions and the first token type, normalised."""

    def __init__(self, shape: BertShape, words: nn.Module) -> None:
        super().__init__()
        self.word_embeddings = words
        self.position_embeddings = nn.Embedding(shape.max_position_embeddings, shape.hidden_size)
        self.token_type_embeddings = nn.Embedding(shape.type_vocab_size, shape.hidden_size)
        self.LayerNorm = nn.LayerNorm(shape.hidden_size, eps=shape.layer_norm_eps)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return [texts, tokens, hidden] of ids [texts, tokens]."""
        places = self.position_embeddings.weight[: ids.shape[1]] + self.token_type_embeddings.weight[0]
        normed: torch.Tensor = self.LayerNorm(self.word_embeddings(ids) + places)
        return normed


class Projections(nn.Module):
    """Query, key and value of an attention."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))


class Residual(nn.Module):
    """A linear layer whose output is added to a residual and normalised."""

    def __init__(self, width: int, shape: BertShape) -> None:
        super().__init__()
        self.dense = nn.Linear(width, shape.hidden_size)
        self.LayerNorm = nn.LayerNorm(shape.hidden_size, eps=shape.layer_norm_eps)

    def forward(self, states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.LayerNorm(self.dense(states) + residual)
        return normed


class Attention(nn.Module):
    """Self-attention of several heads with its residual."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.self, self.output = Projections(shape.hidden_size), Residual(shape.hidden_size, shape)
        self._heads = shape.num_attention_heads

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return new states [texts, tokens, hidden]; ``mask`` [texts, 1, 1, tokens] is false at padding."""
        query, key, value = (
            part(states).unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for part in (self.self.query, self.self.key, self.self.value)
        )
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended: torch.Tensor = self.output(read.transpose(1, 2).flatten(-2), states)
        return attended


class Intermediate(nn.Module):
    """The wide layer of the feed-forward network."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.intermediate_size)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return functional.gelu(self.dense(states))


class Layer(nn.Module):
    """One transformer layer: attention and feed-forward, each with its residual and norm."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.attention, self.intermediate = Attention(shape), Intermediate(shape)
        self.output = Residual(shape.intermediate_size, shape)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attended = self.attention(states, mask)
        narrowed: torch.Tensor = self.output(self.intermediate(attended), attended)
        return narrowed


class Stack(nn.Module):
    """The layers, one after the other."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))


class Bert(nn.Module):
    """BERT without a pooler; ``words`` is the embedding of token ids."""

    def __init__(self, shape: BertShape, words: nn.Module) -> None:
        super().__init__()
        self.config = shape
        self.embeddings, self.encoder = Embeddings(shape, words), Stack(shape)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> States:
        """Return the states of ids [texts, tokens]; ``attention_mask``, of the same shape, is 0 at padding."""
        states, mask = self.embeddings(input_ids), attention_mask[:, None, None, :].bool()
        for layer in self.encoder.layer:
            states = layer(states, mask)
        return States(states)
