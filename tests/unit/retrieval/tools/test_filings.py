"""The bench that finds pages of annual filings: its questions' pages, and what a page's rank is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.retrieval.filings import compare, draw, keep_best, make_queries, run
from tests.support.files.office import write_pdf

PAGES = {
    "ACME_2020_10K": ["Letter to the shareholders of the company.", "Purchases of property and equipment were 12."],
    "BOREAL_2021_10K": ["Purchases of nothing at all.", "Legal proceedings about a dam."],
}


def make_row(ident: str, question: str, *proofs: tuple[str, int]) -> dict[str, object]:
    evidence = [{"doc_name": name, "evidence_page_num": page} for name, page in proofs]
    return {"financebench_id": ident, "question": question, "evidence": evidence}


def test_questions_keep_the_pages_counted_from_one_of_the_filings_that_are_there() -> None:
    rows = [make_row("a", "What?", ("ACME", 0), ("ACME", 7)), make_row("b", "Why?", ("ACME", 0), ("OTHER", 1))]
    assert [(query.id, query.relevant) for query in make_queries(rows, ["ACME"])] == [("a", {"ACME#1": 1, "ACME#8": 1})]


def test_a_page_is_where_its_first_passage_is() -> None:
    pages = {"one": "ACME#1", "two": "ACME#2", "three": "ACME#1"}
    assert keep_best({"two": 3.0, "three": 2.0, "one": 1.0}, pages) == {"ACME#2": 3.0, "ACME#1": 2.0}


def test_a_gain_is_counted_question_by_question() -> None:
    queries = make_queries([make_row("a", "What?", ("ACME", 0)), make_row("b", "Why?", ("ACME", 1))], ["ACME"])
    first = {"a": {"ACME#1": 1.0}, "b": {"ACME#2": 1.0}}
    assert compare(queries, first, first) == (0.0, 0.0, 0.0)
    mean, low, high = compare(queries, first, {"a": {"ACME#1": 1.0}, "b": {"ACME#7": 1.0}})
    assert (mean, low, high) == (0.5, 0.0, 1.0)


def test_the_same_filings_are_drawn_again() -> None:
    names = [str(number) for number in range(40)]
    assert draw(names, 5) == draw(names, 5) != names[:5]
    assert draw(names, 0) == draw(names, 99) == names


async def test_pages_are_found_in_files_as_uploads_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FATHOM_BENCH_ENCODER", "none")
    for folder in ("data", "pdfs"):
        (tmp_path / folder).mkdir()
    for name, pages in PAGES.items():
        (tmp_path / "pdfs" / f"{name}.pdf").write_bytes(write_pdf(pages, name))
    rows = [
        make_row("a", "What were the purchases of property and equipment?", ("ACME_2020_10K", 1)),
        make_row("b", "Which legal proceedings are there about a dam?", ("BOREAL_2021_10K", 1)),
        make_row("c", "Whose filing is absent?", ("CORVID_2019_10K", 3)),
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "data" / "financebench_open_source.jsonl").write_text(lines, encoding="utf-8")
    await run(f"{tmp_path}/")
    printed = capsys.readouterr().out
    assert "2 of 3 filings (1 absent): 4 pages with text, 4 passages" in printed
    assert "2 questions, 0 of their pages without text" in printed
    assert "words   nDCG@10 100.0" in printed
