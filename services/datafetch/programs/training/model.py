"""The reader's network in PyTorch, for training; ``programs/network.py`` computes the same in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the usual name

from fathom.domain.encoders.bert import Bert, Block, Linear, Norm
from fathom.domain.programs.language import INDEX, SPAN, TOKENS
from fathom.services.datafetch.programs.catalogue import META_WIDTH
from fathom.services.datafetch.programs.linking import FEATURES
from fathom.services.datafetch.programs.network import HEADS, LINK_SCALE, LORA_SCALE, OUTSIDE, POINTER_SCALE
from fathom.services.datafetch.programs.weights import Weights

WIDTH, LAYERS, INNER, RANK, LINKED, PLACES = 256, 3, 768, 16, 192, 160
# Hidden units of the comparison of letters.
COMPARED = 32


def copy(array: Any) -> Tensor:
    return torch.tensor(np.array(array))


class Changed(nn.Module):
    """A frozen layer of the encoder with a trained change, the product of two narrow matrices."""

    w: Tensor
    b: Tensor

    def __init__(self, base: Linear, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        inputs, outputs = base.weights.shape
        self.register_buffer("w", copy(base.weights.T).contiguous().to(dtype), persistent=False)
        self.register_buffer("b", copy(base.bias).to(dtype), persistent=False)
        self.a = nn.Parameter(torch.randn(inputs, rank) / math.sqrt(inputs))
        self.z = nn.Parameter(torch.zeros(rank, outputs))

    def forward(self, rows: Tensor) -> Tensor:
        change = (rows @ self.a.to(rows.dtype)) @ self.z.to(rows.dtype)
        return F.linear(rows, self.w, self.b) + change * LORA_SCALE


class TrainedNorm(nn.Module):
    """A norm of the encoder, trained on."""

    def __init__(self, base: Norm) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(copy(base.weight)), nn.Parameter(copy(base.bias))
        self.epsilon = base.epsilon

    def forward(self, rows: Tensor) -> Tensor:
        weight, bias = self.weight.to(rows.dtype), self.bias.to(rows.dtype)
        return F.layer_norm(rows, (rows.shape[-1],), weight, bias, self.epsilon)


def change_block(base: Block, rank: int, dtype: torch.dtype) -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            "attend": Changed(base.attend, rank, dtype),
            "attended": Changed(base.attended, rank, dtype),
            "n1": TrainedNorm(base.norm_attended),
            "widen": Changed(base.widen, rank, dtype),
            "narrow": Changed(base.narrow, rank, dtype),
            "n2": TrainedNorm(base.norm),
        }
    )


class Encoder(nn.Module):
    """The sentence encoder with changed layers, computed in the precision of ``dtype``."""

    places: Tensor

    def __init__(self, base: Bert, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        self._words, self._heads, self._dtype = base.words, base.heads, dtype
        self.register_buffer("places", copy(base.places), persistent=False)
        self.norm = TrainedNorm(base.norm)
        self.blocks = nn.ModuleList(change_block(block, rank, dtype) for block in base.blocks)
        self._held: dict[int, Tensor] = {}

    def look_up(self, ids: Tensor) -> Tensor:
        """Return the embeddings of pieces, each unpacked once."""
        flat = ids.flatten().tolist()
        if new := sorted(set(flat) - self._held.keys()):
            self._held.update(zip(new, copy(self._words(np.array(new))), strict=True))
        return torch.stack([self._held[one] for one in flat]).view(*ids.shape, -1)

    def forward(self, ids: Tensor, mask: Tensor, drop: float) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states: Tensor = self.norm((self.look_up(ids) + self.places[: ids.shape[1]]).to(self._dtype))
            rows, length, width = states.shape
            bias = torch.zeros(rows, 1, 1, length).masked_fill(~mask[:, None, None, :], OUTSIDE).to(self._dtype)
            for block in self.blocks:
                assert isinstance(block, nn.ModuleDict)
                shape = (rows, length, 3, self._heads, width // self._heads)
                query, key, value = block["attend"](states).view(shape).permute(2, 0, 3, 1, 4)
                scores = query * (width // self._heads) ** -0.5 @ key.transpose(-1, -2) + bias
                context = (scores.softmax(-1) @ value).transpose(1, 2).reshape(rows, length, width)
                states = block["n1"](block["attended"](context) + states)
                inner = block["narrow"](F.gelu(block["widen"](states)))
                states = block["n2"](F.dropout(inner, drop, self.training) + states)
        return states


class DecoderLayer(nn.Module):
    """One layer of the decoder, norms before each part."""

    def __init__(self, width: int, source: int, inner: int) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q2, self.kv2, self.o2 = nn.Linear(width, width), nn.Linear(source, 2 * width), nn.Linear(width, width)
        self.f1, self.f2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.n1, self.n2, self.n3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, rows: Tensor, memory: Tensor, bias: Tensor, drop: float) -> Tensor:
        query, key, value = map(split_heads, self.qkv(self.n1(rows)).chunk(3, -1))
        context = join_heads(F.scaled_dot_product_attention(query, key, value, is_causal=True))
        rows = rows + F.dropout(self.o(context), drop, self.training)
        key, value = map(split_heads, self.kv2(memory).chunk(2, -1))
        query = split_heads(self.q2(self.n2(rows)))
        context = join_heads(F.scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype)))
        rows = rows + F.dropout(self.o2(context), drop, self.training)
        return rows + F.dropout(self.f2(F.relu(self.f1(self.n3(rows)))), drop, self.training)


def split_heads(rows: Tensor) -> Tensor:
    return rows.view(len(rows), rows.shape[1], HEADS, -1).transpose(1, 2)


def join_heads(rows: Tensor) -> Tensor:
    return rows.transpose(1, 2).flatten(2)


class ReaderModel(nn.Module):
    """Encoder, decoder with pointers, and linker. The names of its parameters are those of the file of weights."""

    def __init__(
        self, base: Bert, width: int = WIDTH, layers: int = LAYERS, inner: int = INNER, rank: int = RANK,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:  # fmt: skip
        super().__init__()
        source = base.dim
        self.encoder = Encoder(base, rank, dtype)
        self.segment, self.token, self.place = (
            nn.Embedding(2, source),
            nn.Embedding(len(TOKENS), width),
            nn.Embedding(PLACES, width),
        )
        self.span_in, self.bridge = nn.Linear(source, width), nn.LayerNorm(source)
        self.layers = nn.ModuleList(DecoderLayer(width, source, inner) for _ in range(layers))
        self.out_norm, self.out = nn.LayerNorm(width), nn.Linear(width, len(TOKENS))
        self.p_start, self.p_end, self.p_pair = (
            nn.Linear(width, source),
            nn.Linear(width, source),
            nn.Linear(source, source),
        )
        both = width + source
        self.l_query, self.l_entry, self.l_meta = (
            nn.Linear(both, LINKED),
            nn.Linear(source, LINKED),
            nn.Linear(both, META_WIDTH),
        )
        self.l_feat = nn.Sequential(nn.Linear(FEATURES, COMPARED), nn.ReLU(), nn.Linear(COMPARED, 1))
        self.l_none = nn.Linear(both + FEATURES, 1)
        for one in (self.segment, self.token, self.place):
            nn.init.normal_(one.weight, std=0.02)

    def read(self, ids: Tensor, mask: Tensor, segments: Tensor, drop: float = 0.0) -> Tensor:
        """Return the states [rows, pieces, width] of conversations."""
        states: Tensor = self.bridge(self.encoder(ids, mask, drop).float() + self.segment(segments))
        return states

    def write(self, memory: Tensor, mask: Tensor, tokens: Tensor, quoted: Tensor, drop: float = 0.0) -> Tensor:
        """Return the decoder's states [rows, tokens, width]; ``quoted`` are the mean states of quoted words."""
        is_span = (tokens == INDEX[SPAN]).unsqueeze(-1)
        states = self.token(tokens) + self.place.weight[: tokens.shape[1]] + self.span_in(quoted) * is_span
        bias = torch.zeros(len(states), 1, 1, memory.shape[1]).masked_fill(~mask[:, None, None, :], OUTSIDE)
        states = F.dropout(states, drop, self.training)
        for layer in self.layers:
            states = layer(states, memory, bias, drop)
        normed: Tensor = self.out_norm(states)
        return normed

    def score_starts(self, states: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        scores = self.p_start(states) @ memory.transpose(1, 2) / POINTER_SCALE
        found: Tensor = scores.masked_fill(~mask[:, None, :], OUTSIDE)
        return found

    def score_ends(self, states: Tensor, memory: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """Return the scores [rows, tokens, pieces] of last pieces behind first ones [rows, tokens]."""
        begun = torch.gather(memory, 1, start.unsqueeze(-1).expand(-1, -1, memory.shape[-1]))
        scores = (self.p_end(states) + self.p_pair(begun)) @ memory.transpose(1, 2) / POINTER_SCALE
        is_behind = torch.arange(memory.shape[1])[None, None, :] >= start.unsqueeze(-1)
        found: Tensor = scores.masked_fill(~(mask[:, None, :] & is_behind), OUTSIDE)
        return found

    def score_links(self, states: Tensor, words: Tensor, entries: Tensor, meta: Tensor, features: Tensor) -> Tensor:
        """Return the scores [mentions, entries + 1] of entries; the last is for none of them."""
        both = torch.cat([states, words], -1)
        scores = self.l_query(both) @ self.l_entry(entries).T / LINK_SCALE + self.l_meta(both) @ meta.T
        scores = scores + self.l_feat(features).squeeze(-1)
        return torch.cat([scores, self.l_none(torch.cat([both, features.amax(1)], -1))], -1)


def set_weights(model: ReaderModel, weights: Weights) -> None:
    """Give a model the weights of a file, as it has them; raise ``RuntimeError`` for weights of another model."""
    model.load_state_dict({name: torch.tensor(tensor) for name, tensor in weights.tensors.items()})
