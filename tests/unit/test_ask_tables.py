"""Tables that ``fathom ask`` sends to a gateway: their ids, and what is said of a file that it cannot send."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.ask import print_trace
from fathom.cli.uploads.meanings import read_meanings
from fathom.cli.uploads.sending import MAX_TABLES, propose_meanings, upload_files, upload_tables
from fathom.core.errors import InvalidField, NotReady

ISSUE = {"row": 3, "column": "price", "message": "is no number"}


def describe_tables(request: web.Request, number: int, worksheets: Sequence[str]) -> dict[str, Any]:
    """Return the reply to an upload: its first table, the names of its worksheets, and those that were asked for."""
    name = request.query["name"]
    titles = [f"{name} {worksheet}" for worksheet in worksheets] or [name]
    further = [
        {"worksheet": worksheet, "reason": "is no table"}
        if worksheet == "Notes"
        else {"worksheet": worksheet, "sheet": {"id": f"t{number}.{place}", "title": titles[place]}, "issues": [ISSUE]}
        for place, worksheet in enumerate(worksheets[1 : int(request.query["further"]) + 1], start=1)
    ]
    return {"sheet": {"id": f"t{number}", "title": titles[0]}, "worksheets": [*worksheets], "further": further}


@asynccontextmanager
async def open_gateway(
    *statuses: int,
    columns: list[dict[str, Any]] | None = None,
    adds: bool = True,
    worksheets: Sequence[str] = (),
    quoted: int = 200,
) -> AsyncIterator[tuple[str, list[tuple[str, bytes]]]]:
    """Serve ``POST /v1/tables`` with these statuses in turn, the last one repeated; yield its URL and the files.

    ``columns`` are proposed for each table; without them the gateway is one of an earlier version. ``worksheets`` are
    those of each workbook; a further one called Notes is no table, and as many are read as are asked for.
    ``quoted`` is the status of what adds rows to a corpus.
    """
    answers, got = list(statuses), list[tuple[str, bytes]]()

    async def take(request: web.Request) -> web.Response:
        got.append((request.query["name"], await request.read()))
        status = answers.pop(0) if len(answers) > 1 else answers[0]
        if status != 200:
            return web.json_response({"detail": "is no table"}, status=status)
        return web.json_response(describe_tables(request, len(got), worksheets))

    app = web.Application()

    async def take_document(request: web.Request) -> web.Response:
        got.append((f"{request.query['corpus']}:{request.query['name']}", await request.read()))
        if b"broken" in got[-1][1]:
            return web.json_response({"detail": "holds nothing that can be read"}, status=400)
        return web.json_response({"corpus": "docs_1", "issues": [{"message": "page 2: holds no text"}]})

    async def propose(request: web.Request) -> web.Response:
        if columns is None:
            raise web.HTTPNotFound
        return web.json_response({"columns": columns, "adds": adds})

    async def apply(request: web.Request) -> web.Response:
        got.append(("meaning", await request.read()))
        return web.json_response({"sheet": {"id": "series"}, "issues": [{"row": 2, "message": "has no day"}]})

    async def quote(request: web.Request) -> web.Response:
        if quoted != 200:
            return web.json_response({"detail": "has no row that says anything"}, status=quoted)
        return web.json_response({"corpus": request.query["corpus"] or "docs_1"})

    app.router.add_post("/v1/tables", take)
    app.router.add_get("/v1/tables/{sheet}/meaning", propose)
    app.router.add_put("/v1/tables/{sheet}/meaning", apply)
    app.router.add_post("/v1/documents", take_document)
    app.router.add_post("/v1/tables/{sheet}/passages", quote)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    try:
        yield str(server.make_url("")), got
    finally:
        await server.close()


async def test_each_file_is_sent_under_its_name_and_a_failure_is_tried_again(tmp_path: Path) -> None:
    files = [tmp_path / "prices.csv", tmp_path / "恒生.csv"]
    for file in files:
        file.write_text(f"date,{file.stem}\n")
    async with open_gateway(503, 200) as (url, got):
        assert await asyncio.to_thread(upload_tables, url, files) == ["t2", "t3"]
    assert [name for name, _ in got] == ["prices.csv", "prices.csv", "恒生.csv"]
    assert got[-1][1] == files[-1].read_bytes()


async def test_a_refused_file_is_named_and_not_sent_again(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"x")
    async with open_gateway(400) as (url, got):
        with pytest.raises(InvalidField, match=r"x\.png: is no table"):
            await asyncio.to_thread(upload_tables, url, [tmp_path / "x.png"])
    assert len(got) == 1


async def test_a_workbook_is_sent_once_for_all_its_sheets_and_one_that_is_no_table_costs_no_other(
    tmp_path: Path,
) -> None:
    content = bytes(range(256)) * 4_000
    (tmp_path / "book.xlsx").write_bytes(content)
    reports: list[str] = []
    async with open_gateway(200, worksheets=["Sales", "Notes", "Costs"]) as (url, got):
        done = await asyncio.to_thread(upload_files, url, [tmp_path], reports.append)
        assert await asyncio.to_thread(upload_tables, url, [tmp_path / "book.xlsx"]) == ["t2", "t2.2"]
    # As many bytes as the file has, by each command.
    assert [(name, len(sent)) for name, sent in got] == [("book.xlsx", len(content))] * 2
    assert done.table_ids == ["t1", "t1.2"]
    assert reports == [
        "book.xlsx Notes is left out: is no table",
        "book.xlsx Costs row 3: column 'price': is no number",
    ]


async def test_sheets_beyond_what_a_run_may_begin_with_are_named(tmp_path: Path) -> None:
    (tmp_path / "book.xlsx").write_bytes(b"x")
    reports: list[str] = []
    async with open_gateway(200, worksheets=[f"S{place}" for place in range(MAX_TABLES + 2)]) as (url, got):
        done = await asyncio.to_thread(upload_files, url, [tmp_path], reports.append)
    assert (len(got), len(done.table_ids)) == (1, MAX_TABLES)
    assert reports[-1] == "book.xlsx S12, S13 is left out: not read by the gateway, which takes 12 at most"


def test_a_file_that_is_not_there_or_has_no_gateway_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="cannot be read"):
        upload_tables("http://127.0.0.1:9", [tmp_path / "none.csv"])
    with pytest.raises(NotReady, match="--gateway"):
        upload_tables("", [tmp_path / "none.csv"])
    assert upload_tables("", []) == []


@pytest.mark.parametrize(("form", "is_said"), [(pb.ANSWER_FORM_REPORT, True), (pb.ANSWER_FORM_ANSWER, False)])
async def test_a_terminal_says_that_the_answer_is_a_report(form: pb.AnswerForm, is_said: bool) -> None:
    async def events() -> AsyncIterator[pb.RunEvent]:
        yield pb.RunEvent(run_id="run_1", started=pb.RunStarted(model="m", form=form))
        yield pb.RunEvent(run_id="run_1", finished=pb.RunFinished())

    written = io.StringIO()
    await print_trace(events(), Console(file=written, width=100), "")
    assert ("model m, a report" in written.getvalue()) is is_said


async def test_a_folder_is_sent_file_by_file_and_a_bad_one_costs_no_other(tmp_path: Path) -> None:
    for name, text in (
        ("a.pdf", "broken"),
        ("b/c.docx", "x"),
        ("d.md", "y"),
        ("e.csv", "z"),
        ("f.png", ""),
        (".git/g.md", ""),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    reports: list[str] = []
    async with open_gateway(200) as (url, got):
        done = await asyncio.to_thread(upload_files, url, [tmp_path], reports.append)
    assert (done.corpus, done.table_ids) == ("docs_1", ["t4"])
    assert [name for name, _ in got] == [":a.pdf", ":b/c.docx", "docs_1:d.md", "e.csv"]
    assert [report.partition(" ")[0] for report in reports] == ["a.pdf", "b/c.docx:", "d.md:", "f.png"]


@pytest.mark.parametrize(
    ("status", "corpus", "reports"),
    [
        (200, "docs_1", []),
        (400, "", ["a.csv cannot be quoted: with: a.csv: has no row that says anything"]),
        (404, "", ["a.csv cannot be quoted: the gateway is of an earlier version"]),
    ],
)
async def test_rows_of_a_table_are_added_to_the_corpus_and_their_loss_costs_no_table(
    tmp_path: Path, status: int, corpus: str, reports: list[str]
) -> None:
    (tmp_path / "a.csv").write_text("x")
    lines: list[str] = []
    async with open_gateway(200, quoted=status) as (url, _):
        done = await asyncio.to_thread(upload_files, url, [tmp_path], lines.append)
    assert (done.table_ids, done.corpus, lines) == (["t1"], corpus, reports)


LABELLED: list[dict[str, Any]] = [
    {"column": "Plant", "role": "label"},
    {"column": "2025 Revenue", "role": "value", "names": ["Revenue"], "aggregation": "sum", "year": 2025},
]
DATED: list[dict[str, Any]] = [{"column": "Day", "role": "date"}, {"column": "Units", "role": "value"}]


@pytest.mark.parametrize(
    ("columns", "adds", "ids", "said"),
    [
        # The table as it is has the texts that no series has.
        (LABELLED, True, ["series", "t1"], "Revenue (sum) by Plant and year"),
        (DATED, True, ["series"], "Units by Day"),
        # What a series of days leaves out, a question may name.
        ([*DATED, {"column": "Site", "role": "ignored"}], True, ["series", "t1"], "Units by Day"),
        ([*DATED, {"column": "Site", "role": "label"}], True, ["series", "t1"], "Units by Site and Day"),
        (DATED, False, ["t1"], ""),
    ],
)
async def test_a_proposal_that_says_more_is_taken_and_told(
    tmp_path: Path, columns: list[dict[str, Any]], adds: bool, ids: list[str], said: str
) -> None:
    (tmp_path / "a.csv").write_text("x")
    reports: list[str] = []
    async with open_gateway(200, columns=columns, adds=adds) as (url, got):
        done = await asyncio.to_thread(upload_files, url, [tmp_path], reports.append)
    assert done.table_ids == ids
    assert reports == ([f"a.csv is read as {said}", "a.csv row 2: has no day"] if said else [])
    assert [name for name, _ in got] == (["a.csv", "meaning"] if said else ["a.csv"])


async def test_columns_are_written_to_be_edited_and_what_was_edited_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "a.csv", tmp_path / "columns.yaml"
    table.write_text("x")
    async with open_gateway(200, columns=LABELLED, adds=False) as (url, got):
        await asyncio.to_thread(propose_meanings, [table], file, tmp_path, url)
        assert read_meanings(file) == {"a.csv": LABELLED}
        assert capsys.readouterr().out == f"{file}: the columns of a.csv\n"
        file.write_text(file.read_text().replace("names:\n  - Revenue", "names:\n  - Takings") + "b.csv: []\n")
        reports: list[str] = []
        await asyncio.to_thread(upload_files, url, [table], reports.append, read_meanings(file))
        assert b"Takings" in got[-1][1]
        assert reports[0].startswith("b.csv has columns")
        with pytest.raises(InvalidField, match="cannot be written"):
            await asyncio.to_thread(propose_meanings, [table], file, tmp_path, url)


@pytest.mark.parametrize("text", ["- a", "a.csv: 5", "a: [1]", "{", "\x00"])
def test_a_file_that_says_nothing_of_columns_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InvalidField, match="columns"):
        read_meanings(tmp_path / "c.yaml")


async def test_a_folder_of_nothing_readable_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(InvalidField, match="with"):
        await asyncio.to_thread(upload_files, "http://127.0.0.1:1", [tmp_path], lambda _: None)
    with pytest.raises(InvalidField, match="nowhere"):
        await asyncio.to_thread(upload_files, "http://127.0.0.1:1", [tmp_path / "nowhere"], lambda _: None)
    with pytest.raises(NotReady, match="--with"):
        await asyncio.to_thread(upload_files, "", [tmp_path], lambda _: None)
