"""Queries and results of datafetch as plain data classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from fathom.services.datafetch.catalog.schema import Frequency

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
    """A transformation of every indicator of a query; rates of change are fractions (0.05 is 5 %)."""

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
    """One number per period; rates are in per cent.

    A period that begins on the first of a month is measured from the last value before it, any other from the value of
    its first day. ``MAX``, ``MIN`` and ``LAST`` keep the row of the value. ``COUNT`` is the number of values that pass
    the query's filters.
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


# Statistics that are the value of one row, whose day is part of the answer.
ROWS = (Statistic.MAX, Statistic.MIN, Statistic.LAST)


class Combination(StrEnum):
    """The way in which two series of a query are combined, in the order of the query."""

    NONE = ""
    RATIO = "ratio"
    SPREAD = "spread"
    CROSS = "cross"


class Basis(StrEnum):
    """The calendar of years and quarters: the calendar year or the entity's fiscal year."""

    CALENDAR = ""
    FISCAL = "fiscal"


@dataclass(frozen=True)
class Filter:
    """A condition on the values of an indicator; ``operator`` is one of < <= = != >= >."""

    indicator: str
    operator: str
    value: float


@dataclass(frozen=True)
class Query:
    """A typed query; names are as given and are resolved when it runs.

    ``kind`` asks for all entities of a kind, ``order`` sorts rows by an indicator. Values are converted to ``unit`` and
    ``currency``. ``vintage`` is "latest" or "first" and chooses between several published values of one period.
    ``periods`` keeps only rows inside one of them; statistics are then computed per period. ``every`` computes them per
    day, week, month, quarter or year, and ``outer`` is then the extreme, the mean or the count of those. ``tail`` keeps
    only the last rows. ``previous`` adds the last row of each series before ``start``, from which a return of the first
    period is measured.
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
    previous: bool = False


@dataclass(frozen=True)
class Missing:
    """A requested item without data; ``reason`` is the name of a ``MissingReason`` without its prefix."""

    subject: str
    reason: str
    detail: str
    aspect: str = ""
    period: str = ""
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The interpretation of a name in a question: its text, the chosen id, a score of 0 to 1, and the alternatives."""

    surface: str
    id: str
    score: float
    how: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column with its provenance. Dates are ISO; ``inputs`` are the indicators that a formula reads.

    ``basis`` says what a value stands for, ``resampling`` how finer values became one of the sheet's frequency.
    ``entity_names`` and ``indicator_names`` are what people write in any language; ``adverse`` marks a measure of which
    a rise is bad.
    """

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
    basis: str = ""
    resampling: str = ""
    entity_names: tuple[str, ...] = ()
    indicator_names: tuple[str, ...] = ()
    adverse: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table with its description; ``arrow`` is its Arrow IPC stream."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: int
    digest: str
    arrow: bytes


@dataclass(frozen=True)
class Result:
    """The sheets and the missing items of a query."""

    sheets: tuple[Sheet, ...]
    missing: tuple[Missing, ...]
    understood: Query
    snapshot: str
    matches: tuple[Match, ...] = field(default=())
