"""Free text → indicators of the library: dictionary, then n-grams, together with an embedding where there is one."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from services.datafetch.semantic.schema import IndicatorSpec
from services.datafetch.semantic.text import CJK, normal

WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]+")
UNIT = re.compile(r"[A-Za-z0-9]+|[\u3400-\u9fff]")
STOP = frozenset(
    [
        "the",
        "of",
        "a",
        "an",
        "and",
        "or",
        "for",
        "in",
        "to",
        "on",
        "by",
        "at",
        "as",
        "is",
        "are",
        "its",
        "with",
        "from",
        "per",
        "的",
        "是",
        "和",
        "与",
        "了",
        "在",
    ]
)
Near = Callable[[str, int], "list[tuple[int, float]]"]
"""Of a text the positions of names of like meaning, with a likeness of 0 to 1, best first."""
MEANT, MEANT_LONG, LONG = 0.7, 0.3, 16
"""What likeness of meaning counts beside likeness of letters: of a mention, and of a text of more words (or Chinese
characters) than 16, which means more than one name does."""
SUPPORT, FRIENDS = 0.5, 3
"""What the three likeliest indicators of a table add to all of its indicators."""
NEAR = 300
STRANGE = 0.25
"""The share of a mention's characters that an indicator's names may lack."""


@dataclass(frozen=True)
class Scored:
    """A candidate; ``score`` is 1 for a name of its own, below that a share of the best possible."""

    id: str
    score: float
    surface: str
    how: str


def grams(text: str) -> list[str]:
    """Stems of Latin words, and single characters and pairs of Chinese ones."""
    found: list[str] = []
    for run in WORD.findall(normal(text)):
        if CJK.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
            found += [f"c{char}" for char in run]
        elif run not in STOP:
            found.append(stem(run))
    return found


def stem(word: str) -> str:
    """A word without its plural and the like; crude, and the same on both sides."""
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


class Matcher:
    """Matches mentions to indicators. Every name is a document; an indicator scores as its best name."""

    def __init__(
        self,
        specs: Iterable[IndicatorSpec],
        extra: Iterable[tuple[str, str]] = (),
        tables: Mapping[str, str] | None = None,
    ) -> None:
        """``extra``: further names, as pairs of id and name; ``tables``: the wide table of an indicator."""
        self._tables = tables or {}
        self._said: dict[str, set[str]] = {}
        self._documents: list[tuple[str, str]] = []
        for spec in specs:
            names = [spec.name, spec.name_zh, spec.definition, *spec.synonyms]
            self._documents += [(spec.id, name) for name in dict.fromkeys(filter(None, names))]
        self._documents += [pair for pair in dict.fromkeys(extra) if pair not in set(self._documents)]
        self._exact: dict[str, list[str]] = defaultdict(list)
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._norms: list[float] = []
        counts = [Counter(grams(name)) for _, name in self._documents]
        frequency = Counter(gram for count in counts for gram in count)
        self._idf = {gram: math.log(1 + len(counts) / found) for gram, found in frequency.items()}
        for number, ((ident, name), count) in enumerate(zip(self._documents, counts, strict=True)):
            self._exact[normal(name)].append(ident)
            self._norms.append(math.sqrt(sum((self._idf[g] * n) ** 2 for g, n in count.items())) or 1.0)
            for gram, n in count.items():
                self._postings[gram].append((number, n))

    @property
    def texts(self) -> list[str]:
        """The names, in the order in which ``near`` of ``match`` numbers them."""
        return [name for _, name in self._documents]

    def match(self, mention: str, limit: int = 20, near: Near | None = None) -> list[Scored]:
        """Candidates, best first. ``near`` gives names of like meaning; an exact name needs none."""
        best: dict[str, Scored] = {}
        for ident in self._exact.get(normal(mention), ()):
            best[ident] = Scored(ident, 1.0, mention, "exact")
        scores, how = self._lexical(mention), "ngram"
        if near is not None and not best:
            meant = near(mention, NEAR)
            if meant:
                how = "embedding"
                share = MEANT if len(UNIT.findall(mention)) <= LONG else MEANT_LONG
                scores = {number: (1 - share) * score for number, score in scores.items()}
                for number, value in meant:
                    scores[number] = scores.get(number, 0.0) + share * value
        if self._tables and not best:
            self._support(scores)
        for number, score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
            ident, name = self._documents[number]
            if ident not in best:
                best[ident] = Scored(ident, min(score, 0.999), name, how)
            if len(best) >= limit:
                break
        return list(best.values())[:limit]

    def covers(
        self, mention: str, ident: str, allowed: float = STRANGE, more: Callable[[str], Iterable[str]] | None = None
    ) -> bool:
        """Whether the names of an indicator hold what a mention says: every Latin word, most Chinese characters."""
        known = self._said.get(ident)
        if known is None:
            names = [name for own, name in self._documents if own == ident] + list(more(ident) if more else ())
            known = self._said[ident] = {gram for name in names for gram in grams(name)}
        own = [gram for gram in grams(mention) if not CJK.match(gram)]
        latin = [gram for gram in own if not (gram[0] == "c" and CJK.match(gram[1:2]))]
        chars = [gram for gram in own if gram not in latin]
        strange = sum(gram not in known for gram in chars)
        return all(gram in known for gram in latin) and strange <= allowed * len(chars)

    def _support(self, scores: dict[int, float]) -> None:
        """Adds to each indicator what speaks for its table: who asks for one column often means its neighbours too."""
        likely: dict[str, dict[str, float]] = defaultdict(dict)
        for number, score in scores.items():
            ident = self._documents[number][0]
            own = likely[self._tables.get(ident, "")]
            own[ident] = max(score, own.get(ident, 0.0))
        means = {table: sum(sorted(own.values())[-FRIENDS:]) / FRIENDS for table, own in likely.items() if table}
        for number, (ident, _) in enumerate(self._documents):
            support = SUPPORT * means.get(self._tables.get(ident, ""), 0.0)
            if support:
                scores[number] = (scores.get(number, 0.0) + support) / (1 + SUPPORT)

    def _lexical(self, mention: str) -> dict[int, float]:
        """Cosine of n-gram weights with every name that shares one."""
        query = Counter(grams(mention))
        weights = {gram: self._idf.get(gram, self._rare) * n for gram, n in query.items()}
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        scores: dict[int, float] = defaultdict(float)
        for gram, weight in weights.items():
            for number, n in self._postings.get(gram, ()):
                scores[number] += weight * self._idf[gram] * n
        return {number: score / norm / self._norms[number] for number, score in scores.items()}

    @property
    def _rare(self) -> float:
        """The weight of a gram that no name has: it counts against a match."""
        return math.log(1 + len(self._documents))
