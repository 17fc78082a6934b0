"""Tables of results on the whole stack: computed in a cell, placed, cited, exported, resumed, used by the next turn."""

from __future__ import annotations

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.integration.stack.scripted_model import ScriptedModel, Scripts

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.timeout(120)]
Stack = tuple[Endpoints, Clients]
FIRST = "Which of Apple and Microsoft rose more in 2020?"
CODE = """
closes = sheet_1.set_index('date')[['AAPL.close_adj', 'MSFT.close_adj']]
rise = (closes.iloc[-1] / closes.iloc[0] - 1).mul(100).round(2).rename('rise')
rise.index = ['Apple', 'Microsoft']
show_table(rise.rename_axis('company'), 'Rise in 2020', units={'rise': '%'})
"""
FIRST_ANSWER = "Apple rose more."
FOLLOW_UP = "How far apart were they?"
GAP = "rise = sheet_2.set_index('company')['rise']\nround(rise['Apple'] - rise['Microsoft'], 2)"
SCRIPTS: Scripts = {
    # The key that comes first in a request wins, and the second turn has the first one's question as well. The planner
    # puts a follow-up into other words, so that only the answer before it is sure to be there.
    FIRST_ANSWER: [
        ("python", {"code": GAP}),
        ("python", {"code": "sheet_2.sort_values('rise')"}),
        *[("finish", {"answer": "See the table [2].\n\n{{table:sheet_2}}", "restated_question": FOLLOW_UP})] * 2,
    ],
    FIRST: [
        ("data", {"question": "adjusted close of Apple and Microsoft, daily, 2020"}),
        ("python", {"code": CODE}),
        # Twice: an answer may come back once with what it leaves open.
        *[("finish", {"answer": "Apple rose more [2].\n\n{{table:sheet_2}}", "restated_question": FIRST})] * 2,
    ],
}


async def ask(clients: Clients, question: str, conversation: str) -> tuple[str, pb.RunFinished]:
    run_id = new_id("run")
    request = pb.RunRequest(request_id=run_id, question=question, conversation_id=conversation, model="scripted")
    events = [event async for event in run(clients, request)]
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
    return run_id, events[-1].finished


async def test_a_frame_of_a_cell_is_a_table_of_the_answer(
    stack: Stack, scripted_door: tuple[ScriptedModel, str]
) -> None:
    _, clients = stack
    with scripted_door[0].telling(SCRIPTS):
        run_id, finished = await ask(clients, FIRST, new_id("conv"))
    # What nothing has computed is said to be unchecked, and is no error.
    wrong = [mark for mark in finished.answer.findings if mark.kind != trajectory.FINDING_KIND_UNCHECKED]
    assert [(mark.text, mark.detail) for mark in wrong] == []
    [computed] = [item for item in finished.material if item.computed_by]
    assert (computed.variable, computed.computed_by, list(computed.computed_from)) == ("sheet_2", 2, ["sheet_1"])
    assert computed.sheet.title == "Rise in 2020"
    assert [(column.name, column.unit) for column in computed.sheet.columns] == [("company", ""), ("rise", "%")]
    assert all(column.source for column in computed.sheet.columns)
    # It is a table like any other: pages, files, and the record's replay.
    export = data.ExportTableRequest(sheet_id=computed.sheet.id, format=data.EXPORT_FORMAT_CSV)
    assert (await clients.datafetch.export_table(export)).file.size_bytes
    assert (await clients.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))).same


async def test_the_next_turn_has_the_tables_of_the_turn_before(
    stack: Stack, scripted_door: tuple[ScriptedModel, str]
) -> None:
    _, clients = stack
    conversation = new_id("conv")
    with scripted_door[0].telling(SCRIPTS) as model:
        await ask(clients, FIRST, conversation)
        run_id, finished = await ask(clients, FOLLOW_UP, conversation)
        said = [str(message["content"]) for message in model.seen[FIRST_ANSWER].messages[0]]
    # The old answer cites and places what there is now, and the list names it.
    assert said[-2].endswith("Apple rose more.\n\n{{table:sheet_2}}")
    assert "[2] sheet_2: Rise in 2020, 2 rows; columns company, rise (%)" in said[-1]
    assert [(item.number, item.variable) for item in finished.material if item.sheet.id] == [
        (1, "sheet_1"),
        (2, "sheet_2"),
        (5, "sheet_3"),
    ]
    assert finished.material[-1].computed_from == ["sheet_2"]
    assert [(mark.text, mark.detail) for mark in finished.answer.findings] == []
    assert (await clients.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))).same
