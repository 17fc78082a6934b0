"""Likeness of a question's words to the names of the catalogue's series, by letters and by meaning."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fathom.core.ids import content_hash
from fathom.domain.encoders.base import Encoder
from fathom.domain.text.scripts import HAN_AND_RARE
from fathom.services.datafetch.discovery.embeddings import BATCH, save_vectors
from fathom.services.datafetch.programs.catalogue import META_WIDTH, Entry

# Features of an entry, and the place of "is called exactly so" among them.
FEATURES, EXACT = 8, 4
# The cosine of unrelated texts, and what stretches the rest to about 0 to 1.
FLOOR, STRETCHED = 0.8, 5.0
# The weight of letters that no name has, and the number of titles that count as the nearest.
RARE, NEAREST = 7.0, 5
# A shorter word ends in s without being a plural.
SHORTEST_PLURAL = 3
HAN_CHAR = re.compile(f"[{HAN_AND_RARE}]")
WORD = re.compile(f"[a-z0-9]+|[{HAN_AND_RARE}]")
SEPARATORS = re.compile(r"[\s\-_'’.,&()（）]+")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Vectors:
    """Vectors of the titles of entries and of their names."""

    titles: Floats
    names: Floats


class NameIndex:
    """An index of names by what they consist of: words, or letters in threes."""

    def __init__(self, names: Sequence[str], split: Callable[[str], Iterable[str]]) -> None:
        self._split = split
        parts = [set(split(name)) for name in names]
        held = defaultdict(list)
        for at, one in enumerate(parts):
            for part in one:
                held[part].append(at)
        self._held: Mapping[str, NDArray[np.int32]] = {part: np.array(rows, np.int32) for part, rows in held.items()}
        self._weights = {part: np.log(len(names) / (1 + len(rows))) + 1 for part, rows in held.items()}
        self.sizes = np.array([len(one) for one in parts], np.float32)
        self.norms = np.array([np.sqrt(sum(self._weights[part] ** 2 for part in sorted(one))) for one in parts])

    def weigh(self, text: str) -> tuple[NDArray[np.float64], float]:
        """Return the squared weights [names] of what each name has in common with a text, and the text's norm."""
        parts, common = sorted(set(self._split(text))), np.zeros(len(self.sizes))
        for part in parts:
            if part in self._held:
                common[self._held[part]] += self._weights[part] ** 2
        return common, float(np.sqrt(sum(self._weights.get(part, RARE) ** 2 for part in parts))) or 1.0

    def count(self, text: str) -> tuple[NDArray[np.float64], int]:
        """Return how many parts each name has in common with a text, and how many the text has."""
        parts, common = set(self._split(text)), np.zeros(len(self.sizes))
        for part in parts & self._held.keys():
            common[self._held[part]] += 1
        return common, len(parts)


class Linker:
    """Compares the words of a question with all entries. Read-only, hence thread-safe."""

    def __init__(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        self.entries, self.vectors = tuple(entries), vectors
        self.by_id = {entry.id: entry for entry in entries}
        self.meta = np.stack([entry.meta for entry in entries]) if entries else np.zeros((0, META_WIDTH), np.float32)
        names = [name for entry in entries for name in entry.names]
        # The first name of each entry: all of an entry stand together.
        self._firsts = np.cumsum([0, *(len(entry.names) for entry in entries)])[:-1]
        self._letters, self._words = NameIndex(names, split_letters), NameIndex(names, split_words)
        self._exact = defaultdict(list)
        for at, name in enumerate(names):
            self._exact[simplify(name)].append(at)

    def compare(self, text: str, vector: Floats) -> Floats:
        """Return the features [entries, 8] of words, of which the vector is one as of a query."""
        common, norm = self._letters.weigh(text)
        norms = self._letters.norms
        both, count = self._words.count(text)
        exact = np.zeros(len(norms))
        exact[self._exact.get(simplify(text), [])] = 1
        of_names = np.stack([
            common / (norms + 1e-6) / norm,
            common / norm**2,
            common / (norms**2 + 1e-6),
            (self.vectors.names @ vector - FLOOR) * STRETCHED,
            exact,
            both / np.maximum(self._words.sizes + count - both, 1),
        ])  # fmt: skip
        out = np.empty((len(self.entries), FEATURES), dtype=np.float32)
        # No feature of an entry is less than 0: unlike words say nothing against it.
        out[:, :6] = np.maximum(np.maximum.reduceat(of_names, self._firsts, axis=1).T, 0)
        titles = self.vectors.titles @ vector
        out[:, 6] = (titles - FLOOR) * STRETCHED
        out[:, 7] = titles >= np.sort(titles)[-min(NEAREST, len(titles))]
        return out


def load_vectors(entries: Sequence[Entry], encoder: Encoder, folder: Path, is_ended: Callable[[], bool]) -> Vectors:
    """Return the vectors of entries from the folder's cache, or compute and keep them.

    Raises ``MissingExtra`` or ``DependencyFailed`` without a model, ``InterruptedError`` once ``is_ended``.
    """
    titles, names = [entry.text for entry in entries], [name for entry in entries for name in entry.names]
    cached = folder / f"{Path(encoder.name).name}-programs-{content_hash([titles, names])[:24]}.npy"
    if cached.exists():
        vectors = np.load(cached, allow_pickle=False)
    else:
        made = []
        for texts, kind in ((titles, "passage"), (names, "query")):
            for at in range(0, len(texts), BATCH):
                if is_ended():
                    raise InterruptedError("the service closes")
                made.append(encoder.encode(texts[at : at + BATCH], "passage" if kind == "passage" else "query"))
        vectors = np.concatenate(made)
        save_vectors(vectors, cached)
    return Vectors(vectors[: len(titles)], vectors[len(titles) :])


def simplify(text: str) -> str:
    """Return a text in lower case without blanks and signs."""
    return SEPARATORS.sub("", text.lower())


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text without a plural's s, and each Chinese character."""
    for word in WORD.findall(text.lower()):
        yield word.rstrip("s") if len(word) > SHORTEST_PLURAL else word


def split_letters(text: str) -> Iterator[str]:
    """Yield words, their letters in threes, Chinese characters and pairs of them."""
    for word in split_words(text):
        if HAN_CHAR.match(word):
            yield word
        else:
            yield f" {word}"
            edged = f"<{word}>"
            yield from (edged[at : at + 3] for at in range(len(edged) - 2))
    chinese = HAN_CHAR.findall(text)
    yield from (first + second for first, second in pairwise(chinese))
