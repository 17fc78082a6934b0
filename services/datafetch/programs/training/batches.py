"""Batches of examples as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fathom.domain.programs.language import BEGIN, CLOSE, END, INDEX, OPEN_SERIES
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.conversation import Conversation, Cutter, cut_turns
from fathom.services.datafetch.programs.linking import Linker
from fathom.services.datafetch.programs.training.examples import Example

# Actions of the longest program that is trained on: the decoder has 160 places.
MOST_ACTIONS = 155
# Batches are of like length within stretches of so many batches, so that little is padded.
SORTED = 20

Pair = tuple[int, int]
NOWHERE = (-1, -1)


@dataclass(frozen=True)
class Mention:
    """A series in a program: the row, the place of its last token, its entry, its words and their pieces."""

    row: int
    at: int
    entry: int
    text: str
    pieces: tuple[Pair, ...]


@dataclass(frozen=True)
class Batch:
    """Conversations [rows, pieces] and programs [rows, tokens]; ``first`` and ``last`` piece are -1 for no words."""

    ids: Tensor
    mask: Tensor
    segments: Tensor
    given: Tensor
    wanted: Tensor
    first: Tensor
    last: Tensor
    mentions: list[Mention]


class Batcher:
    """Makes batches of examples."""

    def __init__(self, cutter: Cutter, linker: Linker, queries: QueryVectors) -> None:
        self._cutter, self._linker, self._queries = cutter, linker, queries
        self._places = {entry.id: at for at, entry in enumerate(linker.entries)}
        self._features: dict[str, Tensor] = {}

    def compare(self, texts: Sequence[str]) -> Tensor:
        """Return the features of the words of mentions, a row each; they stay the same for the whole training."""
        # Together: the encoder takes half as long for them then.
        new = [text for text in dict.fromkeys(texts) if text not in self._features]
        for text, vector in zip(new, self._queries.encode(new), strict=True):
            self._features[text] = torch.tensor(self._linker.compare(text, vector))
        return torch.stack([self._features[text] for text in texts])

    def make(self, examples: Sequence[Example]) -> Batch | None:
        """Return a batch; programs that are too long are left out, and None is returned where none is left."""
        rows = [one for one in examples if len(one.actions) <= MOST_ACTIONS]
        if not rows:
            return None
        cuts = [cut_turns(one.texts, self._cutter) for one in rows]
        shape = len(rows), max(len(cut.ids) for cut in cuts)
        ids, segments = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        shape = len(rows), max(len(one.actions) for one in rows) + 1
        given, wanted = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        first, last, mentions = torch.full(shape, -1), torch.full(shape, -1), list[Mention]()
        for row, (one, cut) in enumerate(zip(rows, cuts, strict=True)):
            width, length = len(cut.ids), len(one.actions) + 1
            ids[row, :width], segments[row, :width] = torch.tensor(cut.ids), torch.tensor(cut.segments)
            mask[row, :width] = True
            tokens = [INDEX[action.token] for action in one.actions]
            given[row, :length] = torch.tensor([INDEX[BEGIN], *tokens])
            wanted[row, :length] = torch.tensor([*tokens, INDEX[END]])
            pieces = [find_pieces(cut, action.text) for action in one.actions]
            first[row, : length - 1] = torch.tensor([pair[0] for pair in pieces])
            last[row, : length - 1] = torch.tensor([pair[1] for pair in pieces])
            mentions += self._list_mentions(row, one, pieces)
        return Batch(ids, mask, segments, given, wanted, first, last, mentions)

    def _list_mentions(self, row: int, example: Example, pieces: Sequence[Pair]) -> Iterator[Mention]:
        begun = 0
        for at, action in enumerate(example.actions):
            if action.token == OPEN_SERIES:
                begun = at
            elif action.token == CLOSE and action.target is not None:
                quoted = [(example.actions[k].text or "", pieces[k]) for k in range(begun + 1, at)]
                found = [(text, pair) for text, pair in quoted if pair != NOWHERE]
                entry = self._places.get(action.target, len(self._places))
                if found:
                    text = " ".join(text for text, _ in found)
                    yield Mention(row, at, entry, text, tuple(pair for _, pair in found))


def find_pieces(cut: Conversation, text: str | None) -> Pair:
    """Return the first and the last piece of words, in the last turn that has them; -1 for none."""
    if text is None:
        return NOWHERE
    for turn in reversed(range(len(cut.texts))):
        start = cut.texts[turn].find(text)
        while start >= 0:
            end = start + len(text)
            held = [
                at
                for at, place in enumerate(cut.places)
                if place.turn == turn and place.start < end and start < place.end and place.end > place.start
            ]
            if held:
                return held[0], held[-1]
            start = cut.texts[turn].find(text, start + 1)
    return NOWHERE


def split_batches(examples: Sequence[Example], size: int) -> list[list[Example]]:
    """Return batches of examples of like length."""
    order = sorted(range(len(examples)), key=lambda at: (at // (size * SORTED), sum(map(len, examples[at].texts))))
    return [[examples[at] for at in order[begin : begin + size]] for begin in range(0, len(order), size)]


def average_words(memory: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Return the mean states [rows, tokens, width] of pieces from first to last, zeros where there are none."""
    sums = torch.nn.functional.pad(memory.cumsum(1), (0, 0, 1, 0))
    begin, end = first.clamp(min=0), last.clamp(min=0)
    shape = (-1, -1, memory.shape[-1])
    total = torch.gather(sums, 1, (end + 1).unsqueeze(-1).expand(shape))
    total = total - torch.gather(sums, 1, begin.unsqueeze(-1).expand(shape))
    return total / (end - begin + 1).clamp(min=1).unsqueeze(-1) * (first >= 0).unsqueeze(-1)


def to_tensor(array: object) -> Tensor:
    return torch.tensor(np.asarray(array))
