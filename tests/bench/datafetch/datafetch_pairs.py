"""Recall of indicator matching on free text: the service's ``MatchIndicators`` next to bigram BM25 over the names.

Any callable from a text and k to ids, best first, is a matcher and can be measured: ``recall(matcher, pairs)``.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.call import Call
from tests.bench.datafetch.datafetch_gold import TABLES, service
from tests.golden.datafetch.oracle import Oracle
from tests.golden.datafetch.schema import Pair, load_names, load_pairs

DEPTHS = (1, 5, 20)
Matcher = Callable[[str, int], Awaitable[Sequence[str]]]


async def recall(matcher: Matcher, pairs: Sequence[Pair]) -> dict[str, dict[int, float]]:
    """Share of pairs with a right id among the first k (1, 5, 20), for each language, each half and for all.

    The halves take turns by two pairs: synonyms may be fitted on the first, figures are those of the held-out one.
    """
    hits: dict[str, list[float]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        found = list(await matcher(pair.text, max(DEPTHS)))[: max(DEPTHS)]
        rank = next((place for place, ident in enumerate(found) if ident in pair.ids), math.inf)
        for group in (pair.lang, "held out" if number // 2 % 2 else "fitted", "all"):
            hits[group].append(rank)
    return {group: {k: sum(rank < k for rank in ranks) / len(ranks) for k in DEPTHS} for group, ranks in hits.items()}


class Bigrams:
    """The baseline: BM25 (k1 1.2, b 0.75) over Latin words and Chinese character pairs of the names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """``names``: all names of each indicator, in one text, by its id."""
        self._documents = {ident: Counter(grams(text)) for ident, text in names.items()}
        self._lengths = {ident: sum(document.values()) for ident, document in self._documents.items()}
        self._mean = sum(self._lengths.values()) / len(self._lengths)
        self._owners: dict[str, list[str]] = defaultdict(list)
        for ident, document in self._documents.items():
            for gram in document:
                self._owners[gram].append(ident)

    async def match(self, text: str, k: int) -> list[str]:
        """The k ids with the best scores above zero."""
        scores: Counter[str] = Counter()
        for gram in grams(text):
            owners = self._owners.get(gram, [])
            weight = math.log(1 + (len(self._documents) - len(owners) + 0.5) / (len(owners) + 0.5))
            for ident in owners:
                often = self._documents[ident][gram]
                scores[ident] += (
                    weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * self._lengths[ident] / self._mean))
                )  # type: ignore[assignment]
        return [ident for ident, _ in scores.most_common(k)]


def grams(text: str) -> list[str]:
    """Latin words and numbers, and pairs of Chinese characters."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    runs = re.findall(r"[\u4e00-\u9fff]+", text)
    return words + [run[i : i + 2] for run in runs for i in range(max(len(run) - 1, 1))]


def library(tables: Path) -> dict[str, str]:
    """Every indicator of the tables with its stored name, and the plain names where there are some."""
    oracle = Oracle(tables)
    names = defaultdict(str, oracle.names())
    oracle.close()
    for indicator in load_names().indicators:
        names[indicator.id] += " ".join(["", *indicator.names])
    return dict(names)


async def run() -> None:
    """Prints recall by language and depth, and the texts that nothing was found for."""
    pairs = load_pairs()
    async with (
        service(TABLES, embedding_wait_seconds=600.0) as (servicer, _),
        service(TABLES, embedding="off") as (plain, _),
    ):

        async def match_letters(text: str, k: int) -> list[str]:
            response = await plain.MatchIndicators(pb.MatchIndicatorsRequest(mentions=[text]), Call.new())
            return [indicator.id for indicator in response.results[0].indicators][:k]

        async def match_served(text: str, k: int) -> list[str]:
            response = await servicer.MatchIndicators(pb.MatchIndicatorsRequest(mentions=[text]), Call.new())
            return [indicator.id for indicator in response.results[0].indicators][:k]

        contenders: dict[str, Matcher] = {
            "MatchIndicators": match_served,
            "without embedding": match_letters,
            "bigram BM25": Bigrams(library(TABLES)).match,
        }
        found = {name: await recall(matcher, pairs) for name, matcher in contenders.items()}
        missed = [pair.text for pair in pairs if not set(await match_served(pair.text, max(DEPTHS))) & set(pair.ids)]
    print(f"{'recall of ' + str(len(pairs)) + ' pairs':<28}" + "".join(f"{'@' + str(k):>9}" for k in DEPTHS))
    for name, rates in found.items():
        for group, rate in rates.items():
            print(f"{name + ' ' + group:<28}" + "".join(f"{rate[k]:>9.1%}" for k in DEPTHS))
    ours, base = found["MatchIndicators"]["all"][20], found["bigram BM25"]["all"][20]
    print(f"ratio of recall@20: {ours / max(base, 1e-9):.2f}")
    print("not among the first 20: " + "; ".join(missed))


if __name__ == "__main__":
    asyncio.run(run())
