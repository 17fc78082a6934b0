"""Schema of a semantic file; unknown keys are errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from fathom.core.config import Settings
from fathom.services.datafetch.catalog.text import is_chinese

# Raise it when a file of the old form would be read wrongly.
VERSION = 1
# Vendors' ids have points, dashes, ^ and = (BRK.B, ^GSPC, EURUSD=X); quotes and blanks are refused, since ids become
# names of relations and columns.
IDENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-^=]*")


class Frequency(StrEnum):
    """The frequency of a series; ``NATIVE`` is the stored one."""

    NATIVE = ""
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    ANNUAL = "annual"


class EntitySpec(Settings):
    """A company, index, fund, currency, commodity or economy.

    ``market`` (CN, HK, US) determines the spellings of its code.
    """

    id: str
    name: str
    name_zh: str = ""
    kind: str
    aliases: list[str] = Field(default_factory=list)
    former_names: list[str] = Field(default_factory=list)
    market: str = ""
    currency: str = ""
    calendar: str = ""


class IndicatorSpec(Settings):
    """A measurable quantity; ``kinds`` are the kinds of entities that have it.

    ``formula`` makes it derived: an expression over ids of other indicators
    (``fathom.services.datafetch.query.formulas``). ``flow`` marks amounts of a period, as opposed to states at its end;
    ``cumulative`` marks flows reported since the start of the fiscal year. ``lag_days`` is the publication delay in
    days after the value's date, if the source has no date of publication. ``default`` marks the indicator that the name
    of an entity alone asks for, ``annual`` is the id of its annual variant. ``basis`` says what a value stands
    for, such as "total return: adjusted for dividends and splits"; a file of series may say it for each series.
    ``adverse`` marks a measure of which a rise is bad, such as unemployment.
    """

    id: str
    name: str
    name_zh: str = ""
    definition: str = ""
    unit: str = ""
    frequency: Frequency = Frequency.MONTHLY
    kinds: list[str] = Field(default_factory=lambda: ["economy"])
    synonyms: list[str] = Field(default_factory=list)
    formula: str = ""
    text: bool = False
    flow: bool = False
    cumulative: bool = False
    aggregate: Literal["last", "sum", "mean"] = "last"
    lag_days: int | None = Field(default=None, ge=0)
    default: bool = False
    annual: str = ""
    basis: str = ""
    adverse: bool = False

    @field_validator("id")
    @classmethod
    def check_identifier(cls, ident: str) -> str:
        if not IDENT.fullmatch(ident):
            raise ValueError(f"{ident!r} is no identifier")
        return ident

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.cumulative and not self.flow:
            raise ValueError(f"{self.id}: only a flow can be cumulative")
        if self.text and self.formula:
            raise ValueError(f"{self.id}: a text has no formula")
        return self


class CalendarSpec(Settings):
    """A fiscal calendar: the last month of the year, and the trading weekdays (1 Monday … 7 Sunday).

    ``named_by`` tells if a fiscal year has the number of the calendar year in which it ends or starts.
    """

    id: str
    name: str
    name_zh: str = ""
    fiscal_year_end: int = Field(default=12, ge=1, le=12)
    named_by: Literal["end", "start"] = "end"
    weekdays: list[int] = Field(default_factory=lambda: [1, 2, 3, 4, 5])
    kinds: list[str] = Field(default_factory=list)
    entities: list[str] = Field(default_factory=list)


class PublishedSpec(Settings):
    """The location of publication dates: a column of the table, or of a separate file by entity and period."""

    column: str
    path: str = ""
    entity: str = ""
    period: str = ""


class TableSpec(Settings):
    """A file with values, or a table of a database with the name ``relation`` ("schema.table").

    A *wide* table has one row per entity and period, with ``columns`` mapping its columns to indicators. A *long* one
    has the columns ``entity``, ``indicator``, ``date`` and ``value``, and ``series`` may name a file that describes
    them; in a database they are relations there. ``sentinels`` are numbers for "not known"; they become nulls.
    """

    id: str
    path: str = ""
    database: str = ""
    relation: str = ""
    layout: Literal["wide", "long"] = "wide"
    series: str = ""
    entity: str = "entity"
    codes: Literal["", "CN"] = ""
    period: str = "date"
    period_kind: Literal["date", "year", "yyyymmdd", "quarter"] = "date"
    frequency: Frequency = Frequency.ANNUAL
    published: PublishedSpec | None = None
    lag_days: int = Field(default=0, ge=0)
    sentinels: list[float] = Field(default_factory=list)
    columns: dict[str, str] = Field(default_factory=dict)
    sheet: str = ""
    source: str = ""
    vendor: str = ""
    licence: str = ""
    description: str = ""

    @model_validator(mode="after")
    def check_completeness(self) -> Self:
        if not IDENT.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is no identifier")
        if self.layout == "wide" and not self.columns:
            raise ValueError(f"{self.id}: a wide table needs columns")
        if bool(self.path) == bool(self.database) or bool(self.database) != bool(self.relation):
            raise ValueError(f"{self.id}: give the path of a file, or a database and a relation in it")
        return self


class EntityTableSpec(Settings):
    """A file with one or more rows per entity.

    Of several rows the one with the greatest ``order`` gives the names; the names of the others become former names.
    """

    path: str
    id: str
    codes: Literal["", "CN"] = ""
    kind: str
    name: str = ""
    name_zh: str = ""
    aliases: list[str] = Field(default_factory=list)
    order: str = ""
    market: str = ""
    currency: str = ""
    calendar: str = ""


class GroupSpec(Settings):
    """Entities that people name together: those listed, or all of a kind and a market."""

    id: str
    names: list[str]
    members: list[str] = Field(default_factory=list)
    kind: str = ""
    market: str = ""

    @model_validator(mode="after")
    def check_members(self) -> Self:
        if bool(self.members) == bool(self.kind):
            raise ValueError(f"{self.id}: give its members or their kind")
        return self


class SynonymSpec(Settings):
    """Additional names of an indicator that another file declares."""

    id: str
    synonyms: list[str]


class FamilySpec(Settings):
    """Names built from patterns: each form of a member replaces "{}" in each pattern to name its indicator.

    Forms with Chinese characters go into patterns with Chinese characters, other forms into patterns without; all go
    into the pattern "{}".
    """

    about: str
    members: dict[str, list[str]]
    patterns: list[str]

    @field_validator("patterns")
    @classmethod
    def check_patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if pattern.count("{}") != 1:
                raise ValueError(f"{pattern!r} must have one {{}}")
        return patterns

    def iter_names(self) -> Iterator[tuple[str, str]]:
        """Yield every name with its indicator id."""
        for ident, forms in self.members.items():
            for form in forms:
                for pattern in self.patterns:
                    if pattern == "{}" or is_chinese(form) == is_chinese(pattern):
                        yield pattern.replace("{}", form), ident


class SemanticFile(Settings):
    """One YAML file of a semantic folder; every section is optional."""

    version: Literal[1]
    entities: list[EntitySpec] = Field(default_factory=list)
    entity_tables: list[EntityTableSpec] = Field(default_factory=list)
    groups: list[GroupSpec] = Field(default_factory=list)
    indicators: list[IndicatorSpec] = Field(default_factory=list)
    synonyms: list[SynonymSpec] = Field(default_factory=list)
    families: list[FamilySpec] = Field(default_factory=list)
    calendars: list[CalendarSpec] = Field(default_factory=list)
    tables: list[TableSpec] = Field(default_factory=list)
