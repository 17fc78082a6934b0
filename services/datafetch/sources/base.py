"""The interface of connectors to vendors, files and databases: offers, requests, results and errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from fathom.core.config import ConfigError
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.services.datafetch.sources.symbols import Market
from fathom.transport.http import MalformedAnswer


class Kind(StrEnum):
    """The kind of a table; each has one set of columns, whatever the vendor (``COLUMNS``)."""

    PRICES = "prices"
    STATEMENTS = "statements"
    SERIES = "series"
    TABLE = "table"


PRICE_FIELDS = ("open", "high", "low", "close", "volume", "adj_close")
COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    # Daily bars, ascending, as traded on that day, volume in shares. ``adj_close`` is adjusted for splits and
    # dividends until ``as_of``, never later ones; it is null where the vendor gives no such events.
    Kind.PRICES: ("date", *PRICE_FIELDS),
    # One row per concept, period and filing: restated figures keep every vintage. ``latest`` marks the newest.
    Kind.STATEMENTS: ("concept", "unit", "start", "end", "value", "filed", "form", "accession", "latest"),
    # One row per observation and vintage; ``published`` is null where the source does not tell.
    Kind.SERIES: ("date", "value", "published", "latest"),
}


class Vintage(StrEnum):
    """The strictness of ``as_of`` for a source that has no history of its revisions."""

    STRICT = "strict"
    """Refuse the source (``NoVintage``)."""
    LATEST = "latest"
    """Use its present figures for periods until ``as_of``, and mark them in the provenance."""


@dataclass(frozen=True)
class DataRequest:
    """A request for one entity's data; ``symbol`` is any spelling, or the source's own id of a series or table.

    ``fields`` are columns, concepts or indicators of the source, () for its default selection; ``start`` and ``end``
    are inclusive days; ``entity`` is a country for the World Bank and unused elsewhere.
    """

    kind: Kind
    symbol: str
    fields: tuple[str, ...] = ()
    start: date | None = None
    end: date | None = None
    entity: str = ""
    vintage: Vintage = Vintage.STRICT

    def __post_init__(self) -> None:
        """Raise ``InvalidField`` for an empty symbol or a period that ends before it begins."""
        if not self.symbol.strip():
            raise InvalidField("symbol", "is empty")
        if self.start and self.end and self.end < self.start:
            raise InvalidField("period", f"ends ({self.end}) before it begins ({self.start})")


@dataclass(frozen=True)
class Offer:
    """A kind of table that a connector has for some markets, with the unit of each field where it is known."""

    kind: Kind
    markets: tuple[Market, ...]
    fields: Mapping[str, str]
    frequency: str
    vintages: bool
    """True when it can tell which values were known on an earlier day."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a table; ``place`` is an address without keys, ``known_until`` bounds all of its content."""

    vendor: str
    place: str
    retrieved: datetime
    as_of: date | None
    known_until: date | None
    revised: bool = False
    """True when figures may have been revised after ``as_of`` (``Vintage.LATEST``)."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowIssue:
    """A row or cell that could not be parsed; ``row`` is its number in the source, from 1, ``column`` may be ""."""

    row: int
    reason: str
    column: str = ""


@dataclass(frozen=True)
class Fetched:
    """An Arrow table with the unit per column and its provenance."""

    table: Any
    units: Mapping[str, str]
    provenance: Provenance
    issues: tuple[RowIssue, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further metadata of the source: names, currency, titles."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """Of a user's file the cells of each column, as spreadsheets name them: "B2:B13"."""
    worksheets: tuple[str, ...] = ()
    """Of a workbook the names of all its sheets, of which this is one."""


@runtime_checkable
class Connector(Protocol):
    """The interface of a data source."""

    @property
    def name(self) -> str:
        """Return the vendor's name, which its errors carry."""
        ...

    def offers(self) -> tuple[Offer, ...]:
        """Return the available data, without any request."""
        ...

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch a table with nothing in it that was not known at the end of the day ``as_of``.

        ``deadline`` is in seconds of the monotonic clock. Raises ``InvalidField``, ``NotFound`` (nothing for this
        symbol or period), ``NoVintage``, ``EmptySchema``, ``ChangedSchema``, and the errors of
        ``fathom.transport.http.HttpClient.request``.
        """
        ...

    async def aclose(self) -> None:
        """Close open connections."""
        ...


class VendorOff(ConfigError):
    """A connector is disabled; the message names the setting that enables it."""

    def __init__(self, vendor: str, setting: str) -> None:
        super().__init__(f"{vendor} is off: set {setting}", metadata={"field": setting, "vendor": vendor})


class NoVintage(InvalidField):
    """The source cannot tell which values it had on that day."""

    def __init__(self, vendor: str, as_of: date, message: str) -> None:
        super().__init__("as_of", f"{vendor} cannot answer as of {as_of}: {message}")


class EmptySchema(CorruptData):
    """The source answered with rows or a table without any column; ``wanted`` are the expected ones."""

    def __init__(self, vendor: str, wanted: Iterable[str]) -> None:
        self.wanted = tuple(wanted)
        super().__init__(f"answer of {vendor}", f"has no column at all, wanted {', '.join(self.wanted)}")


class ChangedSchema(CorruptData):
    """The source's columns no longer match its contract."""

    def __init__(self, vendor: str, missing: Iterable[str], got: Iterable[str]) -> None:
        self.missing, self.got = tuple(missing), tuple(got)
        there = ", ".join(self.got[:20]) or "nothing"
        super().__init__(f"answer of {vendor}", f"lacks {', '.join(self.missing)}; there is {there}")


class NoData(NotFound):
    """The source understands the request but has no data for it."""

    def __init__(self, vendor: str, request: DataRequest) -> None:
        period = f" from {request.start or 'the beginning'} to {request.end or 'today'}"
        super().__init__(f"{request.kind} at {vendor} for", request.symbol + period)


def require_names(vendor: str, got: Collection[str], wanted: Iterable[str]) -> None:
    """Raise ``EmptySchema`` or ``ChangedSchema`` unless all ``wanted`` names are present; further ones are allowed."""
    names = tuple(wanted)
    if not got:
        raise EmptySchema(vendor, names)
    if missing := [name for name in names if name not in got]:
        raise ChangedSchema(vendor, missing, got)


@contextmanager
def convert_shape_errors(vendor: str) -> Iterator[None]:
    """Convert the exceptions that an answer of unexpected shape causes in its reader to ``MalformedAnswer``."""
    try:
        yield
    # The errors of indexing and converting what is not there; anything else is an error of ours and must show.
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError) as error:
        raise MalformedAnswer(
            vendor, f"has another shape than expected: {type(error).__name__} {error}"[:200]
        ) from error


def get_today() -> date:
    """Return the current day in UTC."""
    # UTC, so that the services of one cluster agree whatever their time zone.
    return datetime.now(UTC).date()


def find_last_day(request: DataRequest, as_of: date | None) -> date:
    """Return the last day to include: the earliest of the request's end, ``as_of`` and today."""
    return min(day for day in (request.end, as_of, get_today()) if day is not None)


def make_provenance(vendor: str, place: str, as_of: date | None, **more: Any) -> Provenance:
    """Return the provenance of an answer received now, known until ``as_of`` or else today."""
    return Provenance(vendor, place, datetime.now(UTC), as_of, as_of or get_today(), **more)
