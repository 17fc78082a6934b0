"""The rows of a table that a question is about: by texts of their cells, by headings above them, and by days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from fathom.services.datafetch.parser import lexicon
from fathom.services.datafetch.programs.own_words.naming import split_terms
from fathom.services.datafetch.programs.rows.table import Kind, RowColumn, RowTable, is_within

HEADING = ""


@dataclass(frozen=True)
class Asked:
    """A question: its words as they are compared, without its periods and what asks for a statistic, and its periods.

    ``terms`` are in order with function words, ``content`` those that say something; ``ids`` are canonical values of
    names in it ("PLN") with their words. ``period_words`` are as it says them.
    """

    text: str
    terms: tuple[str, ...]
    content: frozenset[str]
    periods: tuple[tuple[date, date], ...] = ()
    period_words: str = ""
    ids: Mapping[str, frozenset[str]] | None = None
    statistic: str = ""


@dataclass(frozen=True)
class Condition:
    """Rows that meet what a question says: of which column, in which words, and the question's terms for it.

    ``is_said`` says that the column is no guess: a loan "in 2028" may begin or end then.
    """

    column: str
    words: str
    rows: frozenset[int]
    terms: frozenset[str]
    is_said: bool = True


def find_text_conditions(asked: Asked, table: RowTable) -> Iterator[Condition]:
    """Yield what the question says of texts of the rows: a cell's text stands in it, or the heading above the rows."""
    for column in table.list_kind(Kind.TEXT):
        cells = [None if row in table.heading_rows else cell for row, cell in enumerate(column.cells)]
        yield from match_texts(asked, column.name, cells)
    yield from match_texts(asked, HEADING, table.headings)


def match_texts(asked: Asked, name: str, cells: Sequence[str | None]) -> Iterator[Condition]:
    """Yield the condition that the question has of the texts of a column, if any: one of several alternatives."""
    found: dict[str, frozenset[str]] = {}
    for text in dict.fromkeys(cells):
        terms = frozenset(split_terms(text)) if text else frozenset()
        by_id = (asked.ids or {}).get(text or "", frozenset())
        # Function words are in any question: a cell "no" or "all" is no condition of its own.
        if text and terms <= asked.content and terms - lexicon.list_words("function_words"):
            found[text] = terms
        elif text and by_id:
            found[text] = by_id
    # "Oakhythe House" is no other house; of two equal names both are meant.
    kept = {text for text, terms in found.items() if not any(terms < other for other in found.values())}
    rows = frozenset(row for row, text in enumerate(cells) if text in kept)
    if rows:
        terms = frozenset(term for text in kept for term in found[text])
        yield Condition(name, ", ".join(text for text in found if text in kept), rows, terms)


def find_day_condition(asked: Asked, table: RowTable, rows: frozenset[int]) -> Condition | None:
    """Return what the question says of the days of some rows; None where no one column of days has what it names.

    The column that the question names, or else the only one that has such days at all.
    """
    found: list[tuple[RowColumn, frozenset[int], frozenset[str]]] = []
    # "That end in 2031" is read as one period, and names the column all the same.
    said = frozenset(split_terms(asked.text))
    for column in table.list_kind(Kind.DAY):
        meets = frozenset(row for row in rows if is_within(column.cells[row], asked.periods))
        if meets:
            found.append((column, meets, frozenset(split_terms(column.name)) & said))
    named = [one for one in found if one[2]]
    chosen = named or found
    if len(chosen) != 1:
        return None
    column, meets, terms = chosen[0]
    # In front of all others stand the days of the rows themselves.
    is_first = bool(table.columns) and column is table.columns[0]
    return Condition(column.name, asked.period_words, meets, terms, bool(terms) or is_first)
