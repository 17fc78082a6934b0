"""Access to the bundled tables and documents for the generators: DuckDB over parquet, JSON lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from fathom.core.errors import CorruptData, NotFound
from fathom.domain.text.scripts import HAN

COMPANY = re.compile(r"(.+) \(([A-Z]+)\): company profile")
CHINESE_NAME = re.compile(rf"([{HAN}]+?)（([A-Z]+)）")
# Words that stand before a name in the note's lists: "摩根大通（JPM）和美国银行（BAC）".
JOINING = re.compile(r"^[和、，]+")


@dataclass(frozen=True)
class Document:
    """A document of the bundled corpus."""

    id: str
    title: str
    text: str
    kind: str
    language: str


@dataclass(frozen=True)
class Company:
    """A company with a profile and prices, named in both languages."""

    ticker: str
    english: str
    chinese: str
    profile: Document

    def name(self, language: str) -> str:
        return self.chinese if language == "zh" else self.english

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names accepted as an answer."""
        return (self.english, self.ticker, self.chinese)


class Bundle:
    """The data built by ``fathom data``: ``tables`` with observations.parquet, ``corpus`` with documents.jsonl.

    Raises ``NotFound`` naming a missing file, ``CorruptData`` for documents that lack a required field.
    """

    def __init__(self, folder: Path) -> None:
        observations = folder / "tables" / "observations.parquet"
        documents = folder / "corpus" / "documents.jsonl"
        for file in (observations, documents):
            if not file.is_file():
                raise NotFound("file", f"{file}; `fathom data` builds it")
        lines = documents.read_text(encoding="utf-8").splitlines()
        self.documents = tuple(read_document(line) for line in lines)
        # One thread: sums of floating-point numbers depend on their order, and a seed gives the same tasks everywhere.
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        self._connection.execute(
            "create table observations as select entity, indicator, date, value"
            f" from read_parquet('{observations}') where value is not null"
        )

    def close(self) -> None:
        self._connection.close()

    def row(self, sql: str, *parameters: Any) -> tuple[Any, ...]:
        """Return the query's first row; raises ``NotFound`` when there is none."""
        found = self._connection.execute(sql, parameters).fetchone()
        if found is None:
            raise NotFound("row", sql[:80])
        return tuple(found)

    def number(self, sql: str, *parameters: Any) -> float:
        """Return the first cell as a number; nan when it is null."""
        value = self.row(sql, *parameters)[0]
        return float("nan") if value is None else float(value)

    def days(self, entity: str, indicator: str) -> list[date]:
        """Return the days that have a value, in order."""
        sql = "select date from observations where entity = ? and indicator = ? order by 1"
        return [row[0] for row in self._connection.execute(sql, [entity, indicator]).fetchall()]

    @cached_property
    def companies(self) -> tuple[Company, ...]:
        """Return the companies that have a profile and a Chinese name in the notes, by ticker."""
        chinese = {
            ticker: JOINING.sub("", name)
            for document in self.documents
            if document.kind == "note" and document.language == "zh"
            for name, ticker in CHINESE_NAME.findall(document.text)
        }
        found = []
        for document in self.documents:
            match = COMPANY.fullmatch(document.title)
            # Every question is written in both languages, which takes both names.
            if match and match.group(2) in chinese:
                found.append(Company(match.group(2), match.group(1), chinese[match.group(2)], document))
        # Draws are by position: the order must not follow that of the files.
        return tuple(sorted(found, key=lambda company: company.ticker))


def read_document(line: str) -> Document:
    """Parse one line of the corpus; raises ``CorruptData``."""
    try:
        row = json.loads(line)
        return Document(row["id"], row["title"], row["text"], row["type"], row["language"])
    except (ValueError, KeyError) as error:
        raise CorruptData("documents.jsonl", f"a line is no document: {error!r}") from error
