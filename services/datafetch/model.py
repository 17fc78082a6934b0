"""What datafetch is asked and what it answers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum


class Frequency(StrEnum):
    """Density of a series; resampling takes the last value of each period."""

    NATIVE = ""
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    ANNUAL = "annual"


@dataclass(frozen=True)
class Query:
    """Names as given; they are resolved when the query runs."""

    entities: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    start: date | None = None
    end: date | None = None
    frequency: Frequency = Frequency.NATIVE
    limit: int = 0


@dataclass(frozen=True)
class Missing:
    """Asked for and not found. ``reason`` is a ``MissingReason`` without its prefix."""

    subject: str
    reason: str
    detail: str
    aspect: str = ""
    period: str = ""
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column with where it is from. Dates are ISO."""

    name: str
    type: str
    unit: str = ""
    indicator: str = ""
    entity: str = ""
    source: str = ""
    as_of: str = ""
    nulls: int = 0


@dataclass(frozen=True)
class Sheet:
    """A table. ``arrow`` is its Arrow IPC stream."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: int
    digest: str
    arrow: bytes


@dataclass(frozen=True)
class Result:
    """What was found and what was not."""

    sheets: tuple[Sheet, ...]
    missing: tuple[Missing, ...]
    understood: Query
    snapshot: str


@dataclass(frozen=True)
class Series:
    """A stored series."""

    entity: str
    indicator: str
    name: str
    unit: str
    frequency: str
    source: str
    first: date
    last: date


@dataclass
class Plan:
    """The series to fetch, and what is known to be missing."""

    series: list[Series] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
