"""Invented rows for databases whose content their authors have not published, so that statements can be run.

What a statement compares with stands in some rows, and what it joins has common values; otherwise nearly every result
would be empty, and all empty results are equal. Several such databases, drawn by seed, tell statements apart that one
of them gives the same result.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.domain.text.terms import YEAR

# Rows of a table, and how many things its names name: few, so that tables that are joined meet.
ROWS, THINGS = 40, 6
LITERAL = re.compile(r"'((?:[^']|'')*)'|\"([^\"]*)\"|(?<![\w.])(\d+(?:\.\d+)?)")
# Forms of a date are no values.
FORM = re.compile(r"strftime\(\s*'[^']*'", re.IGNORECASE)
DAY = re.compile(r"(?:19|20)\d\d-\d\d(?:-\d\d)?")


@dataclass(frozen=True)
class Column:
    """Column of a table: its name, its words in the question's language, and what it holds."""

    name: str
    words: str
    kind: str
    """``integer``, ``real``, ``text`` or ``day``."""


Tables = Mapping[str, Sequence[Column]]


@dataclass(frozen=True)
class Literals:
    """Values that a statement compares with, by what they may be."""

    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    days: tuple[str, ...]


def find_literals(statement: str) -> Literals:
    """Return the values in a statement: texts without the signs of LIKE, numbers, and days of the years it names."""
    texts, numbers, days = list[str](), list[float](), list[str]()
    for single, double, number in LITERAL.findall(FORM.sub("strftime(", statement)):
        text = (single or double).replace("''", "'").strip("%")
        if number:
            numbers.append(float(number))
        elif DAY.match(text):
            # A month is compared with by its days.
            days.append(text if len(text) > 7 else f"{text}-15")
        elif YEAR.fullmatch(text):
            # Two days of the year: a statement may want its end, or any of it.
            days += [f"{text}-06-30", f"{text}-12-31"]
        elif text:
            texts.append(text)
    return Literals(tuple(texts), tuple(numbers), tuple(days))


def invent_database(tables: Tables, statement: str, seed: int) -> sqlite3.Connection:
    """Return a database in memory with rows for a statement."""
    draw, literals = random.Random(seed), find_literals(statement)  # noqa: S311 - can be repeated
    # Statements run in threads of their own, one after another.
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    for name, columns in tables.items():
        connection.execute(f"create table {quote(name)} ({', '.join(quote(column.name) for column in columns)})")
        rows = [[invent_value(column, literals, draw) for column in columns] for _ in range(ROWS)]
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"insert into {quote(name)} values ({marks})", rows)  # noqa: S608 - quoted
    return connection


def quote(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def invent_value(column: Column, literals: Literals, draw: random.Random) -> str | float | int:
    """Return a value of a column, about half of the time one that the statement compares with, or near it."""
    is_literal = draw.random() < 0.5
    # The other half of the values keeps a condition from holding in every row.
    if column.kind == "day":
        return draw.choice(literals.days) if literals.days and is_literal else invent_day(draw)
    if column.kind == "text":
        # A column that is joined has one name in both tables, and so the same things.
        things = [f"{column.words}{number}" for number in range(1, THINGS + 1)]
        return draw.choice(literals.texts) if literals.texts and is_literal else draw.choice(things)
    # Beside the number as well: "above 10" and "at least 10" differ nowhere else.
    if literals.numbers and is_literal:
        near = draw.choice(literals.numbers) + draw.choice((-1, 0, 1))
        return round(near) if column.kind == "integer" else near
    return draw.randint(1, THINGS) if column.kind == "integer" else round(draw.uniform(-100, 100), 2)


def invent_day(draw: random.Random) -> str:
    """Return a day of the last two decades."""
    return f"{draw.randint(2005, 2022)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
