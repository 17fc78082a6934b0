"""Check of the references: every number is computed anew from the bundled tables or quoted from a document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData, NotFound
from fathom.core.extras import name_missing_extra
from fathom.operations.evaluation.items import DATES, DOCUMENTS, Figure, Item, find_set

if TYPE_CHECKING:
    import duckdb

MACROS = "figures.sql"
# Days and months: 2020-08-18, 2006-04, 2022年6月, 7月, 8月17日.
DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|\d{1,2}月(?:\d{1,2}日)?")
YEAR = re.compile(r"(?<![\d.,])(?:19|20)\d\d(?![\d.,]*\d)")
NUMERAL = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Problem:
    """Number of a reference that does not hold, or that nothing proves."""

    item: str
    text: str


class ReferenceData:
    """Bundled tables and documents, and an item's attachments, as queries and quotations read them.

    ``home`` is the folder that ``fathom data`` builds. Raises ``NotFound`` naming a missing file.
    """

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        with name_missing_extra():
            import duckdb

        self._folder = folder or find_set()
        observations = home / "data" / "tables" / "observations.parquet"
        corpus = home / "data" / "corpus" / "documents.jsonl"
        for file in (observations, corpus):
            if not file.is_file():
                raise NotFound("file", f"{file}; `fathom data` builds it")
        self._documents = read_corpus(corpus)
        # One thread: a sum of floating-point numbers depends on their order, and a printed digit may depend on a sum.
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config={"threads": "1"})
        self._connection.read_parquet(str(observations)).filter("value is not null").create("observations")
        self._connection.execute((self._folder / MACROS).read_text(encoding="utf-8"))
        for table in sorted((self._folder / DOCUMENTS).glob("*.csv")):
            self._connection.read_csv(str(table)).create(table.stem)

    def close(self) -> None:
        """Close the database in memory."""
        self._connection.close()

    def compute(self, sql: str) -> object:
        """Return the first cell of a query; raise ``CorruptData`` with the database's words for one that fails."""
        with name_missing_extra():
            import duckdb

        try:
            row = self._connection.execute(sql).fetchone()
        except duckdb.Error as error:
            raise CorruptData("sql", f"{sql}: {error}") from error
        return None if row is None else row[0]

    def read_document(self, name: str) -> str:
        """Return a bundled document by its id, or an attachment by its name; raise ``NotFound``."""
        path = self._folder / DOCUMENTS / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
        if name not in self._documents:
            raise NotFound("document", name)
        return self._documents[name]

    def has_column(self, table: str, column: str, first: str, last: str) -> bool:
        """Return True when the bundled tables hold values of a column within a period given by days or months."""
        sql = (
            "select count(*) from observations where entity = ? and indicator = ?"
            " and strftime(date, '%Y-%m-%d') between ? and ?"
        )
        # The end of a month is after each of its days, as strings compare.
        row = self._connection.execute(sql, [table, column, first, f"{last}~"]).fetchone()
        return row is not None and row[0] > 0


def read_corpus(path: Path) -> Mapping[str, str]:
    """Return the texts of the bundled documents by id."""
    rows: list[Any] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row["text"] for row in rows}


def check_items(items: Sequence[Item], data: ReferenceData) -> list[Problem]:
    """Return what is wrong with the references, by item."""
    return [
        Problem(item.id, text) for item in items for text in (*check_figures(item, data), *check_sources(item, data))
    ]


def check_figures(item: Item, data: ReferenceData) -> list[str]:
    """Return the figures that the data give otherwise, and the numbers of the reference that are no figure."""
    problems = []
    for figure in item.figures:
        found = compute_figure(figure, data)
        if found != figure.written:
            problems.append(f"the reference says {figure.written} {figure.unit}, and the data say {found}")
    dates = [figure.written for figure in item.figures if figure.unit in DATES]
    problems += [f"the date {written} is not in the reference" for written in dates if written not in item.reference]
    stated = Counter(list_numerals(item))
    proven = Counter(figure.written for figure in item.figures if figure.unit not in DATES)
    # A number may stand twice; that it stands at all is what needs a proof.
    problems += [f"nothing computes {written} of the reference" for written in sorted(stated.keys() - proven.keys())]
    return problems + [f"{written} is not in the reference" for written in sorted(proven.keys() - stated.keys())]


def compute_figure(figure: Figure, data: ReferenceData) -> str:
    """Return a figure as the data give it, in the form in which the reference writes it."""
    if figure.quote:
        text = " ".join(data.read_document(figure.document).split())
        is_there = figure.quote in text and figure.written in NUMERAL.findall(figure.quote)
        return figure.written if is_there else "no such words"
    value = data.compute(figure.sql)
    if value is None:
        return "nothing"
    if figure.unit in DATES:
        return str(value)[: 7 if figure.unit == "month" else 10]
    decimals = len(figure.written.partition(".")[2])
    return f"{float(str(value)):,.{decimals}f}"


def check_sources(item: Item, data: ReferenceData) -> list[str]:
    """Return the sources that are not there."""
    problems = []
    for source in item.sources:
        if source.document:
            try:
                data.read_document(source.document)
            except NotFound as error:
                problems.append(error.message)
        elif not data.has_column(source.table, source.column, source.first, source.last):
            problems.append(f"{source.table} has no {source.column} from {source.first} to {source.last}")
    return problems


def list_numerals(item: Item) -> list[str]:
    """Return the numbers of a reference as written, without dates, years and those in names."""
    text = item.reference
    for name in item.names:
        text = text.replace(name, " ")
    return NUMERAL.findall(YEAR.sub(" ", DATE.sub(" ", text)))
