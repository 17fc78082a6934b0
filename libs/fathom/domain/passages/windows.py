"""Quote a passage around its best part, as a search engine shows a hit: with the lines before and behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.domain.text.terms import RULE, SENTENCE, Part

# Letters that are quoted of a passage, of which a Chinese character takes two: with 600 instead the answer is cut off
# twice as often.
WINDOW_CHARS, WIDE = 800, 2
SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Piece:
    """A sentence, a row of a table or another line of a text, and whether it begins a line."""

    text: str
    starts_line: bool

    @property
    def weight(self) -> int:
        """Return the length in letters."""
        return sum(WIDE if HAN_CHARACTER.match(character) else 1 for character in self.text)


def quote_window(text: str, part: Part, limit: int = WINDOW_CHARS) -> str:
    """Return a part of a text with what stands before and behind it, as much as the limit allows, in its order.

    Lines are parted by the marks of quotations, and the names of a row's columns stand before it.
    """
    pieces = split_pieces(text)
    best = find_piece(pieces, part)
    if best is None:
        return SPACES.sub(" ", part.text)
    first, last = widen(pieces, best, limit)
    shown = [pieces[first].text]
    for before, piece in pairwise(pieces[first : last + 1]):
        if piece.starts_line:
            shown.append(piece.text)
        else:
            # Chinese has no blanks between its sentences.
            shown[-1] += ("" if before.text[-1] in "。！？" else " ") + piece.text
    heads = [line for line in part.head.splitlines() if all(line not in one for one in shown)]
    return SPACES.sub(" ", "” … “".join([*heads, *shown]))


def split_pieces(text: str) -> list[Piece]:
    """Return the sentences, rows and other lines of a text in order, without what only parts rows."""
    found = []
    for line in text.splitlines():
        if not line.strip() or RULE.fullmatch(line):
            continue
        sentences = [line] if "|" in line else SENTENCE.split(line)
        said = [one.strip("| ") for one in sentences if one.strip("| ")]
        found += [Piece(one, place == 0) for place, one in enumerate(said)]
    return found


def find_piece(pieces: Sequence[Piece], part: Part) -> int | None:
    """Return the place of the piece that a part is; None where the text was cut otherwise."""
    wanted = part.text.strip("| ")
    places = [place for place, piece in enumerate(pieces) if piece.text == wanted]
    return places[0] if places else next((at for at, piece in enumerate(pieces) if wanted in piece.text), None)


def widen(pieces: Sequence[Piece], best: int, limit: int) -> tuple[int, int]:
    """Return the first and the last piece of a window: what follows is taken first, since it limits what is said."""
    first = last = best
    weight = pieces[best].weight
    is_open = {+1: True, -1: True}
    while any(is_open.values()):
        for step in (+1, -1):
            place = last + 1 if step > 0 else first - 1
            is_open[step] &= 0 <= place < len(pieces) and weight + pieces[place].weight <= limit
            if is_open[step]:
                weight += pieces[place].weight
                first, last = min(first, place), max(last, place)
    return first, last
