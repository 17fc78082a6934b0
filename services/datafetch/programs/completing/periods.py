"""Periods that a question has and its program has not: the whole of one that a step has a part of, and a second one."""

from __future__ import annotations

from dataclasses import replace

from fathom.domain.chat.negation import find_exclusions
from fathom.domain.programs.language import Call, Node, Quote, Reference, walk
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.parser.lexicon import cue
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.completing.question import (
    Asked,
    Program,
    has_references,
    is_value,
    list_calls,
    rewrite_program,
)
from fathom.services.datafetch.programs.resolve import GapReason
from fathom.services.datafetch.query.model import Frequency

# Steps that a second period may double.
MOST_DOUBLED = 2
# Functions whose value is how often something was.
COUNTS = frozenset({"count", "count_if"})
# What parts two clauses, of which each has a period of its own.
MARKS = ",;，；。"
# Functions by which the values of each day, or their moves, are cut to a period.
CUT = frozenset({"within", "at"})


def complete_periods(asked: Asked) -> Program:
    """Return the program over the whole of a period of which it has a part.

    "The twelve months to September 2022" are more than September 2022.
    """
    unused = asked.select_unused(MentionKind.PERIOD, GapReason.UNUSED_PERIOD)
    days = {item.value for item in unused}
    if len(days) != 1:
        return asked.program
    words = find_whole(asked, unused)
    parts = {one for one in list_quotes(asked.program) if one in words and one != words}
    if not words or len(parts) != 1:
        return asked.program
    part = parts.pop()
    whole = days.pop()
    # A day of the month that a step has is meant more exactly; of other parts nobody knows.
    is_day = words in map(asked.get_text, unused) and len(set(whole.split("/"))) == 1
    if not (is_day or covers(whole, read_days(part, asked))):
        return asked.program
    return replace_words(asked.program, part, words)


def covers(whole: str, part: str) -> bool:
    """Return whether a period that is closed on both sides has all days of another one."""
    (first, _, last), (begin, _, end) = whole.partition("/"), part.partition("/")
    return ".." not in (first, last, begin, end) and bool(part) and first <= begin and end <= last


def find_whole(asked: Asked, mentions: list[Mention]) -> str:
    """Return the stretch of the question that reads as the one period of mentions, "" for none.

    Words that only narrow a period ("as of June 2021") stand apart from the others, and mean the same days.
    """
    days = mentions[0].value
    same = [item for item in asked.mentions if item.kind == MentionKind.PERIOD and item.value == days]
    start, end = min(item.start for item in same), max(item.end for item in same)
    stretch = asked.question[start:end]
    is_one = len(same) == 1 or not any(mark in stretch for mark in MARKS)
    return stretch if is_one and read_days(stretch, asked) == days else ""


def read_days(words: str, asked: Asked) -> str:
    """Return the first and last day of words as mentions have them; "" for words that are no period."""
    found = periods.read(words, asked.today, asked.today)
    if not found.periods or found.impossible:
        return ""
    return "/".join(day.isoformat() if day else ".." for day in (found.whole.start, found.whole.end))


def complete_second_periods(asked: Asked) -> Program:
    """Return the program for each of two periods where it has one of them: "in 2015 and in 2019"."""
    unused = asked.select_unused(MentionKind.PERIOD, GapReason.UNUSED_PERIOD)
    quotes = set(list_quotes(asked.program))
    # What is left out has no value of its own.
    if len(unused) != 1 or len(quotes) != 1 or has_references(asked.program) or find_exclusions(asked.question):
        return asked.program
    if len(asked.program) > MOST_DOUBLED or not all(map(is_value, asked.program)):
        return asked.program
    first = quotes.pop()
    known = [item for item in asked.mentions if item.kind == MentionKind.PERIOD and asked.get_text(item) == first]
    second = unused[0]
    is_alike = len(known) == 1 and measure_days(known[0]) == measure_days(second) != 0
    # "In 2008 and in March 2017" may mean a month of both years.
    are_read = all(read_days(asked.get_text(item), asked) == item.value for item in (*known, second))
    if not is_alike or not are_read:
        return asked.program
    other = replace_words(asked.program, first, asked.get_text(second))
    both = (*asked.program, *other) if known[0].start < second.start else (*other, *asked.program)
    # How many times as volatile one year was as the other is the quotient of the two.
    is_ratio = len(both) == 2 and bool(cue("counted_units.times").search(asked.question)) and both[0].name not in COUNTS
    return (*both, Call("over", (Reference(1), Reference(2)))) if is_ratio else both


def measure_days(item: Mention) -> int:
    """Return about how many months a period has, 0 for an open one; years differ by a day."""
    first, _, last = item.value.partition("/")
    if ".." in (first, last):
        return 0
    year, month, day = (int(to) - int(of) for of, to in zip(first.split("-"), last.split("-"), strict=True))
    return 12 * year + month + (day >= 0)


def list_quotes(program: Program) -> list[str]:
    """Return the words of periods by which steps are cut."""
    cuts = [one for one in list_calls(program) if one.name in CUT]
    return [node.text for cut in cuts for part in cut.arguments[1:] for node in walk(part) if isinstance(node, Quote)]


def replace_words(program: Program, old: str, new: str) -> Program:
    """Return a program with other words for a period."""

    def change(call: Call) -> Node | None:
        if call.name not in CUT or Quote(old) not in call.arguments[1:]:
            return None
        line, *rest = call.arguments
        changed = rewrite_program((line,), change)[0] if isinstance(line, Call) else line
        return replace(call, arguments=(changed, *(Quote(new) if one == Quote(old) else one for one in rest)))

    return rewrite_program(program, change)


def correct_years(asked: Asked) -> Program:
    """Return the program with the mean of a year in place of the value of its last month.

    A series of months has none of a year, and who asks for December says so. Amounts of money may have to be added up.
    """

    def change(call: Call) -> Node | None:
        if call.name != "at" or not isinstance(call.arguments[1], Quote):
            return None
        targets = [one.target for one in walk(call) if isinstance(one, Call) and one.name == "series"]
        found = [asked.find(target) for target in targets]
        is_monthly = all(one is not None and one.frequency == Frequency.MONTHLY and one.is_averaged for one in found)
        if not (targets and is_monthly and is_year(read_days(call.arguments[1].text, asked))):
            return None
        # "The end of 2008" reads as the days of its year as well.
        is_bare = any(
            item.kind == MentionKind.PERIOD and asked.get_text(item) == call.arguments[1].text.strip()
            for item in asked.mentions
        ) and sum(map(str.isalnum, call.arguments[1].text)) <= len("2008年")
        return Call("mean", (Call("within", call.arguments),)) if is_bare else None

    return rewrite_program(asked.program, change)


def is_year(days: str) -> bool:
    """Return whether days are those of a calendar year."""
    first, _, last = days.partition("/")
    return first[4:] == "-01-01" and last[4:] == "-12-31" and first[:4] == last[:4]
