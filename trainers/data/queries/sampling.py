"""A sample with fixed shares of difficulties."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fathom.core.errors import InvalidField
from fathom.trainers.data.queries.record import Query

# Easy: an indicator or a news item; medium: reading a report; hard: picking and forecasting.
SHARES: Mapping[str, int] = MappingProxyType({"easy": 60, "medium": 30, "hard": 10})


@dataclass(frozen=True)
class Sample:
    """The drawn queries, and how many of each difficulty were wanted and found too few."""

    queries: tuple[Query, ...]
    wanted: Mapping[str, int]
    short: Mapping[str, int]


def draw_sample(queries: Sequence[Query], total: int, seed: int, shares: Mapping[str, int] = SHARES) -> Sample:
    """Draw ``total`` queries in the shares of the difficulties; the same queries and seed give the same sample.

    Where a difficulty has too few, all of its queries are taken and the others keep their number: filling up with
    them would change the shares further. Raises ``InvalidField`` for a query without difficulty.
    """
    if total < 1:
        raise InvalidField("total", "is below 1")
    by_difficulty: dict[str, list[Query]] = {name: [] for name in shares}
    # In the order of ids, so that the order of the file does not matter.
    for query in sorted(queries, key=lambda one: one.id):
        if query.difficulty not in by_difficulty:
            raise InvalidField("source", f"{query.id} has no difficulty: rate it first")
        by_difficulty[query.difficulty].append(query)
    wanted, draws = divide(total, shares), random.Random(seed)
    drawn = [query for name, own in by_difficulty.items() for query in draws.sample(own, min(wanted[name], len(own)))]
    short = {name: wanted[name] - len(own) for name, own in by_difficulty.items() if len(own) < wanted[name]}
    return Sample(tuple(drawn), wanted, short)


def divide(total: int, shares: Mapping[str, int]) -> dict[str, int]:
    """Return whole numbers in the given shares that add up to ``total``, by the largest remainders."""
    whole = sum(shares.values())
    found = {name: total * share // whole for name, share in shares.items()}
    rest = sorted(shares, key=lambda name: (-(total * shares[name] % whole), list(shares).index(name)))
    for name in rest[: total - sum(found.values())]:
        found[name] += 1
    return found
