"""Fetching of companies' statements, one company after the other: what failed is named, and the others go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from fathom.core.errors import FathomError, InvalidField
from fathom.services.datafetch.filling.annual import choose_annual
from fathom.services.datafetch.filling.store import Company, FetchedTables
from fathom.services.datafetch.sources import DataRequest, Kind, Vendors, normalise
from fathom.services.datafetch.sources.vocabulary import Vocabulary

STATEMENTS = ("income", "balance", "cash")
# For one company with its retries: all of its facts are some megabytes.
COMPANY_S = 120.0


@dataclass(frozen=True)
class Wanted:
    """Request for statements: companies by ticker or CIK, statements, and the years in which fiscal years end."""

    companies: tuple[str, ...]
    statements: tuple[str, ...]
    first: int
    last: int

    def __post_init__(self) -> None:
        """Raise ``InvalidField`` for an unknown statement, no company, or years that are none."""
        unknown = [name for name in self.statements if name not in STATEMENTS]
        if unknown or not self.statements:
            raise InvalidField("statement", f"{', '.join(unknown) or 'none'} is none of {', '.join(STATEMENTS)}")
        if not self.companies:
            raise InvalidField("companies", "names no company")
        # The vendor's figures in machine-readable form begin in 2009, with the years before beside them.
        if not 1990 <= self.first <= self.last <= 2100:
            raise InvalidField("years", f"{self.first}-{self.last} is no span of years from 1990 to 2100")


@dataclass(frozen=True)
class Outcome:
    """Result of one company: how many figures were got, and what the company does not report; or why it failed."""

    company: str
    figures: int = 0
    lacking: tuple[str, ...] = ()
    failure: str = ""
    is_known: bool = False


class StatementFetcher:
    """Fetches statements into a folder of tables, through the vendors' own limits and retries."""

    def __init__(
        self, vendors: Vendors, tables: FetchedTables, max_age_days: float, clock: Callable[[], datetime] | None = None
    ) -> None:
        """Store where to ask and where to write; what is younger than ``max_age_days`` is not asked for again."""
        self._vendors, self._tables, self._max_age_days = vendors, tables, max_age_days
        self._clock = clock or (lambda: datetime.now(UTC))
        self._vocabulary = Vocabulary.read()

    async def fetch(self, wanted: Wanted) -> AsyncIterator[Outcome]:
        """Yield the outcome of each company as soon as it is stored."""
        for name in dict.fromkeys(wanted.companies):
            try:
                yield await self._fetch_company(name, wanted)
            except FathomError as error:
                yield Outcome(name, failure=error.message or error.reason)

    async def _fetch_company(self, name: str, wanted: Wanted) -> Outcome:
        ident, now = name_entity(name), self._clock()
        known = await asyncio.to_thread(self._tables.load, ident)
        is_covered = known is not None and known.covers(wanted.statements, wanted.first, wanted.last)
        if known is not None and is_covered and known.is_recent(now, self._max_age_days):
            return Outcome(name, len(known.figures), is_known=True)
        concepts = [one for one in self._vocabulary.items if one.statement in wanted.statements]
        fields = tuple(field for one in concepts for field in one.fields)
        period = date(wanted.first, 1, 1), date(wanted.last, 12, 31)
        request = DataRequest(Kind.STATEMENTS, name, fields, *period)
        fetched = (await self._vendors.fetch(request, deadline=time.monotonic() + COMPANY_S)).fetched
        figures = choose_annual(fetched.table.to_pylist(), concepts)
        found = {one.indicator for one in figures}
        company = Company(
            ident,
            fetched.facts.get("name") or ident,
            fetched.provenance.vendor,
            f"{fetched.provenance.vendor} {fetched.provenance.place}",
            now,
            tuple((kind, wanted.first, wanted.last) for kind in wanted.statements),
            tuple(figures),
        )
        await asyncio.to_thread(self._tables.save, company)
        return Outcome(name, len(figures), tuple(one.id for one in concepts if one.id not in found))


def name_entity(name: str) -> str:
    """Return the id of a company in the tables: its ticker, or CIK with ten digits; raise ``InvalidField``."""
    bare = name.strip().upper().removeprefix("CIK")
    if name.strip().upper().startswith("CIK") and bare.isascii() and bare.isdigit() and len(bare) <= 10:
        return f"CIK{int(bare):010d}"
    return normalise(name).code


def parse_years(text: str) -> tuple[int, int]:
    """Return the first and the last year of "2019" or "2015-2023"; raise ``InvalidField``."""
    first, _, last = text.partition("-")
    if not (first.isascii() and first.isdigit() and (last or first).isascii() and (last or first).isdigit()):
        raise InvalidField("years", f"{text[:40]!r} is neither a year nor a span such as 2015-2023")
    return int(first), int(last or first)


def describe_outcome(outcome: Outcome, statements: Sequence[str]) -> str:
    """Return the line that a command prints of one company."""
    if outcome.failure:
        return f"{outcome.company}: failed: {outcome.failure}"
    if outcome.is_known:
        return f"{outcome.company}: {outcome.figures} figures are here already, younger than --max-age-days"
    lacking = f"; not reported: {', '.join(outcome.lacking)}" if outcome.lacking else ""
    return f"{outcome.company}: {outcome.figures} annual figures of {', '.join(statements)}{lacking}"
