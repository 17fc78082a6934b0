"""Leaks: texts of an evaluation that stand, whole or nearly, among those that a model was trained on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fathom.domain.text.shingles import Shingle, list_tokens, make_shingles

# Five tokens in a row are rarely shared by chance; templates of questions ("total return of … in 2019") share three or
# four. A text with fewer tokens than this is shared by chance all the time, and says nothing.
LENGTH = 5
# Share of a text's runs that one training text must have. A question that differs by a name or a year keeps about half.
SHARE = 0.7


@dataclass(frozen=True)
class Text:
    """A text with the name under which it is reported, e.g. file and line."""

    name: str
    text: str


@dataclass(frozen=True)
class Leak:
    """A text of an evaluation, the training text that has most of it, and how much: 1.0 is all of its runs."""

    held: Text
    training: Text
    share: float


def find_leaks(
    training: Iterable[Text], held: Iterable[Text], *, length: int = LENGTH, share: float = SHARE
) -> list[Leak]:
    """Return each held text of whose runs of ``length`` tokens one training text has at least ``share``.

    Held texts of fewer tokens are passed over. Memory grows with the held texts alone: training texts are read once.
    """
    # The index is of the held texts, a few hundred, where the training texts may be millions.
    texts = [item for item in held if len(list_tokens(item.text)) >= length]
    runs = [make_shingles(item.text, length) for item in texts]
    places: dict[Shingle, list[int]] = defaultdict(list)
    for place, own in enumerate(runs):
        for run in own:
            places[run].append(place)
    worst: dict[int, Leak] = {}
    for item in training:
        common = Counter(place for run in make_shingles(item.text, length) for place in places.get(run, ()))
        for place, count in common.items():
            found = count / len(runs[place])
            if found >= share and (place not in worst or found > worst[place].share):
                worst[place] = Leak(texts[place], item, found)
    return [worst[place] for place in sorted(worst)]
