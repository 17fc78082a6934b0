"""Matching of free text to indicators: exact names, n-grams, and sentence embeddings where available."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fathom.domain.text.stop_words import LINKING_WORDS
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import CJK, normal

# Runs of Latin letters and digits, and runs of Chinese characters.
WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]+")
# What counts as one word of a text: a Latin word or a single Chinese character.
UNIT = re.compile(r"[A-Za-z0-9]+|[\u3400-\u9fff]")
STOP = LINKING_WORDS | {"a", "an", "or", "is", "are", "with", "per", "的", "是", "和", "与", "了", "在"}
Near = Callable[[str, int], "list[tuple[int, float]]"]
"""Returns the positions of the names nearest in meaning to a text, with a similarity of 0 to 1, best first."""
# Weight of the embedding similarity against the n-gram similarity: for a mention, and for a text of more than 16 words
# (or Chinese characters), which means more than a single name does.
MEANT, MEANT_LONG, LONG = 0.7, 0.3, 16
# Weight of the mean score of a table's three best indicators, which is added to all indicators of the table.
SUPPORT, FRIENDS = 0.5, 3
# Names that the encoder contributes to a match; all others keep their n-gram score alone.
NEAR = 300


@dataclass(frozen=True)
class Scored:
    """A candidate indicator; ``score`` is 1 for an exact name and below 1 otherwise."""

    id: str
    score: float
    surface: str
    how: str


def grams(text: str) -> list[str]:
    """Return stems of Latin words, and single characters and bigrams of Chinese runs."""
    found: list[str] = []
    for run in WORD.findall(normal(text)):
        if CJK.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
            found += [f"c{char}" for char in run]
        elif run not in STOP:
            found.append(stem(run))
    return found


def stem(word: str) -> str:
    """Strip common English suffixes."""
    # Crude, but applied to queries and names in the same way.
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


class Matcher:
    """A matcher of mentions to indicators: every name is a document, and an indicator scores as its best name."""

    def __init__(
        self,
        specs: Iterable[IndicatorSpec],
        extra: Iterable[tuple[str, str]] = (),
        tables: Mapping[str, str] | None = None,
    ) -> None:
        """Index the names of all indicators.

        ``extra`` are further names as pairs of id and name; ``tables`` maps an indicator id to its wide table.
        """
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
        """Return the indexed names, in the order of the positions that ``near`` of ``match`` returns."""
        return [name for _, name in self._documents]

    def match(self, mention: str, limit: int = 20, near: Near | None = None) -> list[Scored]:
        """Return candidates, best first; ``near`` adds names by embedding and is skipped when an exact name matches."""
        best: dict[str, Scored] = {}
        for ident in self._exact.get(normal(mention), ()):
            # An exact name makes the encoder needless.
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
                # Only an exact name scores 1; callers test for it.
                best[ident] = Scored(ident, min(score, 0.999), name, how)
            if len(best) >= limit:
                break
        return list(best.values())[:limit]

    def covers(self, mention: str, ident: str, more: Callable[[str], Iterable[str]]) -> bool:
        """Return whether the names of an indicator have all words of a mention; ``more`` supplies further names."""
        known = self._said.get(ident)
        if known is None:
            names = [name for own, name in self._documents if own == ident] + list(more(ident))
            known = self._said[ident] = {gram for name in names for gram in grams(name)}
        return known.issuperset(grams(mention))

    def _support(self, scores: dict[int, float]) -> None:
        """Add to each score the mean score of the three best indicators of the same table."""
        # A request for one column of a table often means its neighbours too.
        likely: dict[str, dict[str, float]] = defaultdict(dict)
        for number, score in scores.items():
            ident = self._documents[number][0]
            own = likely[self._tables.get(ident, "")]
            own[ident] = max(score, own.get(ident, 0.0))
        # Divided by three even with fewer neighbours: one good column alone supports its table little.
        means = {table: sum(sorted(own.values())[-FRIENDS:]) / FRIENDS for table, own in likely.items() if table}
        for number, (ident, _) in enumerate(self._documents):
            support = SUPPORT * means.get(self._tables.get(ident, ""), 0.0)
            if support:
                scores[number] = (scores.get(number, 0.0) + support) / (1 + SUPPORT)

    def _lexical(self, mention: str) -> dict[int, float]:
        """Return the cosine similarity of weighted n-grams with every name that shares at least one."""
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
        """Return the weight of an n-gram that occurs in no name; it lowers the score of a match."""
        return math.log(1 + len(self._documents))
