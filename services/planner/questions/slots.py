"""Slots of a question: the words that name entities, measures and periods, as datafetch reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Protocol

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.text.months import MONTH_NAMES

ENTITY, TOPIC, PERIOD, FREQUENCY, UNKNOWN = "entity", "topic", "period", "frequency", "unknown"
KINDS = {
    pb.MENTION_KIND_ENTITY: ENTITY,
    pb.MENTION_KIND_INDICATOR: TOPIC,
    pb.MENTION_KIND_MEASURE: TOPIC,
    pb.MENTION_KIND_PERIOD: PERIOD,
    pb.MENTION_KIND_FREQUENCY: FREQUENCY,
    pb.MENTION_KIND_UNKNOWN: UNKNOWN,
}
MAX_CHARS = 2_000


@dataclass(frozen=True)
class Slot:
    """Words of a text from ``start`` to ``end`` with their canonical ``value``."""

    kind: str
    start: int
    end: int
    text: str
    value: str


@dataclass(frozen=True)
class ReadText:
    """A text with its slots in order."""

    text: str
    slots: tuple[Slot, ...] = ()

    def of(self, kind: str) -> tuple[Slot, ...]:
        """Return the slots of a kind, each value once."""
        first = {slot.value or slot.text: slot for slot in reversed(self.slots) if slot.kind == kind}
        return tuple(sorted(first.values(), key=lambda slot: slot.start))


class Reader(Protocol):
    """Reads slots."""

    async def read(self, text: str) -> ReadText | None:
        """Return the text with its slots; None where nothing can read it now."""
        ...


class DatafetchReader:
    """Reads by datafetch's ``ReadQuestion``, which knows the entities and indicators of the data."""

    def __init__(self, clients: Clients, timeout_s: float) -> None:
        self._clients, self._timeout_s = clients, timeout_s

    async def read(self, text: str) -> ReadText | None:
        """Return the text, cut to 2,000 characters, with its slots; None when datafetch does not answer in time."""
        cut = text[:MAX_CHARS]
        if not cut.strip():
            return ReadText(cut)
        try:
            response = await self._clients.datafetch.read_question(
                pb.ReadQuestionRequest(question=cut), timeout_s=self._timeout_s
            )
        except FathomError:
            return None
        return ReadText(cut, slots_of(response.mentions))


def slots_of(mentions: Sequence[pb.Mention]) -> tuple[Slot, ...]:
    """Return the slots of mentions; those of other kinds say how a result is computed or shown."""
    return tuple(
        Slot(KINDS[one.kind], one.start, one.end, one.text, one.value) for one in mentions if one.kind in KINDS
    )


def shift_period(value: str, periods: int, chinese: bool) -> str:
    """Return the period of equal length that many periods later, in words; "" for one without both ends.

    A period of a whole year, quarter or month moves by years, quarters or months.
    """
    first_text, _, last_text = value.partition("/")
    try:
        first, last = date.fromisoformat(first_text), date.fromisoformat(last_text)
    except ValueError:
        return ""
    after = last + timedelta(days=1)
    months = (after.year - first.year) * 12 + after.month - first.month
    if first.day != 1 or after.day != 1 or months < 1:
        return ""
    start = first.year * 12 + first.month - 1 + months * periods
    return name_months(start, months, chinese)


def name_months(start: int, months: int, chinese: bool) -> str:
    """Return the words for ``months`` months from the ``start``-th month since year 0."""
    year, month = divmod(start, 12)
    if months % 12 == 0 and month == 0:
        last = year + months // 12 - 1
        if last == year:
            return f"{year}年" if chinese else str(year)
        return f"{year}年至{last}年" if chinese else f"from {year} to {last}"
    if months == 3 and month % 3 == 0:
        return f"{year}年第{'一二三四'[month // 3]}季度" if chinese else f"Q{month // 3 + 1} {year}"
    if months == 1:
        return f"{year}年{month + 1}月" if chinese else f"{MONTH_NAMES[month]} {year}"
    end_year, end_month = divmod(start + months - 1, 12)
    if chinese:
        return f"{year}年{month + 1}月至{end_year}年{end_month + 1}月"
    return f"from {MONTH_NAMES[month]} {year} to {MONTH_NAMES[end_month]} {end_year}"
