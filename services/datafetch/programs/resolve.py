"""Conversion of a program into calls of the sandbox's ``finance.steps``: periods and numbers read, series named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from fathom.core.errors import InvalidField
from fathom.domain.periods.period import DAY, measure_months, name_length
from fathom.domain.programs.language import (
    EURO,
    OWN_GROUP,
    SPECIAL,
    WHOLE_TABLE,
    WORDS,
    Call,
    Node,
    Number,
    Quote,
    Reference,
    Word,
    split_signature,
    walk,
)
from fathom.domain.programs.resolved import CALCULATION
from fathom.services.datafetch.catalog.text import is_chinese
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.programs.numbers import read_number
from fathom.services.datafetch.programs.own import OwnSeries
from fathom.services.datafetch.query.periods import LATE_DAYS, label

# The price index of ``real``, and its name in the steps.
PRICES, PRICES_NAME = ("US", "cpiaucsl"), "cpi"
PERCENT = 100.0


class GapReason(StrEnum):
    """Reason why words cannot be used, or kind of those that a program does not use."""

    SERIES = "UNKNOWN_SERIES"
    PERIOD = "PERIOD"
    NUMBER = "NUMBER"
    UNUSED_NAME = "UNUSED_NAME"
    UNUSED_PERIOD = "UNUSED_PERIOD"
    UNUSED_NUMBER = "UNUSED_NUMBER"
    UNUSED_INDICATOR = "UNUSED_INDICATOR"
    UNREAD = "UNREAD"


@dataclass(frozen=True)
class Gap:
    """Words that a program cannot use, or does not."""

    words: str
    reason: GapReason
    detail: str


@dataclass(frozen=True)
class NamedSeries:
    """A series of the steps: its name there, whose it is, what is measured, and the question's words.

    With ``is_rows`` the steps take rows of a column of the user's own table, and no series over time.
    """

    name: str
    entity: str
    indicator: str
    words: str
    is_rows: bool = False


@dataclass(frozen=True)
class Assumption:
    """Words that no name says, and the columns of a user's own table that they were taken for."""

    words: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """Access to the series of the tables: by the id that programs have, by group, and their first and last day.

    ``find`` and ``find_members`` return pairs of entity and indicator, or of sheet and column of a user's own table;
    ``find_last_day`` the last day that all have. ``find_name`` returns what an entity is called, in Chinese where that
    is asked for. ``own`` are the columns of the user's tables by such pairs.
    """

    find: Callable[[str], tuple[str, str] | None]
    find_members: Callable[[str], Sequence[tuple[str, str]]]
    has: Callable[[str, str], bool]
    find_last_day: Callable[[Sequence[tuple[str, str]]], date | None]
    find_name: Callable[[str, bool], str]
    own: Mapping[tuple[str, str], OwnSeries] = field(default_factory=dict)


@dataclass(frozen=True)
class Resolved:
    """Steps as Python expressions, their series, and what keeps them from being computed: then there are no steps."""

    kind: str
    steps: tuple[str, ...]
    series: tuple[NamedSeries, ...]
    missing: tuple[Gap, ...]
    words: tuple[str, ...]
    assumptions: tuple[Assumption, ...] = ()
    last: date | None = None
    """The last day of the data, where a period that counts from today goes beyond it."""


Edges = tuple[date | None, date | None]


def resolve(program: Sequence[Call], catalogue: Catalogue, today: date | None) -> Resolved:
    """Return the steps of a program; ``today`` anchors relative periods, without it the last day of its data.

    Words for the newest value count from the last day. A period that counts from today and has no data is missing.
    Raises ``InvalidField("program")`` for a program that the automaton would not allow.
    """
    words = tuple(dict.fromkeys(one.text for step in program for one in walk(step) if isinstance(one, Quote)))
    counted = [step for step in program if step.name not in SPECIAL]
    if not counted:
        return Resolved(program[0].name, (), (), (), words)
    last = catalogue.find_last_day(list_series(program, catalogue))
    resolver = Resolver(catalogue, today or last or date.today(), last, number_steps(program))
    resolver.is_zh = any(map(is_chinese, words))
    steps = tuple(resolver.write(step) for step in counted)
    missing = tuple(dict.fromkeys(resolver.missing))
    assumed = tuple(dict.fromkeys(resolver.assumed))
    end = last if resolver.is_beyond else None
    return Resolved(CALCULATION, () if missing else steps, tuple(resolver.series), missing, words, assumed, end)


