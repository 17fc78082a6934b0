"""Recorded data of workflow stages besides their completions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FRAMEWORKS, INDICATORS, ASSOCIATION = "frameworks", "indicators", "association"
PARTS = (FRAMEWORKS, INDICATORS, ASSOCIATION)
"""Parts of the enrichment of a plan."""


class Fault(StrEnum):
    """Kinds of flaws in a stage's output; the value is a metric label."""

    EMPTY = "empty"
    NOT_JSON = "not_json"
    UNKNOWN_TOOL = "unknown_tool"
    NO_QUERY = "no_query"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    DUPLICATE = "duplicate"
    NO_INDICATOR = "no_indicator"
    """A data sub-question without an indicator; it is routed to the search tool."""
    BARE_INDICATOR = "bare_indicator"
    """A search sub-question that only looks up an indicator; it is routed to the data tool."""
    UNKNOWN_INDICATOR = "unknown_indicator"
    """An indicator that the library lacks; it is removed from the sub-question."""
    SERVICE = "service"
    """A service that the stage depends on was unreachable."""


@dataclass(frozen=True)
class Flaw:
    """One flaw, with the text that shows it."""

    fault: Fault
    detail: str = ""


@dataclass(frozen=True)
class SubQuery:
    """A sub-question for one tool.

    ``origin`` names the stage that created it; ``dropped`` is the reason why it was not sent, or None; ``indicators``
    are names suggested by the model.
    """

    tool: str
    text: str
    origin: str = "plan"
    indicators: tuple[str, ...] = ()
    dropped: Fault | None = None


@dataclass(frozen=True)
class Widening:
    """Result of one part of the enrichment; ``error`` is set when it failed."""

    part: str
    found: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class LibraryLookup:
    """Library lookups of a stage's words."""

    known: Mapping[str, str] = field(default_factory=dict)
    """Indicator id by the model's name for it; "" for an unknown name."""
    canonical: Mapping[str, str] = field(default_factory=dict)
    """Name to use, by the model's name: that name itself if the library has it, else the library's name."""
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Indicator names found in a sub-question, by its text."""
    widening: tuple[Widening, ...] = ()
    suited: Mapping[str, str] = field(default_factory=dict)
    """Tool that suits a sub-question, by its text; none where that is unsure."""


@dataclass(frozen=True)
class StageNote:
    """Record of a stage. ``text`` is the rewritten question; ``meant`` is stored so that a replay needs no library."""

    name: str
    text: str = ""
    queries: tuple[SubQuery, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    widening: tuple[Widening, ...] = ()
    meant: LibraryLookup = field(default_factory=LibraryLookup)
    room: int = 0
    """Window in tokens that the prompt was made for; 0 when unknown."""

    @property
    def sent_queries(self) -> tuple[SubQuery, ...]:
        """Return the sub-questions that were sent."""
        return tuple(query for query in self.queries if query.dropped is None)
