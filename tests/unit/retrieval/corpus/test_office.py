"""Word, PowerPoint and mail as their programs write them: what is read, and what is reported."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime

import docx
import pytest
from docx.oxml import parse_xml

from fathom.services.retrieval.corpus.parse import Limits, ParsedDocument, ParseIssue, guess_media_type, parse
from tests.support.bombs import make_archive_bomb
from tests.support.files.office import save, write_docx, write_mail, write_pptx

WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(data: bytes, name: str, limits: Limits | None = None) -> tuple[list[ParsedDocument], list[ParseIssue]]:
    found = list(parse(data, guess_media_type(name), name, limits))
    documents = [item for item in found if isinstance(item, ParsedDocument)]
    return documents, [item for item in found if isinstance(item, ParseIssue)]


def test_word_gives_headings_paragraphs_and_tables_in_order() -> None:
    data = write_docx(
        ["# Travel", "Flights are booked by the office.", "预算为三百万元。"], [["City", "Cap"], ["Rome", "180"]]
    )
    (document,), issues = read(data, "policy.docx")
    assert document.text.splitlines() == [
        "Travel", "Flights are booked by the office.", "预算为三百万元。", "City | Cap", "Rome | 180",
    ]  # fmt: skip
    assert not issues


def test_word_gives_what_tracked_changes_inserted_and_not_what_they_deleted() -> None:
    file = docx.Document()
    paragraph = file.add_paragraph("The cap is ")
    for tag, text in (("del", "<w:delText>90</w:delText>"), ("ins", "<w:t>120</w:t>")):
        paragraph._p.append(parse_xml(f'<w:{tag} {WORDS} w:id="1" w:author="A"><w:r>{text}</w:r></w:{tag}>'))
    (document,), _ = read(save(file), "draft.docx")
    assert document.text == "The cap is 120"


def test_a_merged_cell_of_a_word_table_comes_once() -> None:
    file = docx.Document()
    grid = file.add_table(2, 3)
    grid.cell(0, 0).merge(grid.cell(0, 2)).text = "Costs by city"
    for cell, text in zip(grid.rows[1].cells, ("Rome", "Oslo", "Bern"), strict=True):
        cell.text = text
    (document,), _ = read(save(file), "costs.docx")
    assert document.text.splitlines() == ["Costs by city", "Rome | Oslo | Bern"]


def test_slides_are_pages_with_their_notes_and_an_empty_one_is_reported() -> None:
    data = write_pptx([("Plan", "Open in Oslo", "Ask legal first"), ("", "", ""), ("Cost", "4.2 million", "")])
    (document,), issues = read(data, "plan.pptx")
    pages = [document.text[start:].split("\n\n")[0] for start in document.page_starts]
    assert pages == ["Plan\nOpen in Oslo\nAsk legal first", "", "Cost\n4.2 million"]
    assert [(issue.place, issue.lost) for issue in issues] == [("slide 2", False)]


def test_a_mail_is_published_when_it_was_sent_and_its_attachment_is_reported() -> None:
    data = write_mail("Rate cut", "We cut to 3.25 %.", "Mon, 02 Nov 2026 09:00:00 +0100", attachment="terms.pdf")
    (document,), issues = read(data, "note.eml")
    assert (document.title, document.published) == ("Rate cut", datetime(2026, 11, 2, 8, tzinfo=UTC))
    assert "From: Ana <ana@firm.example>" in document.text
    assert document.text.endswith("We cut to 3.25 %.")
    assert "terms.pdf" in issues[0].reason
    assert not issues[0].lost


def test_a_mail_of_html_alone_gives_its_text() -> None:
    html = "<html><body><p>The dividend is <b>0.48</b> per share, paid in June.</p></body></html>"
    (document,), _ = read(write_mail("Dividend", "", "Mon, 02 Nov 2026 09:00:00 +0000", html), "html.eml")
    assert "0.48" in document.text
    assert "<b>" not in document.text


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.eml"])
@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02 nothing", b"\xd0\xcf\x11\xe0 old or locked"])
def test_what_is_no_such_file_is_one_issue(name: str, data: bytes) -> None:
    documents, issues = read(data, name)
    assert not documents
    assert [issue.place for issue in issues] == ["file"]


@pytest.mark.parametrize(("name", "data"), [("a.docx", write_docx(["Text"])), ("a.pptx", write_pptx([("A", "b", "")]))])
def test_damaged_and_bomb_like_archives_are_issues(name: str, data: bytes) -> None:
    for broken in (data[: len(data) // 2], data[: len(data) // 2] + bytes(500) + data[len(data) // 2 + 500 :]):
        documents, issues = read(broken, name)
        assert documents or issues
    packed = io.BytesIO(data)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.xml", b"0" * 3_000_000)
    documents, issues = read(packed.getvalue(), name, Limits(unpacked_bytes=2_000_000))
    assert not documents
    assert "unpacks to" in issues[0].reason


def test_a_bomb_of_a_gigabyte_is_refused_by_the_limits_that_hold_for_users() -> None:
    documents, issues = read(make_archive_bomb("word/document.xml", 1 << 30), "a.docx")
    assert not documents
    assert "unpacks to 1,073,741,824 bytes" in issues[0].reason
