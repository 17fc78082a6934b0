"""All enabled vendors behind one interface: order per market, fallback and cache.

Each vendor has its own admission control (concurrency, rate, circuit breaker); all share one cache, which merges equal
concurrent requests into one call.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from fathom.core.errors import DependencyFailed, FathomError, NotFound
from fathom.domain.frames import arrow
from fathom.services.datafetch.sources.base import (
    Connector,
    DataRequest,
    Fetched,
    Kind,
    NoData,
    VendorOff,
    get_today,
)
from fathom.services.datafetch.sources.cache import CacheCounts, SharedCache
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.flow import Counts, Lane, LanePolicy
from fathom.services.datafetch.sources.sanity import Checked, compare
from fathom.services.datafetch.sources.symbols import Market, normalise
from fathom.transport.bus.quotas import Quotas

# Vendors without a key and close to the market come first.
ORDER: Mapping[tuple[Kind, Market], tuple[str, ...]] = {
    (Kind.PRICES, Market.CN): ("akshare", "baostock", "yfinance"),
    (Kind.PRICES, Market.HK): ("akshare", "yfinance"),
    (Kind.PRICES, Market.US): ("yfinance",),
    (Kind.STATEMENTS, Market.US): ("edgar",),
    (Kind.STATEMENTS, Market.CN): ("akshare-statements", "baostock"),
    (Kind.SERIES, Market.WORLD): ("fred", "worldbank"),
}
# Columns with the day on which a row was known or that it is about; none may be after as_of.
KNOWN_BY = ("date", "filed", "published")
# Less than this is no chance for a vendor across the internet.
LEAST_SHARE_S = 0.5


@dataclass(frozen=True)
class Attempt:
    """A failed request to one vendor."""

    vendor: str
    error: FathomError


@dataclass(frozen=True)
class Answer:
    """The fetched table and the attempts that failed before."""

    fetched: Fetched
    failed: tuple[Attempt, ...]


class AllVendorsFailed(DependencyFailed):
    """No vendor could answer; ``attempts`` has the error of each."""

    def __init__(self, request: DataRequest, attempts: Sequence[Attempt]) -> None:
        said = "; ".join(f"{attempt.vendor}: {attempt.error.message}" for attempt in attempts)
        super().__init__(
            "+".join(attempt.vendor for attempt in attempts), f"{request.kind} of {request.symbol}: {said}"
        )
        self.attempts = tuple(attempts)


class Vendors:
    """The enabled connectors; for one event loop."""

    def __init__(self, connectors: Sequence[Connector], config: ConnectorsConfig, quotas: Quotas | None = None) -> None:
        """Open the admission of each vendor; with ``quotas`` its limits hold over all replicas."""
        policy = LanePolicy(config.concurrency, config.per_second, config.circuit_failures, config.circuit_seconds)
        self._connectors = {connector.name: connector for connector in connectors}
        self._lanes = {name: Lane(name, policy, quotas=quotas) for name in self._connectors}
        self._config = config
        self._cache: SharedCache[Fetched] = SharedCache(
            lambda found: int(found.table.nbytes) + 1024, config.cache_bytes
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the enabled vendors."""
        return tuple(self._connectors)

    def without(self, names: Collection[str]) -> Vendors:
        """Return these vendors but for some; limits, circuits and cache are the same."""
        left = copy.copy(self)
        left._connectors = {name: one for name, one in self._connectors.items() if name not in names}
        return left

    @property
    def cache_counts(self) -> CacheCounts:
        """Return the counts of calls, hits and shared calls since the start."""
        return self._cache.counts

    def counts(self, vendor: str) -> Counts:
        """Return the counters of the vendor's lane."""
        return self._lanes[vendor].counts

    def lane(self, vendor: str) -> Lane:
        """Return the admission of an enabled vendor."""
        return self._lanes[vendor]

    def choose_vendors(self, request: DataRequest) -> tuple[str, ...]:
        """Return the enabled vendors of the request's market, in order; raises ``InvalidField`` and ``VendorOff``."""
        names = ORDER.get((request.kind, find_market(request)), ())
        if request.kind is Kind.SERIES:
            # Their series ids differ; a request with a country is for the World Bank.
            names = ("worldbank",) if request.entity else ("fred",)
        there = tuple(name for name in names if name in self._connectors)
        if not there:
            wanted = " or ".join(names) or "a connector for it"
            raise VendorOff(f"{request.kind} of {request.symbol}", f"datafetch.connectors.enabled to hold {wanted}")
        return there

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Answer:
        """Return the answer of the first vendor that succeeds; each gets an equal share of the remaining time.

        ``deadline`` is in monotonic seconds. Raises ``NotFound`` when all vendors lack the data, ``AllVendorsFailed``
        when any failed otherwise, the vendor's own error when there is only one, and the errors of ``choose_vendors``.
        """
        names, failed = self.choose_vendors(request), list[Attempt]()
        for place, name in enumerate(names):
            try:
                fetched = await self.ask(name, request, as_of, share_deadline(deadline, len(names) - place))
                return Answer(fetched, tuple(failed))
            except FathomError as error:
                failed.append(Attempt(name, error))
            # The vendors left have no time; their failures would say nothing of them.
            if deadline is not None and time.monotonic() >= deadline:
                break
        if len(names) == 1:
            raise failed[0].error
        # Only if nobody has the data they do not exist; a failed vendor may have them.
        if len(failed) == len(names) and all(isinstance(attempt.error, NotFound) for attempt in failed):
            raise NoData(", ".join(names), request)
        raise AllVendorsFailed(request, failed)

    async def check(
        self, request: DataRequest, as_of: date | None = None, deadline: float | None = None
    ) -> Checked | None:
        """Compare the prices of the first two vendors that answer; None when fewer than two do.

        Raises the errors of ``choose_vendors``, and the first vendor's when none answers.
        """
        names = list(self.choose_vendors(request))
        answers: list[Fetched] = []
        errors: list[FathomError] = []
        # Two at once, then one for each that failed: a third vendor is not asked without need.
        while request.kind is Kind.PRICES and names and len(answers) < 2:
            now, names = names[: 2 - len(answers)], names[2 - len(answers) :]
            asked = (self.ask(name, request, as_of, deadline) for name in now)
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(outcome, FathomError):
                    errors.append(outcome)
                # Cancellation and errors of our own are no vendor's failure.
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    answers.append(outcome)
        if errors and not answers:
            raise errors[0]
        return compare(answers[0], answers[1], self._config.tolerance) if len(answers) == 2 else None

    async def ask(
        self, name: str, request: DataRequest, as_of: date | None = None, deadline: float | None = None
    ) -> Fetched:
        """Return one vendor's answer, cached or fetched; raises ``VendorOff`` and the vendor's errors."""
        if name not in self._connectors:
            raise VendorOff(name, f"datafetch.connectors.enabled to hold {name}")
        connector, lane = self._connectors[name], self._lanes[name]

        async def load() -> Fetched:
            return drop_later_rows(
                await lane.run(lambda: connector.fetch(request, as_of, deadline), deadline), as_of, request
            )

        history = as_of is not None and as_of < get_today()
        # What was known on a past day does not change.
        keep_s = self._config.cache_history_seconds if history else self._config.cache_seconds
        # An answer without as_of is valid for its day only.
        key = (name, normalise_request(request), as_of or get_today(), as_of is None)
        return await self._cache.get(key, load, keep_s, deadline, name)

    async def probe(self, name: str, request: DataRequest, deadline: float | None = None) -> None:
        """Ask one vendor itself, past the cache; raises ``VendorOff`` and the vendor's errors."""
        if name not in self._connectors:
            raise VendorOff(name, f"datafetch.connectors.enabled to hold {name}")
        connector = self._connectors[name]
        await self._lanes[name].run(lambda: connector.fetch(request, None, deadline), deadline)

    async def aclose(self) -> None:
        """Close all connectors."""
        await asyncio.gather(*(connector.aclose() for connector in self._connectors.values()))


