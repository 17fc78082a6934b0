"""Tables of printed pages, whose text has blanks between the columns: their rows as cells between bars.

In "Borrowings (80.5) (76.2)" below "2031 2030" nothing but the line says which figure is whose. With bars it is a row
of a table like any other: it is quoted with the names of its columns, and the line after it is no part of its sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from fathom.domain.text.terms import YEAR

# Figures as statements print them: "1,204.5", "(80.5)", "4.1%", "1.10x", "–" for nil, "2026E", a note's number.
FIGURE_AT_END = re.compile(r"(?:^|\s)([-–—]|[(\[]?[-−+]?[$€£¥]?\d[\d.,']*[%A-Za-z]?[)\]]?)\s*$")
# Sentences end in figures, too; what a row is called is shorter than they are.
MOST_NAME_CHARS = 80
# Fewer lines that end in figures are chance.
FEWEST_ROWS, FEWEST_FIGURES = 3, 2


def mark_tables(text: str) -> str:
    """Return a text whose tables of figures have bars between their cells; all other lines stay as they are."""
    lines = text.split("\n")
    cells = [split_row(line) for line in lines]
    marked: list[str] = []
    for is_row, places in groupby(range(len(lines)), key=lambda place: len(cells[place]) > 1):
        run = list(places)
        is_table = is_row and is_of_figures([cells[place] for place in run])
        marked += write_rows([cells[place] for place in run]) if is_table else [lines[place] for place in run]
    return "\n".join(marked)


def split_row(line: str) -> list[str]:
    """Return the name of a line and the figures at its end; the line alone where it has none or is a sentence."""
    # From the right, since names have figures, too.
    figures: list[str] = []
    rest = line.rstrip()
    while found := FIGURE_AT_END.search(rest):
        figures.append(found[1])
        rest = rest[: found.start()].rstrip()
    is_name = len(rest) <= MOST_NAME_CHARS and not rest.endswith((",", ";", "–", "—"))
    return [" ".join(rest.split()), *reversed(figures)] if figures and is_name else [line]


def is_of_figures(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether lines are the rows of one table: enough of them, most with several figures."""
    wide = sum(len(row) > FEWEST_FIGURES for row in rows)
    return len(rows) >= FEWEST_ROWS and 2 * wide > len(rows)


def write_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with bars, the figures of each at the right as they are printed."""
    # Most rows have what the table has; a few a note's number or an empty cell.
    usual = Counter(len(row) - 1 for row in rows).most_common(1)[0][0]
    parted = [join_year(row, usual) for row in rows]
    width = max(map(len, parted))
    for name, *figures in parted:
        yield " | ".join([name, *[""] * (width - 1 - len(figures)), *figures]).strip()


def join_year(row: Sequence[str], usual: int) -> Sequence[str]:
    """Return a row that has a figure too many, the year of its name ("Bond, due 2034"), with it in the name."""
    name, *figures = row
    return [f"{name} {figures[0]}", *figures[1:]] if len(figures) > usual and YEAR.fullmatch(figures[0]) else row
