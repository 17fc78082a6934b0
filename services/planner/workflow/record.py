"""What a stage of the workflow leaves beside its completion: plain data, recorded with its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FRAMEWORKS, INDICATORS, ASSOCIATION = "frameworks", "indicators", "association"
PARTS = (FRAMEWORKS, INDICATORS, ASSOCIATION)
"""Of the chain that widens a plan."""


class Fault(StrEnum):
    """What was wrong with a stage's output, by its kind; the value is a metric's label."""

    EMPTY = "empty"
    NOT_JSON = "not_json"
    UNKNOWN_TOOL = "unknown_tool"
    NO_QUERY = "no_query"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    DUPLICATE = "duplicate"
    NO_INDICATOR = "no_indicator"
    """A data sub-question that names no indicator: it goes to the search tool."""
    BARE_INDICATOR = "bare_indicator"
    """A search sub-question that only looks up an indicator: it goes to the data tool."""
    UNKNOWN_INDICATOR = "unknown_indicator"
    """A name that the library does not have; it was taken out of the sub-question."""
    SERVICE = "service"
    """A service that the stage would have asked was out of reach."""


@dataclass(frozen=True)
class Flaw:
    """One thing that was wrong, and the words that show it."""

    fault: Fault
    detail: str = ""


@dataclass(frozen=True)
class SubQuery:
    """A sub-question for one tool. ``origin`` says who asked for it; ``dropped`` why it was not sent, "" when it was.

    ``indicators`` are names that the model thinks of for it.
    """

    tool: str
    text: str
    origin: str = "plan"
    indicators: tuple[str, ...] = ()
    dropped: Fault | None = None


@dataclass(frozen=True)
class Widening:
    """What one part of the widening chain brought; ``error`` when it failed."""

    part: str
    found: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Meant:
    """What the library makes of a stage's words."""

    known: Mapping[str, str] = field(default_factory=dict)
    """The id of an indicator by the model's words for it; "" for words that name none."""
    canonical: Mapping[str, str] = field(default_factory=dict)
    """What to call it, by the same words: they themselves where the library has them as a name, else its own name."""
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of indicators that stand in a sub-question, by its text."""
    widening: tuple[Widening, ...] = ()


@dataclass(frozen=True)
class StageNote:
    """What came of a stage. ``text`` is the rewritten question; ``meant`` is kept so that a replay needs no library."""

    name: str
    text: str = ""
    queries: tuple[SubQuery, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    widening: tuple[Widening, ...] = ()
    meant: Meant = field(default_factory=Meant)
    room: int = 0
    """Tokens of the window that its prompt was made for; 0 when nobody said."""

    @property
    def sent(self) -> tuple[SubQuery, ...]:
        """The sub-questions that were sent."""
        return tuple(query for query in self.queries if query.dropped is None)
