"""Markdown tables of an answer: each cell is checked like a number in prose, by its headers; a wrong one is marked."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.domain import frames
from fathom.domain.chat.messages import Completion, FinishReason, Sampling, ToolCall, Usage
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.tables import find_tables
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    Limits,
    Material,
    MaterialKind,
    Step,
    Task,
    ToolResult,
    ToolStatus,
)
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import to_ref


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


async def make_sheet(
    store: ObjectStore, number: int, columns: dict[str, list[Any]], computed_by: int = 0, title: str = "", **units: str
) -> Material:
    table = frames.arrow().table(columns)
    stored = await store.put(f"sheet_{number}", frames.write_table(table), frames.ARROW_STREAM)
    sheet = pb.Sheet(id=f"t{number}", title=title, rows=table.num_rows)
    sheet.data.CopyFrom(to_ref(stored))
    for field in table.schema:
        entity = field.name.partition(".")[0] if "." in field.name else ""
        sheet.columns.add(name=field.name, type=str(field.type), entity=entity, unit=units.get(field.name, ""))
    return Material(number, MaterialKind.SHEET, sheet, f"sheet_{number}", computed_by)


async def make_material(store: ObjectStore) -> tuple[Material, ...]:
    """Return prices of two companies, the cell that computed their returns, and its table."""
    fetched = await make_sheet(
        store, 1, {"AAPL.close": [26.75, 130.74], "MSFT.close": [44.5, 222.42]}, title="Apple, Microsoft: close"
    )
    code = Material(2, MaterialKind.CODE, CodeRecord(id="c", code="returns", ok=True))
    # One row per company and year, while answers have a column per year: cells are found by both headers.
    names, years = ["Apple", "Apple", "Microsoft", "Microsoft"], [2019, 2020, 2019, 2020]
    returns = await make_sheet(
        store, 3, {"company": names, "year": years, "return": [0.886, 0.806, 0.5755, 0.421]}, computed_by=2
    )
    return fetched, code, returns


async def check(store: ObjectStore, text: str, correct: bool = False) -> Any:
    known = await make_material(store)
    task = Task("run_1", "How did they do?", "m", Sampling(), Limits(10, 10_000, time.monotonic() + 100))
    episode = Episode(task, ())
    completion = Completion((1,), (2,), (0.0,), "", (), FinishReason.STOP, 0, 0, Usage(), True, "m")
    result = ToolResult(ToolCall("c0", "data", "{}"), "", "", ToolStatus.OK, 0, known)
    episode.append(Step(0, (), completion, (result,)))
    return await CheckedEnding(Evidence(store), correct=correct).finish(text, episode, False)


async def find_doubts(store: ObjectStore, text: str) -> list[tuple[str, str]]:
    answer = await check(store, text)
    return [(str(mark.kind), mark.text) for mark in answer.findings]


RETURNS = """Returns by year:

| Company | 2019 | 2020 | Change |
|:--|--:|--:|--:|
| Apple | 88.6% | {apple} | 8.0% |
| Microsoft | {microsoft} | 42.1% | 15.5% |
"""


async def test_a_table_whose_cells_check_out_costs_no_correction_round(store: ObjectStore) -> None:
    answer = await check(store, RETURNS.format(apple="80.6%", microsoft="57.6%"), correct=True)
    assert isinstance(answer, Answer)
    assert answer.findings == ()


async def test_a_wrong_cell_is_marked_alone(store: ObjectStore) -> None:
    text = RETURNS.format(apple="81.9%", microsoft="57.6%")
    # The change that follows from it has lost its ground, too, as in prose.
    assert ("unsupported", "81.9%") in await find_doubts(store, text)
    assert not any("88.6" in words or "42.1" in words for _, words in await find_doubts(store, text))


async def test_a_number_of_another_row_or_column_is_found_by_the_headers(store: ObjectStore) -> None:
    swapped = await find_doubts(store, "| Company | 2019 |\n|---|---|\n| Apple | 57.6% |\n| Microsoft | 57.6% |")
    assert swapped == [("event", "57.6%")]
    other_year = await find_doubts(store, "| Company | 2019 |\n|---|---|\n| Apple | 80.6% |")
    assert other_year == [("time", "80.6%")]
    turned = await find_doubts(store, "| Year | Apple | Microsoft |\n|---|---|---|\n| 2020 | 80.6% | 57.6% |")
    assert turned == [("time", "57.6%")]


async def test_a_header_gives_the_unit(store: ObjectStore) -> None:
    assert await find_doubts(store, "| Company | Return 2019 (%) |\n|---|---|\n| Apple | 88.6 |") == []
    assert await find_doubts(store, "| 公司 | 2019年收益率（%） |\n|---|---|\n| Apple | 88.9 |") != []


async def test_totals_and_means_of_a_column_need_no_source(store: ObjectStore) -> None:
    rows = "| Apple | 88.6% |\n| Microsoft | 57.55% |"
    assert await find_doubts(store, f"| Company | 2019 |\n|---|---|\n{rows}\n| Mean | 73.1% |") == []
    assert await find_doubts(store, f"| Company | 2019 |\n|---|---|\n{rows}\n| Mean | 74.9% |") != []


async def test_a_citation_of_the_cell_covers_its_table_and_of_another_does_not(store: ObjectStore) -> None:
    assert await find_doubts(store, "Apple returned 88.6% in 2019 [2].") == []
    assert await find_doubts(store, "| Company | Return |\n|---|---|\n| Apple | 88.6% [2] |") == []
    assert await find_doubts(store, "| Company | Close |\n|---|---|\n| Apple | 130.74 [2] |") == [("number", "130.74")]


def test_tables_are_found_with_and_without_outer_bars_and_text_behind_them_is_read() -> None:
    text = "Before 10.5%.\n\na | b\n---|---\nx | 20.5\n\nAfter 30.5%."
    [table] = find_tables(text)
    assert [cell.text.strip() for row in (table.header, *table.rows) for cell in row] == ["a", "b", "x", "20.5"]
    numbers = [(text[s.start + n.start : s.start + n.end], s.row) for s in parse_sentences(text) for n in s.numbers]
    assert numbers == [("10.5%", False), ("20.5", True), ("30.5%", False)]


def test_names_of_rows_are_no_numbers_and_lists_of_values_are() -> None:
    named = parse_sentences("| Index | Level |\n|---|---|\n| S&P 500 | 3756.07 |")
    assert [number.value for cell in named for number in cell.numbers] == [3756.07]
    values = parse_sentences("| Low | High |\n|---|---|\n| 100.5 | 200.5 |\n| 1.5 bn | 2.5 bn |")
    assert [number.value for cell in values for number in cell.numbers] == [100.5, 200.5, 1.5e9, 2.5e9]
