"""``python -m tests.bench ranking``: the shares of what turns say, chosen on all planted sets but one, tried on that one.

Each set has an author of its own, so that the figures of the sets left out say what to expect of another author's. The
choice is that of the greatest mean reciprocal rank; ``SHARES`` is what is in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from fathom.services.memory.segments.filing import split
from fathom.services.memory.segments.passages import mark_names, read_turn
from fathom.services.memory.segments.scoring import SHARES, Query, Shares, read_query, weigh_terms
from fathom.services.memory.segments.searching import lay_out, rank_pages
from fathom.services.memory.segments.storage import Page
from fathom.services.memory.segments.vectors import Vectors
from tests.bench.memory.planted import FILE, TOP, load_cases, pair_messages
from tests.bench.memory.stores import open_vectors

# Sets that everybody who chose shares has read; a set that nobody has read is measured by ``memory`` alone.
SETS = {"first": FILE, **{name: FILE.parent / name / FILE.name for name in ("second", "third", "fourth")}}
TRIED = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


@dataclass(frozen=True)
class Case:
    """The pages of a history with a question to them, and the place of the page that it is about."""

    pages: Sequence[Page]
    query: Query
    wanted: int

    def find_rank(self, shares: Shares) -> int:
        """Return the rank of the wanted page by these shares."""
        terms = [dict.fromkeys(page.terms, 1) for page in self.pages]
        weights = weigh_terms(terms, len(self.pages), self.query.terms)
        ranked = rank_pages(self.pages, self.query, weights, lay_out(self.pages, self.query), shares)
        order = sorted((one for one in ranked if one.score > 0), key=lambda one: one.key, reverse=True)
        pages = [one.page for one in order]
        found = [place for place, page in enumerate(pages) if page is self.pages[self.wanted]]
        return found[0] + 1 if found else len(ranked)


async def open_case(case: Mapping[str, Any], vectors: Vectors) -> Case:
    """Return a case with the pages that a memory would file."""
    turns, numbers = pair_messages(case["history"]), dict[str, int]()
    texts = [read_turn(question, answer) for _, _, question, answer, _ in turns]
    passages = [passage for text in texts for passage in text.list_texts()]
    encoded = await vectors.encode([*passages, case["question"]])
    assert encoded is not None, "needs the encoder: make data"
    pages = []
    for order, (turn, (text, rows)) in enumerate(zip(turns, split(encoded, texts), strict=True)):
        conversation, day = turn[0], datetime.fromisoformat(turn[1]).replace(tzinfo=UTC)
        number = numbers[conversation] = numbers.get(conversation, 0) + 1
        ended = day.timestamp() + order
        pages.append(Page(conversation, number, 1, 0, number, encoded.encoder, rows, text.terms, ended))
    query = read_query(case["question"], datetime.fromtimestamp(pages[-1].ended, UTC).date())
    terms = tuple(dict.fromkeys([*query.terms, *mark_names(encoded.names[-1])]))
    query = replace(query, terms=terms, vector=encoded.vectors[-1], encoder=encoded.encoder, origin=encoded.origin)
    wanted = next(place for place, turn in enumerate(turns) if case["expected_turn"] in turn[4])
    return Case(pages, query, wanted)


def choose(ranks: Mapping[Shares, Mapping[str, Sequence[int]]], names: Sequence[str]) -> Shares:
    """Return the shares with the greatest mean reciprocal rank in these sets."""
    return max(ranks, key=lambda shares: fmean(1 / rank for name in names for rank in ranks[shares][name]))


def count_found(ranks: Sequence[int]) -> int:
    """Return how many are among the first ones."""
    return sum(rank <= TOP for rank in ranks)


async def run() -> None:
    """Print what each set would have had, and what the shares in use find."""
    vectors = open_vectors("meaning and words")
    cases = {name: [await open_case(case, vectors) for case in load_cases(Path(path))] for name, path in SETS.items()}
    choices = [replace(SHARES, said=said, length=length) for said, length in product(TRIED, TRIED)]
    ranks = {
        shares: {name: [case.find_rank(shares) for case in group] for name, group in cases.items()}
        for shares in dict.fromkeys([*choices, SHARES])
    }
    for name in SETS:
        chosen = choose(ranks, [other for other in SETS if other != name])
        print(
            f"{name}: {count_found(ranks[chosen][name])} of {len(cases[name])} among the first {TOP} with said"
            f" {chosen.said:.1f}, length {chosen.length:.1f}, chosen on the others"
        )
    for label, shares in (("without both", replace(SHARES, said=0.0, length=0.0)), ("in use", SHARES)):
        print(f"{label}: {', '.join(f'{name} {count_found(found)}' for name, found in ranks[shares].items())}")
