"""Summary of the data for the system prompt, made from the catalogue: what there is, of what kind, until when."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.cache import BoundedCache
from fathom.core.errors import FathomError

# The catalogue changes when a service starts with other tables; within minutes a planner follows.
TTL_S = 600.0
TIMEOUT_S = 5.0
MAX_SUMMARIES = 64
# At most 300 tokens, of which ids, dates and marks take one for every two or three characters.
MAX_CHARS = 700
SHOWN_IDS = 4
HEADING = "Data at hand; `catalogue` searches them, and `data` takes its ids:"
CUT = "- … more kinds: see `catalogue`"


class DataSummary:
    """Summaries by point in time; the same data give the same bytes, so that engines can cache the prompt."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known = BoundedCache[str, str](max_entries=MAX_SUMMARIES, max_bytes=MAX_SUMMARIES * 4_000, ttl_s=TTL_S)

    async def describe(self, as_of: Any) -> str:
        """Return the summary of what was published by ``as_of`` (None for all); "" while datafetch does not answer."""
        try:
            return await self.load(as_of)
        except FathomError:
            # A prompt without it still works: the model has the tool. Nothing is cached, so the next run asks again.
            return ""

    async def load(self, as_of: Any) -> str:
        """Return the summary of what was published by ``as_of``.

        Raises ``FathomError`` while datafetch does not answer.
        """
        key = as_of.ToDatetime(UTC).isoformat() if as_of is not None else ""
        known = self._known.get(key)
        if known is not None:
            return known
        request = pb.SearchCatalogRequest(as_of=as_of)
        response = await self._clients.datafetch.search_catalog(request, timeout_s=TIMEOUT_S)
        text = format_summary(response)
        self._known.put(key, text, len(text.encode()))
        return text


def format_summary(response: pb.SearchCatalogResponse) -> str:
    """Return a line per kind of entity, those with most entities first, within ``MAX_CHARS``; "" without data."""
    kinds = sorted(response.kinds, key=lambda kind: (-kind.entity_count * kind.indicator_count, kind.kind))
    lines = [format_kind(kind) for kind in kinds]
    if response.vendors:
        lines.append(f"- asked for what is missing: {', '.join(response.vendors)}")
    if not lines:
        return ""
    text = HEADING
    for line in lines:
        if len(text) + len(line) + len(CUT) + 2 > MAX_CHARS:
            return f"{text}\n{CUT}"
        text = f"{text}\n{line}"
    return text


def format_kind(kind: pb.CatalogKind) -> str:
    """Return what there is of a kind: ids, indicators, frequencies, months of the first and last values, basis."""
    densities = "/".join(pb.Frequency.Name(item).removeprefix("FREQUENCY_").lower() for item in kind.frequencies)
    until = kind.usual_last_date or kind.last_date
    early = "" if kind.usual_last_date else " or earlier"
    bases = f"; {', '.join(basis.split(':')[0] for basis in kind.bases)}" if kind.bases else ""
    return (
        f"- {kind.kind}: {format_ids(kind.entities, kind.entity_count)};"
        f" {format_ids(kind.indicators, kind.indicator_count)}; {densities};"
        f" {kind.first_date[:7]}..{until[:7]}{early}{bases}"
    )


def format_ids(ids: Any, count: int) -> str:
    """Return a few ids, with the number of all where there are more."""
    return ", ".join(ids) if count <= SHOWN_IDS else f"{count} ({', '.join(ids[:SHOWN_IDS])}, …)"
