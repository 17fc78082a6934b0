"""Answers as files: numbered references, rows in place of marks, and nothing of a model that runs."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import docx
import httpx
import nbformat
import openpyxl
import pptx
import pypdf
import pytest

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain import frames
from fathom.services.gateway.reports.naming import name_file
from fathom.services.gateway.reports.pdf import is_drawable
from tests.e2e.replay import ReplayHouse
from tests.e2e.script import HOSTILE, SHEET_ID

Door = tuple[httpx.AsyncClient, ReplayHouse]
# One white point.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
ANSWER = """## Result 结果

AAA rose *more* than **BBB** [3][2], as `x[1]` shows; see [the method](https://example.com/a) [1, 9] and [77].

1. First [2].
2. Second

| measure | AAA |
|---|---:|
| return | 148.2 % |

{{table:sheet_1}}

{{figure:fig_1}}

{{table:sheet_9}}
"""


async def run_answer(door: Door, answer: str) -> tuple[httpx.AsyncClient, str]:
    """Return the client and the address of the export of a run that has ended with this answer."""
    client, house = door
    house.planner.script.answer = answer
    passage = Document(id="own:memo:7", title="Memo <b>", source="memo.pdf", page=7, text="Margins fell.")
    house.planner.script.answer_material = [trajectory.Material(number=9, passage=passage)]
    finding = trajectory.Finding(kind=trajectory.FINDING_KIND_NUMBER, text="148.2 %", detail="not in [2]")
    house.planner.script.findings = [finding]
    run_id = (await client.post("/v1/runs", json={"question": "AAA / BBB: 2015?"})).json()["run_id"]
    async with client.stream("GET", f"/v1/runs/{run_id}/events") as events:
        async for _ in events.aiter_lines():
            pass
    return client, f"/v1/runs/{run_id}/export"


async def test_markdown_has_rows_and_references_in_their_order(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    answer = await client.get(url, params={"format": "md"})
    text = answer.text
    assert text.startswith("# AAA / BBB: 2015?\n")
    assert (
        "AAA rose *more* than **BBB** [1][2], as `x[1]` shows; see [the method](https://example.com/a) [3][4] and ."
        in text
    )
    assert (
        "| date | AAA.close\\_adj (USD) |" in text.replace("AAA.close_adj", "AAA.close\\_adj").split(" | BBB")[0] + " |"
    )
    assert "| 2015-01-02 | 100 | – |" in text
    assert "30 of 30 rows · synthetic 1.0 · data as of 2020-10-15" in text
    assert "{{" not in text
    references = text[text.index("## References") :]
    assert re.findall(r"^- \[(\d)\] (\w+)", references, re.MULTILINE) == [
        ("1", "Calculation"), ("2", "Adjusted"), ("3", "Drawdown"), ("4", "Memo")
    ]  # fmt: skip
    assert "memo.pdf · page 7" in references
    assert "Number without support: “148.2 %” – not in \\[2\\]" in text
    assert "sheet\\_9" in text or "sheet_9" in text
    assert "AAA%20BBB%202015.md" in answer.headers["content-disposition"]


async def test_a_page_stands_alone_and_runs_its_own_scripts_only(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    answer = await client.get(url, params={"format": "html", "language": "zh"})
    page = answer.text
    assert '<sup><a href="#ref-1">[1]</a></sup><sup><a href="#ref-2">[2]</a></sup>' in page
    assert "<h2>参考来源</h2>" in page
    assert "第 7 页" in page
    assert "Memo &lt;b&gt;" in page
    assert "Plotly.newPlot(" in page
    assert not re.findall(r'(?:src|href)="(?!#|https://example\.com|data:)', page.split("<script>")[0])
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]


async def test_a_word_file_has_native_tables_pictures_and_chinese_fonts(door: Door) -> None:
    client, url = await run_answer(door, ANSWER + "\n控制\x0b字符 \x01")
    answer = await client.post(url, json={"format": "docx", "language": "en", "pictures": {"fig_1": PNG}})
    file = docx.Document(io.BytesIO(answer.content))
    texts = [paragraph.text for paragraph in file.paragraphs]
    assert texts[0] == "AAA / BBB: 2015?"
    assert "AAA rose more than BBB[1][2], as x[1] shows; see the method [3][4] and ." in [
        t.replace(" [1]", "[1]") for t in texts
    ]
    assert "1.\tFirst [2]." in texts
    assert "References" in texts
    typed, sheet = file.tables
    assert [cell.text for cell in typed.rows[1].cells] == ["return", "148.2 %"]
    assert [cell.text for cell in sheet.rows[1].cells] == ["2015-01-02", "100", "–"]
    assert len(file.inline_shapes) == 1
    styles = zipfile.ZipFile(io.BytesIO(answer.content)).read("word/styles.xml").decode()
    assert 'w:eastAsia="Microsoft YaHei"' in styles


async def test_pages_have_embedded_fonts_and_references_that_are_linked(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    answer = await client.post(url, json={"format": "pdf", "language": "zh", "pictures": {"fig_1": PNG}})
    assert answer.headers["content-type"] == "application/pdf"
    book = pypdf.PdfReader(io.BytesIO(answer.content))
    text = "\n".join(page.extract_text() for page in book.pages)
    assert "Result 结果" in text
    assert "BBB[1][2], as x[1] shows; see the method[3][4] and ." in " ".join(text.split())
    assert "参考来源" in text
    assert "memo.pdf" in text
    assert "第 7 页" in text
    assert book.metadata is not None
    assert book.metadata.title == "AAA / BBB: 2015?"
    # One row of the data, and the picture that the caller brought.
    assert "2015-01-02 100 –" in text
    assert sum(len(page.images) for page in book.pages) == 1
    fonts = [font for page in book.pages for font in page["/Resources"]["/Font"].values()]
    descriptors = [font.get_object()["/DescendantFonts"][0]["/FontDescriptor"] for font in fonts]
    assert {name.partition("+")[2] for one in descriptors if (name := one["/FontName"])} >= {"LibertinusSerif-Regular"}
    assert any("NotoSansCJK" in one["/FontName"] for one in descriptors)
    assert all({"/FontFile2", "/FontFile3"} & set(one) for one in descriptors), "a font is not in the file"
    # Each mark leads to its entry of the references, and one link leads out.
    links = [note.get_object() for page in book.pages for note in page.get("/Annots", [])]
    assert len([link for link in links if "/Dest" in link or link.get("/A", {}).get("/S") == "/GoTo"]) == 5
    assert [link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})] == ["https://example.com/a"]


@pytest.mark.parametrize(
    ("language", "shown"),
    [("en", ["Fathom · Answer", "Sources: 4", "Exported 20"]), ("zh", ["Fathom · 回答", "来源：4 个", "导出时间 20"])],
)
async def test_pages_have_a_cover_of_their_own(door: Door, language: str, shown: list[str]) -> None:
    """It says what was asked, when, how that was read and how many sources there are; the answer begins behind it."""
    door[1].planner.script.reading = trajectory.Reading(line="Read as: AAA (一家公司) · total return · 2015 #1 [x]")
    client, url = await run_answer(door, ANSWER)
    answer = await client.post(url, json={"format": "pdf", "language": language})
    cover, first, *_ = (page.extract_text() for page in pypdf.PdfReader(io.BytesIO(answer.content)).pages)
    for text in ("AAA / BBB: 2015?", "Read as: AAA (一家公司) · total return · 2015 #1 [x]", *shown):
        assert text in " ".join(cover.split())
    assert re.search(r"\b20\d\d-\d\d-\d\d\n", cover)
    assert "Result 结果" not in cover
    assert "Result 结果" in first


async def test_slides_have_titles_native_tables_and_references(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    answer = await client.post(url, json={"format": "pptx", "language": "zh", "pictures": {"fig_1": PNG}})
    show = pptx.Presentation(io.BytesIO(answer.content))
    titles = [slide.shapes.title.text for slide in show.slides]
    assert titles[0] == "AAA / BBB: 2015?"
    assert titles[1] == "Result 结果"
    assert titles[-1] == "参考来源"
    texts = [text for slide in show.slides for text in list_texts(slide)]
    assert "AAA rose more than BBB[1][2], as x[1] shows; see the method[3][4] and ." in texts
    assert any(text.startswith("[4] Memo <b> – memo.pdf · 第 7 页") for text in texts)
    tables = [shape.table for slide in show.slides for shape in slide.shapes if shape.has_table]
    assert [cell.text for cell in tables[0].rows[1].cells] == ["return", "148.2 %"]
    # Thirty rows are more than a slide holds, so that the table goes on, each time under its head.
    assert [cell.text for cell in tables[2].rows[0].cells] == ["date", "AAA.close_adj (USD)", "BBB.close_adj (USD)"]
    assert sum(len(table.rows) - 1 for table in tables[1:]) == 30
    assert [shape.shape_type for slide in show.slides for shape in slide.shapes if hasattr(shape, "image")]
    assert all(shape.top + shape.height <= show.slide_height for slide in show.slides for shape in slide.shapes)


def list_texts(slide: Any) -> Iterator[str]:
    for shape in slide.shapes:
        if shape.has_text_frame:
            yield from (paragraph.text for paragraph in shape.text_frame.paragraphs)


async def test_a_workbook_has_whole_tables_with_unit_source_and_date(door: Door) -> None:
    client, url = await run_answer(door, f"{ANSWER}\n=1+1 [2]")
    answer = await client.get(url, params={"format": "xlsx"})
    book = openpyxl.load_workbook(io.BytesIO(answer.content))
    assert book.sheetnames == ["Answer", "Adjusted close of AAA and BBB", "Columns"]
    data = book["Adjusted close of AAA and BBB"]
    assert data.freeze_panes == "B2"
    rows = list(data.values)
    assert rows[0] == ("date", "AAA.close_adj (USD)", "BBB.close_adj (USD)")
    assert rows[1] == (datetime(2015, 1, 2), 100, None)
    assert len(rows) == 31
    assert data["A2"].number_format == "yyyy-mm-dd"
    assert {cell.data_type for row in book["Answer"].iter_rows() for cell in row} <= {"inlineStr", "s", "n"}, (
        "a formula of a model"
    )
    columns = list(book["Columns"].values)
    assert columns[2][:6] == (data.title, "AAA.close_adj", "USD", "synthetic 1.0", None, "2020-10-15")
    assert columns[2][8] == "30 of 30 rows"


@pytest.mark.parametrize("is_memory_there", [True, False])
async def test_files_name_tables_as_the_conversation_does(door: Door, is_memory_there: bool) -> None:
    client, url = await run_answer(door, ANSWER)
    memory = door[1].memory
    [item] = (await client.get("/v1/conversations")).json()["conversations"]
    view = {"sheet_id": SHEET_ID, "title": "Kurse 价格", "pinned": False}
    assert (await client.patch(f"/v1/conversations/{item['id']}", json={"sheet": view})).status_code == 200
    if not is_memory_there:
        memory.deleted.add(item["id"])
    name = "Kurse 价格" if is_memory_there else "Adjusted close of AAA and BBB"
    text = (await client.get(url, params={"format": "md"})).text
    assert f"[1]: {name}" in text or f"1. {name}" in text or name in text.split("## ")[-1]
    book = openpyxl.load_workbook(io.BytesIO((await client.get(url, params={"format": "xlsx"})).content))
    assert name[:31] in [sheet.title for sheet in book]
    notebook = json.loads((await client.get(url, params={"format": "ipynb"})).content)
    assert any(f"# {name}" in "".join(cell["source"]) for cell in notebook["cells"])
    trace = (await client.get(url, params={"format": "json"})).json()
    assert "Kurse" not in json.dumps(trace, ensure_ascii=False), "the record stays as it is"


async def test_a_notebook_has_the_cells_that_ran_and_reads_its_tables(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    answer = await client.get(url, params={"format": "ipynb", "language": "zh"})
    book = nbformat.reads(answer.text, as_version=4)
    nbformat.validate(book)
    about, tables, cell = book.cells
    assert about.source.startswith("# AAA / BBB: 2015?")
    assert 'sheet_1 = read_table("t0123456789abcdef01234567")' in tables.source
    assert '"http://127.0.0.1"' in tables.source
    compile(tables.source, "tables", "exec")
    assert cell.source == door[1].planner.script.code
    printed, drawn = cell.outputs
    assert printed.text.startswith("AAA.close_adj   -0.387")
    assert drawn.data["application/vnd.plotly.v1+json"]["data"][0]["type"] == "scatter"


async def test_a_script_has_the_cells_that_ran_and_those_that_failed_as_comments(door: Door) -> None:
    client, _ = await run_answer(door, ANSWER)
    broken = trajectory.CodeRecord(id="call_9", code="1 / 0\nprint('not reached')", ok=False)
    door[1].planner.script.answer_material.append(trajectory.Material(number=10, code=broken))
    run_id = (await client.post("/v1/runs", json={"question": "Two\nlines?"})).json()["run_id"]
    async with client.stream("GET", f"/v1/runs/{run_id}/events") as events:
        async for _ in events.aiter_lines():
            pass
    answer = await client.get(f"/v1/runs/{run_id}/export", params={"format": "py"})
    text = answer.text
    assert answer.headers["content-type"].startswith("text/x-python")
    assert text.startswith("# Two\n# lines?\n# Run ")
    assert 'sheet_1 = read_table("t0123456789abcdef01234567")' in text
    assert f"# %%\n{door[1].planner.script.code}" in text
    assert "# This cell failed when it ran.\n# 1 / 0\n# print('not reached')\n" in text
    compile(text, "script", "exec")


async def test_a_trace_has_what_the_run_did(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    trace = json.loads((await client.get(url, params={"format": "json"})).content)
    assert (trace["format"], trace["version"]) == ("fathom.trace", 1)
    record = trace["run"]["trajectory"]
    assert record["question"] == "AAA / BBB: 2015?"
    assert [step["tool_results"][0]["tool"] for step in record["steps"]] == [
        "search",
        "fetch",
        "data",
        "python",
        "python",
    ]
    assert record["answer"]["findings"][0]["text"] == "148.2 %"


DEEP = "\n".join([*(f"{'> ' * depth}level {depth}" for depth in range(1, 40)), ""]) + "\n".join(
    f"{'  ' * depth}- item {depth}" for depth in range(40)
)


@pytest.mark.parametrize("kind", ["pdf", "docx", "pptx"])
async def test_an_answer_nested_beyond_reading_is_still_a_file(door: Door, kind: str) -> None:
    client, url = await run_answer(door, f"{DEEP}\n\n{'**' * 300}x{'**' * 300} 😀 \x00 {{{{table:sheet_1}}}}")
    assert (await client.get(url, params={"format": kind})).status_code == 200


@pytest.mark.parametrize("kind", ["pdf", "pptx", "docx"])
async def test_a_picture_that_is_none_costs_only_itself(door: Door, kind: str) -> None:
    client, url = await run_answer(door, ANSWER)
    broken = base64.b64encode(base64.b64decode(PNG)[:40]).decode()
    answer = await client.post(url, json={"format": kind, "pictures": {"fig_1": broken}})
    assert answer.status_code == 200


def test_a_small_file_that_is_a_huge_picture_is_not_drawn() -> None:
    small = base64.b64decode(PNG)
    # 25 billion pixels, as the header says; the file stays as small as it is.
    header = b"IHDR" + (50_000).to_bytes(4) + (500_000).to_bytes(4) + small[24:29]
    huge = small[:12] + header + zlib.crc32(header).to_bytes(4) + small[33:]
    assert is_drawable(small)
    assert not is_drawable(huge)


@pytest.mark.parametrize("kind", ["md", "html", "pdf", "docx", "pptx", "xlsx", "ipynb", "py", "json"])
async def test_a_hostile_answer_is_text_in_every_format(door: Door, kind: str) -> None:
    client, url = await run_answer(door, HOSTILE)
    answer = await client.get(url, params={"format": kind})
    assert answer.status_code == 200
    if kind == "html":
        assert not re.findall(r"<(?:img|svg|b)\b", answer.text)
        assert "javascript:" not in "".join(re.findall(r'href="[^"]*"', answer.text))
        assert "<script>window.hacked" not in answer.text


async def test_what_cannot_be_exported_is_named(door: Door) -> None:
    client, url = await run_answer(door, ANSWER)
    for params, field in (({"format": "rtf"}, "format"), ({"language": "fr"}, "language")):
        assert (await client.get(url, params=params)).json()["field"] == field
    for picture in ("&&&", base64.b64encode(b"<svg onload=alert(1)>").decode()):
        refused = await client.post(url, json={"pictures": {"fig_1": picture}})
        assert (refused.status_code, refused.json()["field"]) == (400, "pictures")
    assert (await client.get("/v1/runs/none/export")).status_code == 404


@pytest.mark.parametrize("wished", ["苹果和微软的回撤" * 40, "Apple's drawdown " * 40, "a" + "é" * 300])
def test_a_long_name_of_a_file_is_as_long_as_file_systems_take(wished: str) -> None:
    header = name_file(wished, "run_1.docx")["Content-Disposition"]
    name = unquote(header.rpartition("''")[2])
    assert 200 < len(name.encode()) <= 255
    assert name.endswith(".docx")
    assert wished.startswith(name.removesuffix(".docx"))


async def test_negative_numbers_stand_in_parentheses_where_they_are_wanted_so(door: Door) -> None:
    script = door[1].planner.script
    change = [-1234.5, 2.0, *[None] * (script.days - 2)]
    table = frames.read_table(script.arrow)
    script.arrow = frames.write_table(table.set_column(1, "AAA.close_adj", frames.arrow().array(change)))
    client, url = await run_answer(door, ANSWER)
    assert "| 2015-01-02 | -1,234.5 | – |" in (await client.get(url, params={"format": "md"})).text
    wish = {"negatives": "parentheses"}
    assert "| 2015-01-02 | (1,234.5) | – |" in (await client.get(url, params={"format": "md", **wish})).text
    book = openpyxl.load_workbook(io.BytesIO((await client.get(url, params={"format": "xlsx", **wish})).content))
    cell = book.worksheets[1]["B2"]
    assert (cell.value, cell.number_format) == (-1234.5, "General;(General)")
    posted = await client.post(url, json={"format": "docx", **wish})
    tables = docx.Document(io.BytesIO(posted.content)).tables
    assert "(1,234.5)" in {cell.text for table in tables for row in table.rows[:3] for cell in row.cells}
    file = (await client.get(f"/v1/tables/{SHEET_ID}/export", params=wish)).text
    assert "2015-01-02,(1234.5)," in file
    refused = await client.get(url, params={"negatives": "red"})
    assert refused.status_code in (400, 422)
    assert "negatives" in refused.text
