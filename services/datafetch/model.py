"""What datafetch is asked and what it answers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from services.datafetch.semantic.schema import Frequency

__all__ = [
    "ROWS",
    "Basis",
    "Column",
    "Combination",
    "Filter",
    "Frequency",
    "Match",
    "Missing",
    "Query",
    "Result",
    "Sheet",
    "Statistic",
    "Transform",
]


class Transform(StrEnum):
    """What is done to every indicator of a query. Rates of change are fractions: 0.05 is 5 %."""

    NONE = ""
    YOY = "yoy"
    QOQ = "qoq"
    MOM = "mom"
    CHANGE = "change"
    YTD = "ytd"
    TTM = "ttm"
    SINGLE = "single"
    RUNNING = "running"


class Statistic(StrEnum):
    """One number of a whole period. Rates are in per cent.

    A period that begins with a month is measured from the last value before it, one that is named from day to day from
    the value of its first day. ``MAX``, ``MIN`` and ``LAST`` keep the row in which the value stands. ``COUNT`` is
    how many values fit the query's filters.
    """

    RETURN = "return"
    CHANGE = "change"
    CAGR = "cagr"
    VOLATILITY = "volatility"
    DRAWDOWN = "max_drawdown"
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    LAST = "last"
    COUNT = "count"


ROWS = (Statistic.MAX, Statistic.MIN, Statistic.LAST)


class Combination(StrEnum):
    """Two series of one query against each other, in the order of the query."""

    NONE = ""
    RATIO = "ratio"
    SPREAD = "spread"
    CROSS = "cross"


class Basis(StrEnum):
    """Whether years and quarters of the period are the calendar's or the entity's own."""

    CALENDAR = ""
    FISCAL = "fiscal"


@dataclass(frozen=True)
class Filter:
    """Keeps rows whose indicator compares so; ``operator`` is one of < <= = != >= >."""

    indicator: str
    operator: str
    value: float


@dataclass(frozen=True)
class Query:
    """Names as given; they are resolved when the query runs.

    ``kind`` asks for all entities of a kind, ``order`` for rows by an indicator. ``unit`` and ``currency`` are what
    values are converted to. ``vintage`` is "latest" or "first": which of several published values of one period
    counts. ``periods`` keeps only rows inside one of them; statistics are then told of each. ``every`` tells them
    of each day, week, month, quarter or year of the period, and ``outer`` is then the extreme, the mean or the
    count of those. ``tail`` keeps the last rows only.
    """

    entities: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    start: date | None = None
    end: date | None = None
    frequency: Frequency = Frequency.NATIVE
    limit: int = 0
    transform: Transform = Transform.NONE
    filters: tuple[Filter, ...] = ()
    order: str = ""
    descending: bool = False
    unit: str = ""
    currency: str = ""
    kind: str = ""
    basis: Basis = Basis.CALENDAR
    vintage: str = "latest"
    periods: tuple[tuple[date, date], ...] = ()
    statistics: tuple[Statistic, ...] = ()
    combination: Combination = Combination.NONE
    tail: int = 0
    every: Frequency = Frequency.NATIVE
    outer: Statistic | None = None


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
class Match:
    """How a name in a question was understood: as written, the id taken, a score of 0 to 1, what was next."""

    surface: str
    id: str
    score: float
    how: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column with where it is from. Dates are ISO; ``inputs`` are the indicators that a formula reads."""

    name: str
    type: str
    unit: str = ""
    indicator: str = ""
    entity: str = ""
    source: str = ""
    as_of: str = ""
    nulls: int = 0
    formula: str = ""
    inputs: tuple[str, ...] = ()
    vendor: str = ""
    published: str = ""


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
    matches: tuple[Match, ...] = field(default=())
