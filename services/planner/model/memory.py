"""Part of a user's memory that an episode is given, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.domain.profile.guidance import STANCE, Line
from fathom.domain.profile.kinds import Kind


@dataclass(frozen=True)
class Fact:
    """One sentence about the user; ``value`` is that of a preference, ``day`` the ISO date on which it was said."""

    id: str
    kind: Kind
    value: str
    text: str
    day: str = ""
    subject: str = ""

    @property
    def line(self) -> Line:
        return Line(self.kind.value, self.value, self.text, self.day)


@dataclass(frozen=True)
class View:
    """Statement of an answer on one measure of an entity in a period, whose ends are ISO dates or "".

    ``unit`` is "%" or that of the value, "direction" for a value of 1 or -1 that says no more than rise or fall.
    ``tolerance`` is half a unit of the last digit that the text gives.
    """

    entity: str
    measure: str
    first: str
    last: str
    value: float
    unit: str
    text: str
    as_of: str = ""
    day: str = ""
    run: str = ""
    tolerance: float = 0.0
    id: str = ""

    @property
    def line(self) -> Line:
        return Line(STANCE, "", self.text, self.day)


@dataclass(frozen=True)
class Statement:
    """A sentence of an answer; ``as_of`` is the last day of the data that it cites, "" when unknown."""

    text: str
    as_of: str = ""


@dataclass(frozen=True)
class Memory:
    """Facts and earlier views that an episode is given, and ids of the facts that have changed how it is played.

    ``question`` is the question with what memory adds to it, "" where it adds nothing.
    """

    facts: tuple[Fact, ...] = ()
    views: tuple[View, ...] = ()
    applied: tuple[str, ...] = ()
    question: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return what a prompt shows."""
        return (*(fact.line for fact in self.facts), *(view.line for view in self.views))

    def find(self, kind: Kind) -> Fact | None:
        """Return the preference of a kind; None where there is none."""
        return next((fact for fact in self.facts if fact.kind is kind), None)
