"""Analysts' reports: read from front matter and columns, found by house, rating and day, in both languages."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fathom.core import errors
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.parse import Limits, ParsedDocument, ParseIssue, parse
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import Filter
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore
from tests.unit.retrieval.corpus.test_snapshots import ingest

MARKDOWN = """---
title: Apple, still early
house: North Harbour
rating: Buy
date: 2024-03-01
entities: [AAPL]
---
Margins of services go on rising, and buybacks with them.
"""
CSV = """标题,日期,机构,评级,内容
苹果首次覆盖,2024-05-06,东湖证券,买入,服务收入占比提升，利润率继续上行。
苹果点评,2024-06-01,东湖证券,中性,"估值已高，服务收入增速放缓。"
"""
NOTE = {"title": "note", "text": "Services carry the margins of Apple.", "published": "2024-04-01"}


async def open_engine(folder: Path) -> Engine:
    config = Config(corpus_dir=None, corpus_name="main", index_dir=folder)
    engine = Engine(config, MemoryStore(), list_parsers())
    await engine.start()
    # First what is no report, so that the columns of reports are added to a corpus without them.
    await ingest(engine, Chunk(json.dumps(NOTE).encode(), "application/jsonl", "n.jsonl"))
    return engine


async def find(engine: Engine, query: str, allowed: Filter) -> list[str]:
    (result,) = (await engine.rank([query], 10, allowed)).results
    assert not isinstance(result, errors.FathomError)
    return sorted(document.title for document, _ in result)


async def test_reports_are_found_by_house_rating_and_day(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path)
    await ingest(engine, Chunk(MARKDOWN.encode(), "text/markdown", "apple.md"))
    done = await ingest(engine, Chunk(CSV.encode(), "text/csv", "reports.csv"))
    await engine.corpora.activate("main", done.snapshot)
    lake = frozenset({"东湖证券"})
    for query, allowed, expected in (
        ("margins services", Filter(), ["Apple, still early", "note"]),
        ("margins services", Filter(houses=frozenset({"north harbour"})), ["Apple, still early"]),
        ("margins services", Filter(ratings=frozenset({"BUY"})), ["Apple, still early"]),
        ("margins services", Filter(ratings=frozenset({"sell"})), []),
        ("服务收入", Filter(houses=lake), ["苹果点评", "苹果首次覆盖"]),
        ("服务收入", Filter(houses=lake, ratings=frozenset({"买入", "增持"})), ["苹果首次覆盖"]),
        ("服务收入", Filter(houses=lake, after=datetime(2024, 6, 1, tzinfo=UTC)), ["苹果点评"]),
        # By the name of its house a report is found without any filter, too.
        ("North Harbour", Filter(), ["Apple, still early"]),
    ):
        assert await find(engine, query, allowed) == expected, (query, allowed)
    (found,) = (await engine.search(["buybacks"], 1))[1]
    assert not isinstance(found, errors.FathomError)
    report = found[0].document
    assert (report.house, report.rating, report.published) == ("North Harbour", "Buy", datetime(2024, 3, 1, tzinfo=UTC))
    assert (report.entities, report.key) == (("AAPL",), "apple.md")
    assert "house" not in report.text
    await engine.close()


async def test_a_corpus_without_reports_has_none_of_a_house(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path)
    assert await find(engine, "margins", Filter()) == ["note"]
    assert await find(engine, "margins", Filter(houses=frozenset({"North Harbour"}))) == []
    await engine.close()


@pytest.mark.parametrize(
    ("text", "body", "reasons"),
    [
        ("---\nA paragraph between rules.\n---\nMore.", "---\nA paragraph between rules.\n---\nMore.", []),
        ("---\nhouse: [unclosed\n---\nMore.", "---\nhouse: [unclosed\n---\nMore.", []),
        ("---\ndate: soon\nhouse: X\n---\nMore.", "More.", ["field published: 'soon' is no time"]),
    ],
)
def test_front_matter_that_is_none_stays_text_and_a_bad_day_is_reported(
    text: str, body: str, reasons: list[str]
) -> None:
    *issues, document = parse(text.encode(), "text/markdown", "a.md")
    assert isinstance(document, ParsedDocument)
    assert document.text == body
    assert [issue.reason for issue in issues if isinstance(issue, ParseIssue)] == reasons


def test_a_csv_without_texts_and_one_over_the_limit_are_named() -> None:
    (issue,) = parse(b"year,revenue\n2024,3\n", "text/csv", "a.csv")
    assert isinstance(issue, ParseIssue)
    assert "no column of text" in issue.reason
    assert "year, revenue" in issue.reason
    first, stopped = parse(b"text\nOne.\nTwo.\n", "text/csv", "a.csv", Limits(documents=1))
    assert isinstance(first, ParsedDocument)
    assert (first.text, first.place) == ("One.", "row 2")
    assert isinstance(stopped, ParseIssue)
    assert "limit of 1 documents" in stopped.reason


def test_a_csv_has_long_cells_other_separators_and_rows_that_do_not_fit() -> None:
    limit = csv.field_size_limit()
    report = "Margins rise. " * 20_000
    assert len(report) > limit
    text = f'Date;House;Text\n2024-01-02;X;"{report}\nAnd more."\n2024-01-03;Y\n\n2024-01-04;Z;Last, not least.\n'
    ragged, long, last = parse(text.encode(), "text/csv", "a.csv")
    assert isinstance(ragged, ParseIssue)
    assert (ragged.place, ragged.reason) == ("row 3", "has 2 cells where the header has 3")
    assert isinstance(long, ParsedDocument)
    assert isinstance(last, ParsedDocument)
    assert (long.text, long.house) == (f"{report}\nAnd more.", "X")
    assert (last.text, last.house, last.place) == ("Last, not least.", "Z", "row 4")
    assert last.published == datetime(2024, 1, 4, tzinfo=UTC)
    # The limit of the standard library's reader is one of the process, which is not ours to change.
    assert csv.field_size_limit() == limit
    assert list(parse(b"text", "text/csv", "a.csv")) == []


@pytest.mark.parametrize("field", ["source", "type", "language", "url", "house", "rating", "published", "entities"])
def test_a_field_that_cannot_be_read_costs_neither_its_document_nor_the_rest(field: str) -> None:
    good = {"text": "One.", "house": "X", "published": "2024-01-02"}
    rows = [{**good, field: {"a": 1}}, {**good, "text": "Two."}]
    data = b"\n".join(json.dumps(row).encode() for row in rows)
    issue, *documents = parse(data, "application/jsonl", "a.jsonl")
    assert isinstance(issue, ParseIssue)
    assert (issue.place, issue.lost) == ("line 1", False)
    assert field in issue.reason
    assert [item.text for item in documents if isinstance(item, ParsedDocument)] == ["One.", "Two."]
    for item in documents:
        assert isinstance(item, ParsedDocument)
        assert item.house == ("" if field == "house" and item.text == "One." else "X")