def list_series(program: Sequence[Call], catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the series that a program names, as entity and indicator."""
    found: list[tuple[str, str]] = []
    for node in (one for step in program for one in walk(step)):
        if isinstance(node, Call) and (node.name == "members" or is_own_group(node.target)):
            found += catalogue.find_members(node.target)
        elif isinstance(node, Call) and node.name == "series" and (one := catalogue.find(node.target)):
            found.append(one)
    return found


def is_own_group(target: str) -> bool:
    """Return whether a series of a program is several columns of the user's own."""
    return target == WHOLE_TABLE or target.startswith(OWN_GROUP)


def number_steps(program: Sequence[Call]) -> dict[int, int]:
    """Return the number of each step without those that nothing calculates."""
    counted = [at for at, step in enumerate(program, 1) if step.name not in SPECIAL]
    return {at: number for number, at in enumerate(counted, 1)}


class Resolver:
    """Writes the steps of one program."""

    def __init__(self, catalogue: Catalogue, today: date, last: date | None, numbers: dict[int, int]) -> None:
        """Take the series, the day from which periods count, the last day of the data and the numbers of the steps."""
        self._catalogue, self._today, self._numbers = catalogue, today, numbers
        self._last = min(last or today, today)
        self._names: dict[tuple[str, str], str] = {}
        self.series: list[NamedSeries] = []
        self.missing: list[Gap] = []
        self.assumed: list[Assumption] = []
        self.is_beyond = False
        self.is_zh = False

    def write(self, node: Node, kind: str = "X") -> str:
        """Return the expression of a node that is an argument of a kind."""
        match node:
            case Quote(text) if kind == "P":
                return self._write_period(text)
            case Quote(text):
                return self._write_number(text)
            case Number(value):
                return str(value)
            case Word(text):
                return repr(text)
            case Reference(step):
                if step not in self._numbers:
                    raise InvalidField("program", f"_{step} is the value of no calculation")
                return f"_{self._numbers[step]}"
            case Call(name="series", target=target) if is_own_group(target):
                return self._write_own_group(node)
            case Call(name="series"):
                return self._name(self._catalogue.find(node.target), node.words)
            case Call(name="members"):
                return self._write_members(node)
            case Call(name="when"):
                return self._write_period(self._join_words(node))
            case Call(name="portfolio"):
                return self._write_portfolio(node)
            case _:
                return self._write_call(node)

    def _write_call(self, call: Call) -> str:
        arguments = [self.write(node, kind) if node else "0" for kind, node in align(call)]
        if call.name in ("at", "within"):
            self._check_length(call)
        if call.name == "between":
            self._check_order(*call.arguments[1:])
        if call.name == "real":
            arguments.insert(1, self._name_prices())
        return f"f.{call.name}({', '.join(arguments)})"

    def _write_members(self, call: Call) -> str:
        found = self._catalogue.find_members(call.target)
        if not found:
            return self._name(None, call.words)
        # By the group's words nobody could tell which member a result is of.
        names = [self._name(one, self._catalogue.find_name(one[0], self.is_zh)) for one in found]
        return f"f.each({', '.join(names)})"

    def _write_own_group(self, call: Call) -> str:
        """Return columns of the user's own: those of one measure, or all, for words that no name says."""
        found = self._catalogue.find_members(call.target)
        if call.target == WHOLE_TABLE:
            self.assumed.append(Assumption(call.words, tuple(column for _, column in found)))
        names = [self._name(one, one[1]) for one in found]
        return names[0] if len(names) == 1 else f"f.each({', '.join(names)})"

    def _write_portfolio(self, call: Call) -> str:
        frequency = [repr(one.text) for one in call.arguments if isinstance(one, Word)]
        parts = [one for one in call.arguments if not isinstance(one, Word)]
        shares, lines = parts[::2], parts[1::2]
        # "Evenly", "half": equal shares need no number.
        are_equal = len(set(shares)) == 1
        shown = ["1" if are_equal else self._write_share(share) for share in shares]
        pairs = [text for share, line in zip(shown, lines, strict=True) for text in (share, self.write(line, "L"))]
        return f"f.portfolio({', '.join((*pairs, *frequency))})"

    def _write_share(self, node: Node) -> str:
        """Return a share in percent: "half" beside "30%" is 50."""
        value = read_number(node.text) if isinstance(node, Quote) else None
        if value is not None and isinstance(node, Quote) and 0 < value < 1 and "%" not in node.text:
            return format_number(value * PERCENT)
        return self.write(node, "N")

    def _name(self, found: tuple[str, str] | None, words: str) -> str:
        """Return the name of a series in the steps; an unknown one is missing."""
        if found is None:
            self.missing.append(Gap(words, GapReason.SERIES, f"the tables have no series for {words!r}"))
            return "None"
        if found not in self._names:
            self._names[found] = f"s{sum(name != PRICES_NAME for name in self._names.values()) + 1}"
            self.series.append(NamedSeries(self._names[found], *found, words))
        return self._names[found]

    def _name_prices(self) -> str:
        if not self._catalogue.has(*PRICES):
            self.missing.append(Gap("", GapReason.SERIES, "the tables have no consumer price index"))
        elif all(one.name != PRICES_NAME for one in self.series):
            self.series.append(NamedSeries(PRICES_NAME, *PRICES, ""))
        return PRICES_NAME

    def _write_number(self, text: str) -> str:
        value = read_number(text)
        if value is None:
            self.missing.append(Gap(text, GapReason.NUMBER, f"{text!r} is no number"))
            return "None"
        return format_number(value)

    def _join_words(self, call: Call) -> str:
        """Return the words of one period, which stand apart in the question, as one text."""
        texts = [one.text for one in call.arguments if isinstance(one, Quote)]
        joined = "".join(texts)
        # Chinese has no blanks, but "2020" and 4月 need one between them.
        return joined if any(map(is_chinese, texts)) and self._read_period(joined) else " ".join(texts)

    def _write_period(self, text: str) -> str:
        start, end = self._read_period(text, is_noted=True) or (None, None)
        shown = ", ".join("None" if day is None else repr(day.isoformat()) for day in (start, end))
        return f"f.period({shown})"

    def _read_period(self, text: str, is_noted: bool = False) -> Edges | None:
        """Return the first and the last day of words; None for words that are no period, which are noted."""
        found = periods.read(text, self._today, self._last)
        detail = "; ".join(found.impossible.values()) if found.impossible else f"{text!r} is no period"
        unread = [at for at, char in enumerate(text) if char.isdigit() and not any(a <= at < b for a, b in found.spans)]
        if unread and not found.impossible:
            detail = f"of {text!r} only a part is read as a period"
        elif found.periods and not found.impossible:
            whole = found.whole
            is_counted = any(one.relative for one in found.periods)
            if whole.start and whole.end and whole.start > whole.end:
                detail = f"{text!r} ends before it begins"
            # What was said by its dates is computed as far as there are data, and the result says from when to when.
            elif is_counted and whole.start and whole.start > self._last:
                detail = f"the data end on {self._last}, and {text!r} is {label(whole)}"
            else:
                late = (whole.end - self._last).days if is_counted and whole.end else 0
                self.is_beyond = self.is_beyond or late > LATE_DAYS
                return whole.start, whole.end
        if is_noted:
            self.missing.append(Gap(text, GapReason.PERIOD, detail))
        return None

    def _check_order(self, first: Node, last: Node) -> None:
        """Note a stretch of days that ends before it begins."""
        start, end = self._find_edges(first), self._find_edges(last)
        if start and end and start[0] and end[1] and start[0] > end[1]:
            words = " ".join(one.text for node in (first, last) for one in walk(node) if isinstance(one, Quote))
            self.missing.append(Gap(words, GapReason.PERIOD, f"it begins on {start[0]} and ends on {end[1]}"))

    def _check_length(self, call: Call) -> None:
        """Note a period of which the user's own column has no value, as its values are each of a longer or shorter one.

        A quarter has no part of a year's amount, and quarters become a year only by a rule that the column must have.
        """
        series, when = call.arguments[:2]
        # The end of a period is a day that a value is dated by.
        edges = None if isinstance(when, Call) and when.name != "when" else self._find_edges(when)
        start, end = edges or (None, None)
        if not isinstance(series, Call) or start is None or end is None:
            return
        asked = measure_months(start, end)
        # A day on which values are dated has the one of its period, if that is no amount of all its days.
        is_dated = start == end and (end + DAY).day == 1
        words = " ".join(one.text for one in walk(when) if isinstance(one, Quote))
        for place in dict.fromkeys(list_series([series], self._catalogue)):
            own = self._catalogue.own.get(place)
            if own is None or not own.months or (is_dated and not own.is_amount):
                continue
            if asked < own.months:
                detail = f"the values of {own.column!r} are each of a {name_length(own.months)}"
                self.missing.append(Gap(words, GapReason.PERIOD, detail))
            elif call.name == "at" and asked > own.months and not own.is_state:
                detail = f"nothing says how values of {own.column!r}, each of a {name_length(own.months)}, become one"
                self.missing.append(Gap(words, GapReason.PERIOD, f"{detail}: set its aggregation"))

    def _find_edges(self, node: Node) -> Edges | None:
        """Return the days of an argument that consists of words alone."""
        match node:
            case Quote(text):
                return self._read_period(text)
            case Call(name="when"):
                return self._read_period(self._join_words(node))
            case Call(name="start", arguments=(inner,)):
                edges = self._find_edges(inner)
                return edges and (edges[0], edges[0])
            case Call(name="end", arguments=(inner,)):
                edges = self._find_edges(inner)
                return edges and (edges[1], edges[1])
        return None


def align(call: Call) -> list[tuple[str, Node | None]]:
    """Return the arguments of a call with their kinds; None for a number that is left out before a unit of time."""
    kinds = split_signature(call.name)
    if kinds[-1].endswith("*"):
        return [(kinds[-1][0], node) for node in call.arguments]
    found: list[tuple[str, Node | None]] = []
    rest = list(kinds)
    for node in call.arguments:
        while rest and not fits(node, rest[0][0]):
            skipped = rest.pop(0)
            if not skipped.endswith("?"):
                raise InvalidField("program", f"{call.name} has an argument that does not belong there")
            found.append((skipped[0], None))
        if not rest:
            raise InvalidField("program", f"{call.name} has too many arguments")
        found.append((rest.pop(0)[0], node))
    if any(not kind.endswith("?") for kind in rest):
        raise InvalidField("program", f"{call.name} has too few arguments")
    return found


def fits(node: Node, kind: str) -> bool:
    """Return whether a node can be an argument of a kind."""
    match node:
        case Quote():
            return kind in "PNX"
        case Number():
            return kind in "NX"
        case Word(text):
            return text in WORDS[kind] if kind in WORDS else (kind, text) == ("R", EURO)
    return kind in "LPNRX"


def format_number(value: float) -> str:
    """Return a number as Python writes it, without a needless point."""
    return f"{value:.15g}"
