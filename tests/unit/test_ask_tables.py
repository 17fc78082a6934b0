"""Tables that ``fathom ask`` sends to a gateway: their ids, and what is said of a file that it cannot send."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.ask import print_trace
from fathom.cli.uploads import upload_files, upload_tables
from fathom.core.errors import InvalidField, NotReady


@asynccontextmanager
async def open_gateway(*statuses: int) -> AsyncIterator[tuple[str, list[tuple[str, bytes]]]]:
    """Serve ``POST /v1/tables`` with these statuses in turn, the last one repeated; yield its URL and the files."""
    answers, got = list(statuses), list[tuple[str, bytes]]()

    async def take(request: web.Request) -> web.Response:
        got.append((request.query["name"], await request.read()))
        status = answers.pop(0) if len(answers) > 1 else answers[0]
        if status != 200:
            return web.json_response({"detail": "is no table"}, status=status)
        return web.json_response({"sheet": {"id": f"t{len(got)}"}, "issues": []})

    app = web.Application()

    async def take_document(request: web.Request) -> web.Response:
        got.append((f"{request.query['corpus']}:{request.query['name']}", await request.read()))
        if b"broken" in got[-1][1]:
            return web.json_response({"detail": "holds nothing that can be read"}, status=400)
        return web.json_response({"corpus": "docs_1", "issues": [{"message": "page 2: holds no text"}]})

    app.router.add_post("/v1/tables", take)
    app.router.add_post("/v1/documents", take_document)
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


async def test_a_folder_of_nothing_readable_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(InvalidField, match="with"):
        await asyncio.to_thread(upload_files, "http://127.0.0.1:1", [tmp_path], lambda _: None)
    with pytest.raises(InvalidField, match="nowhere"):
        await asyncio.to_thread(upload_files, "http://127.0.0.1:1", [tmp_path / "nowhere"], lambda _: None)
    with pytest.raises(NotReady, match="--with"):
        await asyncio.to_thread(upload_files, "", [tmp_path], lambda _: None)
