"""A question beside the program that was read of it, and the changes of programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.domain.programs.language import Call, Node, Quote, Reference, walk
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.programs.resolve import Gap, GapReason
from fathom.services.datafetch.query.model import Frequency

Program = tuple[Call, ...]
# Units of time of the language by the frequencies of series.
UNITS: Mapping[str, str] = {
    Frequency.DAILY: "day", Frequency.WEEKLY: "week", Frequency.MONTHLY: "month", Frequency.QUARTERLY: "quarter",
    Frequency.ANNUAL: "year",
}  # fmt: skip
# Functions whose value is the series that a program is about.
SOURCES = frozenset({"series", "members", "rate"})


# Units of amounts of money, and the mark of those that are at a rate of a year.
MONEY, YEARLY = re.compile(r"\b[BM]il\. of"), "SAAR"
# Functions whose value is one number.
VALUES = frozenset({
    "at", "first", "last", "maximum", "minimum", "mean", "median", "total", "std", "count", "ret", "change", "cagr",
    "drawdown", "rise", "vol", "sharpe", "sortino", "corr", "levels_corr", "beta", "count_if", "share_if", "longest",
})  # fmt: skip


@dataclass(frozen=True)
class KnownSeries:
    """A series of the tables: its id in programs, whose it is, what is measured, how often and in which unit."""

    id: str
    entity: str
    indicator: str
    frequency: str
    unit: str = ""

    @property
    def is_averaged(self) -> bool:
        """Return whether the value of a longer time is the mean: so it is of all but amounts of money of each month."""
        return not MONEY.search(self.unit) or YEARLY in self.unit


@dataclass(frozen=True)
class Asked:
    """The last of some questions with its mentions, its program, and the words that no step uses.

    ``find`` returns a series by its id in programs, ``find_of`` one of an entity and an indicator.
    """

    question: str
    mentions: Sequence[Mention]
    program: Program
    unused: Sequence[Gap]
    find: Callable[[str], KnownSeries | None]
    find_of: Callable[[str, str], KnownSeries | None]
    today: date
    is_follow_up: bool = False

    def get_text(self, item: Mention) -> str:
        """Return the words of a mention."""
        return self.question[item.start : item.end]

    def select_unused(self, kind: MentionKind, reason: GapReason) -> list[Mention]:
        """Return the mentions of a kind that no step uses, for a reason."""
        words = {one.words for one in self.unused if one.reason == reason}
        return [item for item in select(self.mentions, kind) if self.get_text(item) in words]

    def list_targets(self) -> list[str]:
        """Return the ids of the program's series, each once."""
        return list(dict.fromkeys(one.target for one in list_calls(self.program) if one.name == "series"))

    def find_unit(self) -> str:
        """Return the unit of time of which the program's series have one value each; "" where they differ."""
        series = [self.find(target) for target in self.list_targets()]
        units = {UNITS.get(one.frequency, "") if one is not None else "" for one in series}
        return units.pop() if len(units) == 1 else ""


def list_calls(program: Sequence[Node]) -> Iterator[Call]:
    """Yield all calls of a program."""
    yield from (one for step in program for one in walk(step) if isinstance(one, Call))


def is_value(step: Call) -> bool:
    """Return whether a step gives one number, or one of each member of a group."""
    return step.name in VALUES


def has_references(program: Sequence[Node]) -> bool:
    """Return whether a step uses the value of an earlier one."""
    return any(isinstance(one, Reference) for step in program for one in walk(step))


def rewrite(node: Node, change: Callable[[Call], Node | None]) -> Node:
    """Return a node with its calls changed from the outside in; what is changed is not looked into again."""
    if not isinstance(node, Call):
        return node
    found = change(node)
    if found is not None:
        return found
    return replace(node, arguments=tuple(rewrite(one, change) for one in node.arguments))


def rewrite_program(program: Program, change: Callable[[Call], Node | None]) -> Program:
    """Return the steps of a program with their calls changed; those that are no call any more are left out."""
    steps = (rewrite(step, change) for step in program)
    return tuple(step for step in steps if isinstance(step, Call))


def make_series(words: str, found: KnownSeries) -> Call:
    """Return a series by the words that name it."""
    return Call("series", (Quote(words),), found.id)
