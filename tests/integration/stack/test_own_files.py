"""A newcomer's folder reaches questions: ten documents and three spreadsheets, ten answers with page and cell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.uploads.sending import Uploaded, upload_files
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core import errors
from fathom.services.local import Endpoints
from tests.support.files import plants
from tests.support.files.newcomer import QUESTIONS, Asked, write_folder

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


@pytest.fixture(scope="module")
def uploads() -> dict[str, tuple[Uploaded, list[str]]]:
    return {}


async def send(
    stack: Stack, uploads: dict[str, tuple[Uploaded, list[str]]], folder: Path
) -> tuple[Uploaded, list[str]]:
    """Send the folder once for all tests of this file."""
    if "folder" not in uploads:
        reports: list[str] = []
        write_folder(folder)
        # Every real folder has some of these, and they must cost none of the others.
        (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
        (folder / "photo.png").write_bytes(b"\x89PNG")
        done = await asyncio.to_thread(upload_files, stack[0].gateway, [folder], reports.append)
        uploads["folder"] = done, reports
    return uploads["folder"]


async def ask(stack: Stack, uploaded: Uploaded, question: str) -> tuple[str, list[str]]:
    request = pb.RunRequest(question=question, table_ids=uploaded.table_ids, corpora=[uploaded.corpus])
    finished = [event async for event in run(stack[1], request)][-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    sheets = {item.variable: item.sheet.title for item in finished.material if item.HasField("sheet")}
    # Only what is cited counts: everything that was read stands in the material.
    cited = [item for item in finished.material if item.number in finished.answer.cited]
    return finished.answer.markdown, [name_source(item, sheets) for item in cited]


def name_source(item: trajectory.Material, sheets: dict[str, str]) -> str:
    """Return what a citation leads to: file and page of a passage, or files and columns that a cell reads."""
    if item.HasField("passage"):
        return item.passage.title
    return " ".join([item.code.code, *(title for name, title in sheets.items() if name in item.code.code)])


async def test_what_cannot_be_read_is_reported_and_costs_no_other_file(
    stack: Stack, uploads: dict[str, tuple[Uploaded, list[str]]], tmp_path: Path
) -> None:
    uploaded, reports = await send(stack, uploads, tmp_path)
    assert len(uploaded.table_ids) == 3
    assert any(line.startswith("broken.pdf is left out") for line in reports), reports
    assert any(line.startswith("photo.png is left out") for line in reports)
    assert any("readme.txt" in line and "Windows-1252" in line for line in reports)


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked.source)
async def test_a_question_is_answered_from_the_folder_with_its_place(
    stack: Stack, uploads: dict[str, tuple[Uploaded, list[str]]], tmp_path: Path, asked: Asked
) -> None:
    uploaded, _ = await send(stack, uploads, tmp_path)
    markdown, sources = await ask(stack, uploaded, asked.question)
    assert asked.answer in markdown
    assert any(asked.source in source and asked.column in source for source in sources), sources


@pytest.mark.parametrize("asked", plants.QUESTIONS, ids=lambda asked: asked.question)
async def test_values_of_office_tables_are_answered_with_their_cells(
    stack: Stack, uploads: dict[str, tuple[Uploaded, list[str]]], tmp_path: Path, asked: Asked
) -> None:
    if "plants" not in uploads:
        reports: list[str] = []
        folder = plants.write_folder(tmp_path)
        uploads["plants"] = await asyncio.to_thread(upload_files, stack[0].gateway, [folder], reports.append), reports
    uploaded, reports = uploads["plants"]
    markdown, sources = await ask(stack, uploaded, asked.question)
    assert asked.answer in markdown
    assert asked.source in "\n".join([markdown, *sources])
    assert any(line.startswith("plants.xlsx is read as") and "by Plant and year" in line for line in reports)
    assert any("=E5-C5 in column 6 has no stored value" in line for line in reports)


async def test_a_run_names_corpora_that_are_there(stack: Stack) -> None:
    for corpora, field in ((["docs_nowhere"], r"^corpora\[0\]: (?!corpus: )"), (["bundled"] * 5, "corpora")):
        with pytest.raises(errors.InvalidField, match=field):
            [event async for event in run(stack[1], pb.RunRequest(question="What is rent?", corpora=corpora))]


async def test_an_amended_memo_stands_above_the_first_one_and_both_are_named(stack: Stack, tmp_path: Path) -> None:
    text = "The lease of the Bremmen warehouse ends on 31 March 2034. The yearly rent of the Bremmen warehouse is {} euros."
    for name, rent in (
        ("Lease memo (14 May 2026).md", "1,240,000"),
        ("Lease memo AMENDED 2 June 2026.md", "1,310,000"),
    ):
        (tmp_path / name).write_text(text.format(rent))
    uploaded = await asyncio.to_thread(upload_files, stack[0].gateway, [tmp_path], lambda _: None)
    markdown, sources = await ask(stack, uploaded, "What is the yearly rent of the Bremmen warehouse?")
    assert markdown.index("1,310,000 euros") < markdown.index("1,240,000 euros")
    assert "Lease memo AMENDED 2 June 2026.md (2026-06-02)" in markdown
    assert "Lease memo (14 May 2026).md (2026-05-14)" in markdown
    assert len(sources) == 2