def find_market(request: DataRequest) -> Market:
    """Return the market of a request: ``WORLD`` for series and tables, ``US`` for a CIK, else the security's market."""
    if request.kind in {Kind.SERIES, Kind.TABLE}:
        return Market.WORLD
    if request.kind is Kind.STATEMENTS and request.symbol.strip().upper().startswith("CIK"):
        return Market.US
    return normalise(request.symbol).market


def normalise_request(request: DataRequest) -> DataRequest:
    """Return the request with its symbol in one spelling."""
    # All spellings of a symbol share a cache entry.
    if request.kind in {Kind.SERIES, Kind.TABLE} or request.symbol.strip().upper().startswith("CIK"):
        return request
    symbol = normalise(request.symbol)
    return replace(request, symbol=f"{symbol.security}:{symbol.canonical}")


def share_deadline(deadline: float | None, left: int) -> float | None:
    """Return the deadline for one of ``left`` vendors: an equal part of the remaining time, at least 0.5 s."""
    if deadline is None or left <= 1:
        return deadline
    now = time.monotonic()
    return min(deadline, now + max(LEAST_SHARE_S, (deadline - now) / left))


def drop_later_rows(fetched: Fetched, as_of: date | None, request: DataRequest) -> Fetched:
    """Return the answer without rows after ``as_of``; raises ``NoData`` when none is left."""
    # Connectors filter by as_of themselves; this is the last safeguard.
    if as_of is None or fetched.provenance.revised:
        return fetched
    import pyarrow.compute as compute

    pa = arrow()
    table: Any = fetched.table
    for name in KNOWN_BY:
        if name in table.column_names and pa.types.is_date(table.schema.field(name).type):
            # Rows without a day of knowledge stay: the connector has judged them.
            early = compute.less_equal(table.column(name), pa.scalar(as_of, pa.date32()))
            table = table.filter(compute.fill_null(early, True))
    if table.num_rows == 0:
        raise NoData(fetched.provenance.vendor, request)
    return fetched if table.num_rows == fetched.table.num_rows else replace(fetched, table=table)
