"""A question about rows of a user's own tables as a program: which rows of which column, and what of them.

"The hotel contracts that end in the second half of 2027, per year, all together" are some rows of a register, and no
series over time. A reading says which words of the question no name of the table has: with any it is only likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date

from fathom.domain.programs.resolved import CALCULATION
from fathom.domain.text.terms import is_chinese
from fathom.services.datafetch.catalog.column_periods import read_column_period
from fathom.services.datafetch.parser import lexicon, periods
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.own import JOINTS, LEAST_PARTS, strip_unit
from fathom.services.datafetch.programs.own_words.naming import ENDS, split_terms
from fathom.services.datafetch.programs.own_words.settling import says_otherwise
from fathom.services.datafetch.programs.own_words.statistics import (
    MAX,
    MEAN,
    MIN,
    SUM,
    find_statistics,
    list_asking_terms,
)
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Assumption, Gap, NamedSeries
from fathom.services.datafetch.programs.rows.conditions import (
    Asked,
    Condition,
    find_day_condition,
    find_text_conditions,
)
from fathom.services.datafetch.programs.rows.table import Kind, RowColumn, RowTable

# Functions of the steps by the statistic that is asked for; of no statistic the value of a single row.
FUNCTIONS = {"": "value", SUM: "sum_rows", MEAN: "mean_rows", MAX: "top", MIN: "bottom"}
# Share of the question's words that a table has to have before its rows are taken for what is asked; more where it does
# not name the column.
LEAST_SHARE, LEAST_UNNAMED = 0.5, 0.6
# What a reading is sure of that leaves words unread: it is computed, and said to be open.
LIKELY = 0.9
# How much nearer the words of a question have to be to one column's name than to any other's.
MARGIN = 0.02
FILE_END = re.compile(r"\.\w{2,5}(?=\s|$)")
RATIO = re.compile(r"[%％/]|\bper\b|每", re.IGNORECASE)
# More rows are no longer told one by one.
MOST_PICKED = 1_000

Compare = Callable[[str, Sequence[str]], Sequence[float]]
"""Likeness of a text to each of some names."""


@dataclass(frozen=True)
class Choice:
    """Rows of a table with what is measured, the question's words that its names have, and those that they have not."""

    table: RowTable
    measure: RowColumn
    label: str
    rows: tuple[int, ...]
    conditions: tuple[Condition, ...]
    taken: frozenset[str]
    left: tuple[str, ...]

    has_period: bool = False
    is_named: bool = True
    """True where the question names what is measured."""

    @property
    def is_likely(self) -> bool:
        """Return whether the question has few words that the table has not."""
        return self.share >= (LEAST_SHARE if self.is_named else LEAST_UNNAMED)

    @property
    def share(self) -> float:
        """Return the share of the question's words that the table has, a period as one of them."""
        count = len(self.taken) + self.has_period
        return count / max(1, count + len(self.left))


def read_asked(question: str, mentions: Sequence[Mention], today: date) -> Asked | None:
    """Return what a question says; None for one that denies something, or whose period is none or open."""
    found = periods.read(question, today)
    stretches = [(one.start, one.end) for one in found.periods if one.start and one.end]
    if says_otherwise(question) or found.impossible or len(stretches) < len(found.periods):
        return None
    statistics = find_statistics(question, ())
    if len(statistics) > 1 or not statistics <= FUNCTIONS.keys():
        return None
    bare = question
    for start, end in found.spans:
        bare = bare[:start] + " " * (end - start) + bare[end:]
    terms = split_terms(bare)
    asking = list_asking_terms(bare)
    idle = lexicon.list_words("function_words") | asking
    ids = {
        one.value: frozenset(split_terms(question[one.start : one.end]))
        for one in mentions
        if one.kind is MentionKind.ENTITY and one.value
    }
    words = " ".join(question[start:end].strip() for start, end in sorted(found.spans))
    content = frozenset(term for term in terms if term not in idle)
    return Asked(question, terms, content, tuple(stretches), words, ids, next(iter(statistics), ""))


def read_rows(
    question: str,
    mentions: Sequence[Mention],
    tables: Sequence[RowTable],
    today: date,
    compare: Compare | None = None,
) -> ProgramReading | None:
    """Return the program of a question about rows of some tables; None where no table alone has most of its words."""
    asked = read_asked(question, mentions, today)
    if asked is None:
        return None
    found = [one for table in tables if (one := choose_rows(asked, table, compare)) is not None]
    found = sorted((one for one in found if one.is_likely), key=lambda one: -one.share)
    if not found or (len(found) > 1 and found[0].share == found[1].share):
        return None
    return write_program(asked, found[0])


def is_better(
    rows: ProgramReading, other: ProgramReading | None, unused: Sequence[Gap], sheets: Collection[str]
) -> bool:
    """Return whether a program of rows says more surely what a question asks for than another one.

    ``unused`` are the question's words that the other one leaves out, ``sheets`` the user's tables.
    """
    if other is None or not other.steps:
        return True
    # Names, periods and a statistic of the question and nothing else: that is read by its words already.
    if other.confidence == other.link_confidence == 1.0 and not unused:
        return False
    is_own = all(one.entity in sheets for one in other.series)
    return not rows.assumptions or not is_own or bool(unused) or other.confidence < LIKELY


