"""Tables of earlier turns: stable names, the newest within limits, and old answers whose references mean something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import GetSheetRequest, GetSheetResponse, Sheet
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.planner.v1.planner_pb2 import RunRequest
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain.chat.guidance import list_given_tables, with_guidance
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.prompts.selection import describe_tables
from fathom.services.planner.runs import conversation
from fathom.services.planner.runs.conversation import Conversation, load_conversation, load_followed
from fathom.services.planner.runs.repository import RunRepository
from fathom.transport.store import open_store


def table(number: int, name: str, ident: str, *, size: int = 10, computed: bool = False) -> pb.Material:
    sheet = Sheet(id=ident, title=f"Table {ident}", rows=3)
    sheet.data.size_bytes = size
    return pb.Material(number=number, sheet=sheet, variable=name, computed_by=1 if computed else 0)


def end(run_id: str, answer: str, *material: pb.Material, given: tuple[pb.Material, ...] = ()) -> pb.Trajectory:
    """Return the record of a run that ended with this answer."""
    made = pb.Trajectory(run_id=run_id, given=given, stop_reason=pb.STOP_REASON_FINISHED)
    made.steps.add(material=material)
    made.answer.markdown = answer
    return made


async def load(
    *runs: pb.Trajectory, record: RunRepository | None = None, is_first: bool = True, run_id: str = "run_new"
) -> Conversation:
    record = record or RunRepository(open_store("memory://"))
    for run in runs:
        await record.put_trajectory(run)
    turns = [
        memory.WindowTurn(number=number, question="Q?", answer=run.answer.markdown, run_id=run.run_id)
        for number, run in enumerate(runs, 1)
    ]

    async def get_window(request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        return memory.GetWindowResponse(turns=turns)

    clients = SimpleNamespace(memory=SimpleNamespace(get_window=get_window))
    request = RunRequest(conversation_id="conv_1")
    followed = await load_followed(cast(Any, clients), record, request)
    return await load_conversation(cast(Any, clients), record, run_id, request, followed, is_first)


def names(found: Conversation) -> list[tuple[int, str, str]]:
    return [(item.number, item.variable, item.item.id) for item in found.given]


async def test_tables_keep_their_names_over_the_turns() -> None:
    first = table(1, "sheet_1", "a"), table(3, "sheet_2", "b", computed=True)
    found = await load(
        end("run_1", "One.", *first),
        end("run_2", "Two.", table(3, "sheet_3", "c"), given=(table(1, "sheet_1", "a"), table(2, "sheet_2", "b"))),
    )
    assert names(found) == [(1, "sheet_1", "a"), (2, "sheet_2", "b"), (3, "sheet_3", "c")]
    assert all(not item.computed_by for item in found.given), "its cell belongs to another run"


async def test_the_newest_and_the_used_tables_fit_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_SHEETS", 2)
    material = [table(n, f"sheet_{n}", f"t{n}") for n in range(1, 5)]
    assert names(await load(end("run_1", "See {{table:sheet_1}}.", *material))) == [
        (1, "sheet_1", "t1"),
        (2, "sheet_4", "t4"),
    ]
    large = end("run_1", "One.", table(1, "sheet_1", "a"), table(2, "sheet_2", "b", size=1 << 30))
    assert names(await load(large)) == [(1, "sheet_1", "a")]


async def test_a_name_that_two_runs_gave_stays_with_the_newer_table() -> None:
    found = await load(
        end("run_1", "{{table:sheet_1}}", table(1, "sheet_1", "old")),
        end("run_2", "Two.", table(1, "sheet_1", "new"), table(2, "sheet_2", "b")),
    )
    assert names(found) == [(1, "sheet_1", "new"), (2, "sheet_2", "b"), (3, "sheet_3", "old")]
    assert found.history[1].content == "{{table:sheet_3}}"


async def test_references_of_old_answers_are_those_of_the_new_run_or_words() -> None:
    code = pb.Material(number=2, code=pb.CodeRecord(ok=True, figures=[pb.Figure(id="fig_1", title="Prices")]))
    note = pb.Material(number=3, passage=Document(title="A note"))
    answer = (
        "It rose [2] by 5% [1, 3]; again [3] and [9].\n\n{{table:sheet_1}}\n\n{{figure:fig_1}}\n\n{{table:sheet_8}}"
        " and `x[1]`"
    )
    found = await load(end("run_1", answer, table(1, "sheet_1", "a"), code, note))
    assert found.history[1].content == (
        "It rose by 5% [1](A note); again and.\n\n{{table:sheet_1}}\n\n(figure: Prices)\n\n(table) and `x[1]`"
    )


async def test_a_run_keeps_the_tables_it_began_with() -> None:
    record = RunRepository(open_store("memory://"))
    one = end("run_1", "One.", table(1, "sheet_1", "a"))
    begun = await load(one, record=record)
    later = await load(one, end("run_2", "Two.", table(1, "sheet_1", "b")), record=record, is_first=False)
    assert names(later) == names(begun) == [(1, "sheet_1", "a")]
    # One that began without any, when its conversation was still empty, gets none in the middle of its work.
    assert names(await load(one, is_first=False)) == []


async def test_a_callers_tables_come_after_those_of_the_conversation() -> None:
    """Also in a conversation that is new, and once each; a later attempt finds what the first one began with."""

    async def get_window(request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        turn = memory.WindowTurn(number=1, question="Q?", answer="One.", run_id="run_1")
        return memory.GetWindowResponse(turns=[turn] if request.conversation_id == "conv_1" else [])

    async def get_sheet(request: GetSheetRequest) -> GetSheetResponse:
        return GetSheetResponse(sheet=Sheet(id=request.sheet_id, title="Mine", rows=3))

    services = SimpleNamespace(get_window=get_window), SimpleNamespace(get_sheet=get_sheet)
    clients, record = SimpleNamespace(memory=services[0], datafetch=services[1]), RunRepository(open_store("memory://"))
    await record.put_trajectory(end("run_1", "One.", table(1, "sheet_1", "a")))

    async def begin(run_id: str, conversation_id: str, *own: str, is_first: bool = True) -> Conversation:
        request = RunRequest(conversation_id=conversation_id, table_ids=own)
        followed = await load_followed(cast(Any, clients), record, request)
        return await load_conversation(cast(Any, clients), record, run_id, request, followed, is_first)

    found = await begin("run_2", "conv_1", "b", "a")
    assert names(found) == [(1, "sheet_1", "a"), (2, "sheet_2", "b")]
    assert names(await begin("run_2", "conv_1", "b", is_first=False)) == names(found)
    assert names(await begin("run_3", "conv_2", "b", "c")) == [(1, "sheet_1", "b"), (2, "sheet_2", "c")]


async def test_a_turn_without_its_record_is_text_only() -> None:
    async def get_window(request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        turn = memory.WindowTurn(number=1, question="Q?", answer="It rose [1].\n{{table:sheet_1}}", run_id="run_gone")
        return memory.GetWindowResponse(turns=[turn])

    clients = SimpleNamespace(memory=SimpleNamespace(get_window=get_window))
    record = RunRepository(open_store("memory://"))
    request = RunRequest(conversation_id="conv_1")
    followed = await load_followed(cast(Any, clients), record, request)
    found = await load_conversation(cast(Any, clients), record, "run_1", request, followed, is_first=True)
    assert (found.history[1].content, found.given) == ("It rose.\n(table)", ())


@pytest.mark.parametrize("question", ["What did it cost?", "成本是多少？"])
def test_the_tables_that_a_run_begins_with_are_read_out_of_its_message(question: str) -> None:
    sheets = [Sheet(title=title, rows=1_204) for title in ("Plants 2031.xlsx Cost", "prices, daily.csv")]
    given = tuple(Material(at, MaterialKind.SHEET, one, f"sheet_{at}") for at, one in enumerate(sheets, 1))
    task = cast(Any, SimpleNamespace(question=question, sheets=(), given=given))
    message = with_guidance(question, ["Date: 2031-04-05", *describe_tables(task)])
    assert list_given_tables(message) == ["Plants 2031.xlsx Cost", "prices, daily.csv"]
    assert list_given_tables(question) == []
