"""Files → documents: what is read, what is reported, and that everything is bounded. All files are made here."""

from __future__ import annotations

import io
import json
import time
import zlib
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField, PayloadTooLarge
from fathom.services.retrieval.corpus.parse import Limits, ParsedDocument, ParseIssue, guess_media_type, parse

JSONL = "application/jsonl"
PARQUET = "application/vnd.apache.parquet"


def sorted_out(
    data: bytes, media_type: str, limits: Limits | None = None
) -> tuple[list[ParsedDocument], list[ParseIssue]]:
    found = list(parse(data, media_type, "test", limits))
    documents = [item for item in found if isinstance(item, ParsedDocument)]
    return documents, [item for item in found if isinstance(item, ParseIssue)]


def pdf(pages: list[bytes], title: str = "Annual report") -> bytes:
    """A PDF with one compressed content stream per page, Helvetica, written by hand."""
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, content in enumerate(pages):
        packed = zlib.compress(content)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * index} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        head = f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + packed + b"\nendstream")
    objects.append(f"<< /Title ({title}) /CreationDate (D:20240329120000Z) >>".encode())
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n".encode()
    return bytes(out + f"startxref\n{start}\n%%EOF".encode())


def draw_text(text: str) -> bytes:
    return f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()


def parquet(columns: dict[str, list[object]], **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def test_a_bad_line_is_reported_with_its_number_and_the_rest_is_read() -> None:
    lines = [
        '{"id": "a", "title": "One", "text": "first", "published": "2024-03-29", "sector": "bank"}',
        "",
        '{"id": "b", "text": ',
        '["not", "an", "object"]',
        '{"id": "c"}',
        '{"id": "d", "text": 5}',
        '{"id": "e", "text": "kept", "published": "soon"}',
    ]
    documents, issues = sorted_out("\n".join(lines).encode() + b"\n\xff\xfe", JSONL)
    assert [document.id for document in documents] == ["a", "e"]
    assert documents[0].published == datetime(2024, 3, 29, tzinfo=UTC)
    assert documents[0].metadata == {"sector": "bank"}
    assert documents[1].published is None
    assert [(issue.place, issue.lost) for issue in issues] == [
        ("line 3", True),
        ("line 4", True),
        ("line 5", True),
        ("line 6", True),
        ("line 7", False),
        ("line 8", True),
    ]
    assert "is not JSON" in issues[0].reason
    assert "not UTF-8" in issues[-1].reason
    assert str(issues[0]).startswith("test, line 3: ")


def test_corpora_of_search_r1_and_beir_are_read_as_they_are() -> None:
    wiki = json.dumps({"id": "7", "contents": '"Aaron"\nAaron is a prophet.'}).encode()
    beir = json.dumps({"_id": "q1", "title": "T", "text": "body\u2028goes on"}, ensure_ascii=False).encode()
    documents, issues = sorted_out(b"\xef\xbb\xbf" + wiki + b"\r\n" + beir, JSONL)
    assert not issues
    assert [(d.id, d.title, d.text) for d in documents] == [
        ("7", "Aaron", "Aaron is a prophet."),
        ("q1", "T", "body\u2028goes on"),
    ]


@pytest.mark.parametrize(
    ("spelling", "when"),
    [
        ("2025/7/27", datetime(2025, 7, 27, tzinfo=UTC)),
        ("20250207", datetime(2025, 2, 7, tzinfo=UTC)),
        (20250207, datetime(2025, 2, 7, tzinfo=UTC)),
        ("2025年2月7日", datetime(2025, 2, 7, tzinfo=UTC)),
        ("2025-02-07T08:00:00+08:00", datetime(2025, 2, 7, tzinfo=UTC)),
        (1738886400, datetime(2025, 2, 7, tzinfo=UTC)),
        (1738886400000, datetime(2025, 2, 7, tzinfo=UTC)),
    ],
)
def test_spellings_of_a_time(spelling: object, when: datetime) -> None:
    documents, issues = sorted_out(json.dumps({"text": "x", "date": spelling}).encode(), JSONL)
    assert not issues
    assert documents[0].published == when


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_break_the_line_reader(lines: list[bytes]) -> None:
    good = b'{"id": "z", "text": "still here"}'
    found = list(parse(b"\n".join([*lines, good]), JSONL, "test"))
    assert found[-1] == ParsedDocument(
        "still here", "test", f"line {sum(line.count(10) for line in lines) + len(lines) + 1}", "z"
    )


def test_limits_of_lines_documents_and_depth() -> None:
    row = b'{"text": "four"}\n'
    documents, issues = sorted_out(row * 5, JSONL, Limits(documents=2))
    assert (len(documents), [issue.place for issue in issues]) == (2, ["line 3"])
    documents, issues = sorted_out(row + b'{"text": "too long"}', JSONL, Limits(text_chars=4))
    assert (len(documents), [issue.place for issue in issues]) == (1, ["line 2"])
    documents, issues = sorted_out(b"[" * 200_000 + b"\n" + row, JSONL)
    assert (len(documents), [issue.place for issue in issues]) == (1, ["line 1"])
    with pytest.raises(PayloadTooLarge):
        parse(b"x" * 11, JSONL, "test", Limits(file_bytes=10))


def test_parquet_rows_have_numbers_across_row_groups() -> None:
    columns: dict[str, list[object]] = {
        "id": [1, 2, 3, 4],
        "text": ["one", None, "three", ""],
        "date": [datetime(2024, 1, day) for day in (1, 2, 3, 4)],
        "entities": [["AAPL"], [], ["MSFT", "KO"], None],
    }
    documents, issues = sorted_out(parquet(columns, row_group_size=2), PARQUET)
    assert [(d.id, d.text, d.place, d.entities) for d in documents] == [
        ("1", "one", "row 1", ("AAPL",)),
        ("3", "three", "row 3", ("MSFT", "KO")),
    ]
    assert documents[1].published == datetime(2024, 1, 3, tzinfo=UTC)
    assert [issue.place for issue in issues] == ["row 2", "row 4"]


def test_a_broken_row_group_costs_only_its_rows() -> None:
    columns: dict[str, list[object]] = {"text": [f"text {n} " + "x" * 50 for n in range(6)]}
    data = bytearray(parquet(columns, row_group_size=2, compression="gzip", use_dictionary=False))
    middle = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(0)
    at = middle.data_page_offset + 60
    data[at : at + 20] = b"\x00" * 20
    documents, issues = sorted_out(bytes(data), PARQUET)
    assert [document.place for document in documents] == ["row 1", "row 2", "row 5", "row 6"]
    assert [issue.place for issue in issues] == ["rows 3 to 4"]


def test_parquet_that_would_unpack_to_too_much_or_has_no_text() -> None:
    bomb = parquet({"text": ["y" * 1_000_000] * 4}, use_dictionary=False, compression="zstd")
    assert len(bomb) < 10_000
    documents, issues = sorted_out(bomb, PARQUET, Limits(unpacked_bytes=1_000_000))
    assert not documents
    assert "unpacks to" in issues[0].reason
    assert "no column of text" in sorted_out(parquet({"x": [1]}), PARQUET)[1][0].reason
    assert "is no Parquet file" in sorted_out(b"PAR1 not really PAR1", PARQUET)[1][0].reason


PAGE = """<html lang="en"><head><meta charset="utf-8"><title>Profit up | News</title>
<meta property="og:title" content="Profit up by a third">
<meta property="article:published_time" content="2024-05-06T09:00:00+00:00"></head><body>
<nav><a href="/">Home</a> <a href="/markets">Markets</a></nav>
<article><h1>Profit up by a third</h1><p>The company said on Monday that its profit rose by 33% to 4.2 billion.</p>
<p>Analysts had expected 3.9 billion. 营业收入同比增长。</p>
<table><tr><th>Year</th><th>Profit</th></tr><tr><td>2023</td><td>3.2</td></tr></table></article>
<footer>Copyright and cookies</footer><script>alert(1)</script></body></html>"""


def test_the_readable_part_of_a_page() -> None:
    documents, issues = sorted_out(PAGE.encode(), "text/html; charset=utf-8")
    assert not issues
    (document,) = documents
    assert "33% to 4.2 billion" in document.text
    assert "3.2" in document.text
    assert "Markets" not in document.text
    assert "alert" not in document.text
    assert document.title == "Profit up by a third"
    assert document.published == datetime(2024, 5, 6, tzinfo=UTC)


def test_rows_of_a_short_pages_table_stay_together() -> None:
    rows = [("Plan", "Price per month"), ("Starter", "19"), ("Pro", "49")]
    cells = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    documents, _ = sorted_out(f"<body><h1>Plans</h1><table>{cells}</table></body>".encode(), "text/html")
    assert documents[0].text.splitlines()[-3:] == ["Plan | Price per month", "Starter | 19", "Pro | 49"]


def test_a_table_that_lays_out_a_page_is_read_as_text() -> None:
    text = "The company said on Monday that its profit rose by a third, to 4.2 billion. " * 6
    page = f"<html><head><title>News</title></head><body><table><tr><td>Menu</td><td><p>{text}</p></td></tr></table></body>"
    documents, _ = sorted_out(page.encode(), "text/html")
    assert "profit rose by a third" in documents[0].text


@pytest.mark.parametrize("media_type", ["text/html", "text/html; charset=gbk", "text/html; charset=nonsense"])
def test_chinese_pages_in_gbk_are_read(media_type: str) -> None:
    text = "<html><head><meta charset=gb2312></head><body><p>" + "贵州茅台营业收入同比增长十五个百分点。" * 5
    documents, _ = sorted_out(text.encode("gbk"), media_type)
    assert documents[0].text.startswith("贵州茅台营业收入")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no markup"),
        (b"just words", "no markup"),
        (b"<p>x</p>" * 300, "tags"),
        (b"<html><body><script>1</script></body></html>", "no readable text"),
    ],
)
def test_pages_without_anything_to_read(data: bytes, reason: str) -> None:
    documents, issues = sorted_out(data, "text/html", Limits(html_tags=400))
    assert not documents
    assert reason in issues[0].reason