def choose_rows(asked: Asked, table: RowTable, compare: Compare | None) -> Choice | None:
    """Return the rows of a table that a question is about, with what is measured; None where it says too little."""
    conditions = list(find_text_conditions(asked, table))
    columns = list_dated(asked, table)
    rows = frozenset(range(table.count)).intersection(*(one.rows for one in conditions))
    if asked.periods and not columns:
        days = find_day_condition(asked, table, rows)
        if days is None:
            return None
        conditions.append(days)
        rows = days.rows
    if not (conditions and rows):
        return None
    title = frozenset(split_terms(JOINTS.sub(" ", FILE_END.sub(" ", table.title))))
    taken = title.union(*(one.terms for one in conditions)) & asked.content
    measure, named = choose_measure(asked, columns or table.list_kind(Kind.NUMBER), taken, compare)
    if measure is None:
        return None
    # A row that lacks the number stays, so that a sum over the others says so.
    rows -= table.find_totals(measure) | table.heading_rows
    filled = frozenset(row for row in rows if measure.cells[row] is not None)
    is_extreme = asked.statistic in (MAX, MIN)
    label = find_label(table, filled, asked) if is_extreme else ""
    # Several values are no answer without a statistic, and one has no mean.
    is_open = len(filled) > 1 if not asked.statistic else asked.statistic == MEAN and len(filled) < LEAST_PARTS
    if not filled or len(rows) > MOST_PICKED or is_open or (is_extreme and not label):
        return None
    # What the rows are called stands above their first column: "Lot".
    called = [one.name for one in table.list_kind(Kind.TEXT)[:1]]
    kinds = frozenset(
        term for name in (label, *called, *(one.column for one in conditions)) for term in split_terms(name)
    )
    taken |= named | (kinds & asked.content)
    left = tuple(dict.fromkeys(term for term in asked.terms if term in asked.content - taken))
    picked = tuple(sorted(rows))
    return Choice(table, measure, label, picked, tuple(conditions), taken, left, bool(asked.periods), bool(named))


def list_dated(asked: Asked, table: RowTable) -> list[RowColumn]:
    """Return the columns of numbers whose names say the one period of a question; none without such."""
    if len(asked.periods) != 1:
        return []
    dated = ((one, read_column_period(one.name)) for one in table.list_kind(Kind.NUMBER))
    return [one for one, said in dated if said is not None and (said.start, said.end) == asked.periods[0]]


def choose_measure(
    asked: Asked, columns: Sequence[RowColumn], taken: frozenset[str], compare: Compare | None
) -> tuple[RowColumn | None, frozenset[str]]:
    """Return the column of numbers that a question is about, and the words that name it; None for no or several.

    The one with most of its words in the question, the only one, or the one that its other words are nearest to.
    """
    names = [frozenset(split_terms(name_measure(one))) for one in columns]
    said = frozenset(asked.terms)
    shared = [len(name & said) / len(name) if name else 0.0 for name in names]
    best = max(shared, default=0.0)
    if best > 0:
        at = shared.index(best)
        return (columns[at], names[at] & asked.content) if shared.count(best) == 1 else (None, frozenset())
    # Ratios have no sum; the one that is asked for would be named.
    fitting = [one for one in columns if asked.statistic != SUM or not is_ratio(one)]
    if len(fitting) == 1:
        return fitting[0], frozenset()
    rest = " ".join(term for term in asked.terms if term in asked.content - taken)
    if compare is None or not rest or not fitting:
        return None, frozenset()
    rated = list(compare(rest, [name_measure(one) for one in fitting]))
    first, second = sorted(rated, reverse=True)[:2]
    return (fitting[rated.index(first)] if first - second >= MARGIN else None), frozenset()


def name_measure(column: RowColumn) -> str:
    """Return the name of a column without its period and its unit."""
    said = read_column_period(column.name)
    return strip_unit(said.rest if said else column.name)


def is_ratio(column: RowColumn) -> bool:
    """Return whether the values of a column are so much of one thing for another one: "%", "EUR/t", "Rate per EUR"."""
    return RATIO.search(f"{column.name} {column.unit}") is not None


def find_label(table: RowTable, rows: frozenset[int], asked: Asked) -> str:
    """Return the column of texts that tells some rows apart: the one that the question names, or the first one."""
    found = []
    for one in table.list_kind(Kind.TEXT):
        cells = [one.cells[row] for row in rows]
        if None not in cells and len(set(cells)) == len(cells):
            found.append(one.name)
    named = [name for name in found if frozenset(split_terms(name)) & asked.content]
    return next(iter(named or found), "")


def quote_left(question: str, left: Sequence[str]) -> str:
    """Return the words of a question that are left, as it writes them."""
    words = [word.strip(ENDS) for word in question.split() if not {*split_terms(word)}.isdisjoint(left)]
    return " ".join(words)


def write_program(asked: Asked, choice: Choice) -> ProgramReading:
    """Return a choice of rows as a program with one step."""
    is_zh = is_chinese(asked.text)
    said = [f"{one.column}: {one.words}" if one.column else one.words for one in choice.conditions]
    picked = f"f.pick(s1, {('，' if is_zh else ', ').join(said)!r}, {', '.join(map(str, choice.rows))})"
    function = FUNCTIONS[asked.statistic]
    step = f"f.{function}({picked})"
    if choice.label:
        step = f"f.{function}(f.by_label({picked}, {choice.label!r}), 1)"
    name = choice.measure.name
    columns = tuple(dict.fromkeys([choice.measure.name, *(one.column for one in choice.conditions if one.column)]))
    open_words = quote_left(asked.text, choice.left)
    guessed = [Assumption(one.words, (one.column,)) for one in choice.conditions if not one.is_said]
    assumed = (*([Assumption(open_words, columns)] if choice.left else guessed),)
    confidence = LIKELY if assumed else 1.0
    series = (NamedSeries("s1", choice.table.sheet_id, choice.measure.name, name, is_rows=True),)
    words = (*(one.words for one in choice.conditions), name)
    return ProgramReading("", CALCULATION, confidence, 1.0, (step,), series, (), words, assumed)
