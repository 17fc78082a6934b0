"""Links and files of one's own: nothing of them, nor of what was made of them, is given out without their maker's word."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import Column, Sheet
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.services.gateway.links.redacting import find_private, has_private, list_others, redact
from fathom.services.gateway.reports.report import Place
from tests.e2e.payloads import PAYLOADS
from tests.e2e.replay import ReplayHouse
from tests.support.waiting import eventually

Opened = Callable[..., AbstractAsyncContextManager[tuple[httpx.AsyncClient, ReplayHouse]]]
SECRET = "the merger closes on 3 May"
QUOTED = "the hurdle rate is 9 %"


def sheet(number: int, name: str, vendor: str = "", **more: Any) -> pb.Material:
    table = Sheet(id=f"t{number}", title=f"Title {name}", columns=[Column(name="x", vendor=vendor, source="file.csv")])
    return pb.Material(number=number, sheet=table, variable=name, **more)


def code(number: int, source: str, run_id: str = "") -> pb.Material:
    figures = [pb.Figure(id=f"fig_{number}", title="Drawn")]
    return pb.Material(number=number, code=pb.CodeRecord(code=source, ok=True, run_id=run_id, figures=figures))


def make_run(*material: pb.Material) -> pb.Trajectory:
    return pb.Trajectory(run_id="run_1", steps=[pb.Step(material=material)])


def test_what_was_computed_of_an_own_table_is_withheld_with_it() -> None:
    run = make_run(
        sheet(1, "sheet_1", "skfolio"), sheet(2, "sheet_2", "skfolio, upload"), code(3, "sheet_1.mean()"),
        code(4, "a = sheet_2.mean()"), code(5, "a * 2"), sheet(6, "sheet_3", "", computed_by=5),
        sheet(7, "sheet_4", "", computed_by=3, computed_from=["sheet_1"]), code(8, "sheet_20"),
    )  # fmt: skip
    withheld = find_private(run, {})
    # Behind a cell that read it, everything may be made of it.
    assert withheld.numbers == {2, 4, 5, 6, 8}
    assert withheld.places == {
        Place("table", "sheet_2"), Place("table", "sheet_3"), Place("figure", "fig_4"), Place("figure", "fig_5"),
        Place("figure", "fig_8"),
    }  # fmt: skip


def test_cells_of_another_run_are_withheld_unless_it_is_known_to_have_had_no_files() -> None:
    run = make_run(code(1, "draw()", "run_0"))
    assert list_others(run) == ["run_0"]
    assert find_private(run, {}).numbers == {1}
    assert find_private(run, {"run_0": True}).numbers == {1}
    assert find_private(run, {"run_0": False}).numbers == set()
    assert has_private(run)
    assert not has_private(make_run(sheet(1, "sheet_1", "skfolio"), code(2, "sheet_1")))


def test_a_table_of_an_earlier_turn_counts_too() -> None:
    run = pb.Trajectory(given=[sheet(1, "sheet_1", "upload")], steps=[pb.Step(material=[code(2, "sheet_1 + 1")])])
    assert find_private(run, {}).numbers == {1, 2}
    assert SECRET not in str(redact(run, find_private(run, {}), "en"))


def test_a_run_without_files_is_shown_as_it_is() -> None:
    run = make_run(
        sheet(1, "sheet_1", "skfolio"), code(2, "sheet_1"), pb.Material(number=3, passage=Document(text="x"))
    )
    assert redact(run, find_private(run, {}), "en") is run


async def share(client: httpx.AsyncClient, **body: Any) -> str:
    made = await client.post("/v1/links", json={"run_id": "run_1", **body})
    assert made.status_code == 201, made.text
    assert made.json()["gives_uploads"] is body.get("gives_uploads", False)
    answer = await client.get(made.json()["path"])
    assert answer.status_code == 200
    return answer.text


async def test_a_link_gives_out_no_file_of_ones_own_unless_its_maker_says_so(open_with: Opened) -> None:
    hostile = " ".join(PAYLOADS)
    async with open_with() as (client, house):
        script = house.planner.script
        for column in script.sheet.columns:
            column.vendor = "upload"
        script.findings = [pb.Finding(kind=pb.FINDING_KIND_UNSUPPORTED, text="gained", detail=SECRET)]
        script.answer = f"AAA has gained 3 %. As the memo says, {QUOTED} [1].\n\n{script.answer}"
        document = Document(id=SECRET, title=f"Memo {hostile}", text=f"{SECRET} {hostile}", source=SECRET, own=True)
        material = script.material()
        material[0].passage.CopyFrom(document)
        script.material = lambda: material  # type: ignore[method-assign]
        await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})
        await eventually(lambda: house.planner.runs["run_1"].is_finished)
        shown, whole = await share(client), await share(client, gives_uploads=True)
        conversation = (await client.post("/v1/links", json={"conversation_id": "conv_run_1"})).json()
        assert SECRET not in (await client.get(conversation["path"])).text
    for text in (SECRET, QUOTED, "AAA.close_adj", "px.line", "synthetic 1.0", "no data for CCC"):
        assert (text in shown, text in whole) == (False, True), text
    # Cited by their titles, at their places.
    for text in ("Memo", "Adjusted close of AAA and BBB", "is of files that are not shared"):
        assert text in shown
    assert "is of files that are not shared" not in whole
    # Whatever the file is called and says, it is text.
    assert not [one for page in (shown, whole) for one in PAYLOADS if one.startswith("<") and one in page]


@pytest.mark.parametrize("wrong", ["yes", 1, None])
async def test_the_makers_word_is_true_or_false(open_with: Opened, wrong: Any) -> None:
    async with open_with() as (client, _):
        answer = await client.post("/v1/links", json={"run_id": "run_1", "gives_uploads": wrong})
    assert (answer.status_code, answer.json()["field"]) == (400, "gives_uploads")
