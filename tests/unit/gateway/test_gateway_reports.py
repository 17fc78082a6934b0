"""Answers as files: numbered references, rows in place of marks, and nothing of a model that runs."""

from __future__ import annotations

import base64
import io
import re
import zipfile
from urllib.parse import unquote

import docx
import httpx
import pytest

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.services.gateway.reports.naming import name_file
from tests.e2e.replay import ReplayHouse
from tests.e2e.script import HOSTILE

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


@pytest.mark.parametrize("kind", ["md", "html", "docx"])
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
    for params, field in (({"format": "pdf"}, "format"), ({"language": "fr"}, "language")):
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