def test_a_fragment_is_read_too() -> None:
    documents, _ = sorted_out("<p>营业收入同比增长十五个百分点。</p>".encode(), "text/html")
    assert documents[0].text == "营业收入同比增长十五个百分点。"


def test_a_page_nested_without_end_is_answered_soon() -> None:
    started = time.process_time()
    found = list(parse(b"<div>" * 150_000 + b"deep", "text/html", "test"))
    assert found
    assert time.process_time() - started < 30


def test_pages_of_a_pdf() -> None:
    documents, issues = sorted_out(pdf([draw_text("Revenue 100"), b"", draw_text("Profit 7")]), "application/pdf")
    (document,) = documents
    assert document.title == "Annual report"
    assert document.text.split() == ["Revenue", "100", "Profit", "7"]
    assert [document.text[start : start + 6] for start in document.page_starts][::2] == ["Revenu", "Profit"]
    assert document.published is None
    assert document.metadata["created"].startswith("2024-03-29")
    assert [(issue.place, issue.reason) for issue in issues] == [("page 2", "is blank")]


def test_a_huge_page_is_reported_and_the_others_come() -> None:
    bomb = draw_text("A") + b"\n" + b" " * 3_000_000
    data = pdf([draw_text("First"), bomb, draw_text("Last")])
    assert len(data) < 20_000
    documents, issues = sorted_out(data, "application/pdf", Limits(page_bytes=1 << 20))
    assert documents[0].text.split() == ["First", "Last"]
    assert issues[0].place == "page 2"
    assert "over the limit" in issues[0].reason


def test_limits_and_damage_of_pdfs() -> None:
    data = pdf([draw_text(f"P{number}") for number in range(6)])
    documents, issues = sorted_out(data, "application/pdf", Limits(pages=4))
    assert documents[0].text.split() == ["P0", "P1", "P2", "P3"]
    assert issues[0].place == "page 5"
    assert "time or size" in sorted_out(data, "application/pdf", Limits(seconds=0.0))[1][0].reason
    for broken in (b"", b"%PDF-1.4\nnothing", data[: len(data) // 8]):
        documents, issues = sorted_out(broken, "application/pdf")
        assert not documents
        assert issues[0].place == "file"


def test_plain_text_and_names() -> None:
    documents, _ = sorted_out(b"# A title\n\nAnd a body.", "text/markdown")
    assert (documents[0].title, documents[0].text) == ("A title", "And a body.")
    assert "binary" in sorted_out(b"\x00\x01\x02", "text/plain")[1][0].reason
    assert guess_media_type("Report.PDF") == "application/pdf"
    for unknown in ("image/png", "", "text/html\r\nx: y"):
        with pytest.raises(InvalidField, match="media_type"):
            parse(b"", unknown, "test")
    with pytest.raises(InvalidField, match="name"):
        guess_media_type("picture.png")
