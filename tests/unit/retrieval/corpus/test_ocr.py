"""Scanned pages are read with the extra "ocr", within limits, and say so; without it the message names it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.core.errors import MissingExtra
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus import whole_files
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.parse import ParsedDocument, ParseIssue, parse, pdf
from fathom.services.retrieval.corpus.parse.ocr import Line, OcrLimits, RecognizedPage, recognize_pages, write_lines
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import Filter, parse_document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.server import document_to_proto
from fathom.transport.store.memory import MemoryStore
from tests.support.files.office import write_pdf
from tests.support.files.scans import write_scan
from tests.unit.retrieval.corpus.ingesting import bring

PDF = "application/pdf"
ENGLISH = ("Capital policy of Harbour Tools", "The hurdle rate for new plants is 11.5 percent.")
CHINESE = ("海港工具公司年度报告", "公司2024年营业收入为48.12亿元，同比增长12.3%。")


@asynccontextmanager
async def open_engine(folder: Path) -> AsyncIterator[Engine]:
    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=folder), MemoryStore(), list_parsers())
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.mark.slow
async def test_scanned_pages_in_both_languages_are_found_and_quoted_with_page_and_confidence(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        done = await bring(engine, Chunk(write_scan([ENGLISH, CHINESE]), PDF, "scan.pdf"))
        said = [issue.message.partition(" by OCR, ")[0] for issue in done.issues]
        assert (said, done.rejected) == (["page 1: was read", "page 2: was read"], 0)
        for query, page, figure in (
            ("hurdle rate for plants", 1, "11.5 percent"),
            ("营业收入同比增长", 2, "48.12亿元"),
        ):
            _, (hits,) = await engine.search([query], 1, Filter(), corpus="main")
            (found,) = (hit.document for hit in hits)  # type: ignore[union-attr]
            assert figure in found.text
            assert (found.page, found.source) == (page, "scan.pdf")
            assert document_to_proto(found, found.text).ocr_confidence == found.ocr > 0.9
            assert parse_document(found.to_row()) == found


@pytest.mark.slow
def test_pages_beyond_the_limits_and_pictures_without_text_have_their_reasons() -> None:
    file = write_scan([(), ENGLISH[:1], ENGLISH[:1]])
    read = recognize_pages(file, [1, 2, 3], OcrLimits(pages=2))
    assert [bool(read[page].text) for page in (1, 2, 3)] == [False, True, False]
    assert (read[1].reason, read[3].reason) == (
        "is a picture in which OCR finds no text that is sure",
        "OCR reads 2 pages of a file",
    )
    assert recognize_pages(file, [2], OcrLimits(seconds=-1))[2].reason == "the -1 s of OCR for one file are spent"
    # A hundred times fewer pixels: too coarse to read, and no error.
    assert recognize_pages(file, [2], OcrLimits(pixels=4_000))[2].text == ""
    assert "OCR failed" in recognize_pages(file, [9], OcrLimits())[9].reason


@pytest.mark.slow
async def test_a_recognition_that_ends_its_process_costs_only_the_scanned_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Too little to load a model.
    monkeypatch.setattr(whole_files, "OCR_MEMORY_BYTES", 64 << 20)
    async with open_engine(tmp_path) as engine:
        done = await bring(engine, Chunk(write_pdf(["Rent is 4,200 a month.", ""]), PDF, "lease.pdf"))
        assert done.added == 1
        (issue,) = done.issues
        assert issue.message.startswith("page 2: holds no text (a scan or a figure); OCR failed: ")


async def test_recognition_is_switched_off_by_a_setting(empty_engine: Engine) -> None:
    done = await bring(empty_engine, Chunk(write_pdf(["Rent is 4,200 a month.", ""]), PDF, "lease.pdf"))
    assert [issue.message for issue in done.issues] == [
        "page 2: holds no text (a scan or a figure); OCR is switched off (retrieval.ocr_pages)"
    ]


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_pdf(["Rent is 4,200 a month.", ""])
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setattr(pdf, "has_ocr", lambda: False)
    issue, document = parse(file, PDF, "lease.pdf")
    assert isinstance(issue, ParseIssue)
    assert issue.scan == 2
    assert issue.reason.endswith("scans are read with the extra 'ocr' (pip install 'fathom[ocr]')")
    assert isinstance(document, ParsedDocument)
    assert not document.ocr
    with pytest.raises(MissingExtra, match=r"fathom\[ocr\]"):
        recognize_pages(file, [2], OcrLimits())


def test_what_was_recognized_stands_on_its_page_and_unsure_lines_are_counted() -> None:
    file = write_pdf(["Rent is 4,200 a month.", "", "Term ends in 2031."])
    recognized = {2: RecognizedPage("Deposit: 8,400.", 0.971, 2)}
    issue, document = parse(file, PDF, "lease.pdf", recognized=recognized)
    assert str(issue) == "lease.pdf, page 2: was read by OCR, 97% sure; 2 lines that it was unsure of are left out"
    assert isinstance(document, ParsedDocument)
    assert document.text.split("\n\n") == ["Rent is 4,200 a month.", "Deposit: 8,400.", "Term ends in 2031."]
    assert document.ocr == {2: 0.971}


def test_cells_of_one_height_are_one_line_from_left_to_right() -> None:
    cells = [("4,812", 300, 52), ("Revenue", 20, 50), ("Borrowings", 20, 90), ("(80.5)", 300, 88)]
    lines = [Line(text, 0.99, left, top, top + 20) for text, left, top in cells]
    assert write_lines(lines) == "Revenue  4,812\nBorrowings  (80.5)"
    assert write_lines([]) == ""
