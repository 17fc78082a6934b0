"""Division of one limit among replicas: pure functions over a table that all of them read and write.

Each replica has an entry: the places and slots that it holds, and how many requests it has. Nobody takes more than what
the entries of the others leave free, so that the sum never exceeds the limit, whatever each replica believes of the
others. A rate is divided as ``slots``, starts per ``period_s``: whole numbers, since fractions would round up in each
replica.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from fathom.core.errors import CorruptData


@dataclass(frozen=True)
class Share:
    """A replica's part of a limit, valid until ``until`` (the loop's time); None is no limit, and 0 makes it wait."""

    places: int | None
    per_second: float | None
    until: float = math.inf


@dataclass(frozen=True)
class Holding:
    """Entry of a replica: what it holds, its requests of people and of others, renewals, and what it has had so far."""

    places: int = 0
    slots: int = 0
    people: int = 0
    others: int = 0
    beat: int = 0
    had_s: float = 0.0

    @property
    def demand(self) -> int:
        return self.people + self.others


Table = Mapping[str, Holding]


@dataclass(frozen=True)
class Rate:
    """A rate as whole ``slots`` per ``period_s`` seconds."""

    slots: int
    period_s: float

    @classmethod
    def of(cls, per_second: float) -> Rate:
        slots = max(1, math.floor(per_second))
        return cls(slots, slots / per_second)


def write_table(table: Table) -> bytes:
    return json.dumps({name: asdict(entry) for name, entry in table.items()}, separators=(",", ":")).encode()


def read_table(value: bytes | None) -> dict[str, Holding]:
    """Return the entries of a table; raise ``CorruptData`` for anything else."""
    try:
        return {name: Holding(**entry) for name, entry in json.loads(value or b"{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptData("shares", "is no table of holdings") from error


def divide(total: int, table: Table) -> dict[str, int]:
    """Return the part of each replica: people first, all alike, the rest to whoever has had least of it.

    With more than one in all, one stays for requests that are not people's. What nobody asks for is divided evenly, so
    that a replica needs no leave for its next request.
    """
    order = sorted(table, key=lambda name: (table[name].had_s, name))
    parts = dict.fromkeys(order, 0)
    floor = int(total > 1 and any(entry.others for entry in table.values()))
    left = total - fill(parts, {name: table[name].people for name in order}, total - floor, order)
    left -= fill(parts, {name: table[name].others for name in order}, left, order)
    fill(parts, dict.fromkeys(order, left), left, order)
    return parts


def fill(parts: dict[str, int], wanted: Mapping[str, int], left: int, order: Sequence[str]) -> int:
    """Add to the parts up to what is wanted, the same to each that still wants; return how much was given."""
    given, open_wants = 0, {name: wanted[name] for name in order if wanted[name] > 0}
    while left > given and open_wants:
        each = min((left - given) // len(open_wants), min(open_wants.values()))
        # Less than one for each: the first in order get one.
        for name in list(open_wants)[: None if each else left - given]:
            step = max(1, each)
            parts[name], given, open_wants[name] = parts[name] + step, given + step, open_wants[name] - step
        open_wants = {name: want for name, want in open_wants.items() if want}
    return given


def decide(total: int, mine: str, table: Table, kind: str) -> int:
    """Return what a replica should hold of ``places`` or ``slots`` (``kind``), given what the others hold.

    It keeps what nobody else wants, gives back what others want more, and takes only what is free.
    """
    held = {name: int(getattr(entry, kind)) for name, entry in table.items()}
    part = divide(total, table)[mine]
    others = sum(held.values()) - held[mine]
    if part < held[mine]:
        wanted = any(held[name] < min(entry.demand, total) for name, entry in table.items() if name != mine)
        return part if wanted or others + held[mine] > total else held[mine]
    return min(part, max(held[mine], total - others))
