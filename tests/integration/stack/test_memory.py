"""Earlier turns in a whole stack: recalled in both languages, shown to a run beyond its window, exported and erased."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.records import memory as memory_records
from fathom.clients import Clients, connect
from fathom.core.errors import InvalidField, NotFound, PermissionDenied
from fathom.core.ids import new_id
from fathom.domain.chat.pipeline import FROM_MEMORY
from fathom.operations.schedules import open_schedules
from fathom.services.gateway.links.store import Link, LinkStore, hash_token
from fathom.services.gateway.schedules.recurrence import Recurrence
from fathom.services.gateway.schedules.store import Firing, Schedule, ScheduleStore
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore
from tests.integration.stack.test_ask import Stack, ask

pytestmark = pytest.mark.asyncio(loop_scope="package")
TURNS = (
    ("Which basket do we follow?", "The basket has Pfizer, Lilly and Merck in equal parts."),
    ("北川机械的毛利率是多少？", "北川机械2020年的毛利率为31.2%。"),
    *((f"What is term number {number}?", f"Term {number} is a term of accounting.") for number in range(10)),
)


async def fill(clients: Clients) -> str:
    conversation = new_id("conv")
    for question, answer in TURNS:
        turn = memory.Turn(question=question, answer=answer)
        request = memory.AppendTurnRequest(request_id=new_id("turn"), conversation_id=conversation, turn=turn)
        await clients.memory.append_turn(request)
    return conversation


@pytest.mark.parametrize(
    ("question", "number"), [("the pharmaceutical companies that we hold", 1), ("那家机械公司的毛利", 2)]
)
async def test_a_turn_is_recalled_by_its_meaning(stack: Stack, question: str, number: int) -> None:
    _, clients = stack
    conversation = await fill(clients)
    request = memory.SearchMemoryRequest(question=question, conversation_id=conversation)
    found = await clients.memory.search_memory(request)
    assert found.method == memory.RECALL_METHOD_MEANING_AND_WORDS
    assert found.pages[0].turn.number == number
    assert found.pages[0].turn.end_time.seconds > 1_700_000_000
    assert {page.segment for page in found.pages} == {segment.id for segment in found.segments}


@pytest.mark.parametrize("protocol", [trajectory.PROTOCOL_RESEARCH, trajectory.PROTOCOL_WORKFLOW])
async def test_a_run_is_shown_what_its_window_has_lost(stack: Stack, protocol: trajectory.Protocol) -> None:
    _, clients = stack
    conversation = await fill(clients)
    question = "Which companies are in the basket that we follow?"
    events = await ask(clients, question, protocol=protocol, conversation_id=conversation)
    run = (await clients.planner.get_run(pb.GetRunRequest(run_id=events[0].run_id))).trajectory
    shown = "\n".join(message.content for step in run.steps for message in step.new_messages)
    is_agent = protocol == trajectory.PROTOCOL_RESEARCH
    # The workflow of the reference policy sees one whole question; it may ask memory by its tools.
    assert (FROM_MEMORY["en"] in shown) == is_agent
    assert ("Pfizer, Lilly and Merck" in shown) or not is_agent
    assert (await clients.planner.replay_run(pb.ReplayRunRequest(run_id=events[0].run_id))).same


async def test_what_is_exported_can_be_erased(stack: Stack) -> None:
    endpoints, operator = stack
    others = await fill(operator)
    fund = connect(dict(endpoints.services), tenant="fund-that-leaves")
    try:
        conversation = await fill(fund)
        whole = memory.MemoryScope(tenant="fund-that-leaves", everybody=True)
        rows = await export(operator, whole)
        turns = [json.loads(row.row_json) for row in rows if row.table == "turns"]
        assert [turn["conversation"] for turn in turns] == [conversation] * len(TURNS)
        erased, has_more = Counter[str](), True
        while has_more:
            request = memory.EraseMemoryRequest(request_id=new_id("e"), scope=whole)
            reply = await operator.memory.erase_memory(request)
            erased.update({table.table: table.rows for table in reply.tables})
            has_more = reply.has_more
        assert (erased["turns"], erased["conversations"]) == (len(TURNS), 1)
        assert await export(operator, whole) == []
        assert not (await fund.memory.list_conversations(memory.ListConversationsRequest())).conversations
        with pytest.raises(NotFound):
            await fund.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation))
    finally:
        await fund.close()
    listed = await operator.memory.list_turns(memory.ListTurnsRequest(conversation_id=others))
    assert len(listed.turns) == len(TURNS), "another tenant's turns stay"


async def export(clients: Clients, scope: memory.MemoryScope) -> list[memory.ExportedRow]:
    """Return all rows of a scope."""
    rows: list[memory.ExportedRow] = []
    token, is_first = "", True
    while is_first or token:
        asked = memory.ExportMemoryRequest(scope=scope, page_size=1000, page_token=token)
        page = await clients.memory.export_memory(asked)
        rows += page.rows
        token, is_first = page.next_page_token, False
    return rows


async def test_the_commands_export_and_erase_schedules_and_links_with_what_runs_left(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints, _ = stack
    recurrence, firings = Recurrence("day", "09:00", "UTC", 0), (Firing("run_of_anne", 1.0, 2.0, 0),)
    # In another year than this one, so that no gateway asks it meanwhile.
    ask_again = {"question": "How is Anne's basket?", "conversation_id": "conv_anne"}
    schedule = Schedule(
        "schedule_anne", ask_again, recurrence, "user:anne", created=1.0, due=4e9, firings=firings, is_paused=True
    )
    store = open_store(endpoints.store)
    await store.put("results/run_of_anne/table.arrow", b"Anne's basket")
    links = LinkStore(TenantStore(store), store)
    for name, creator, run in (("anne", "user:anne", "run_of_anne"), ("bert", "user:bert", "run_of_bert")):
        title = f"How is {name}'s basket?"
        await links.add(Link(hash_token(name), run, "", 0, "anyone", "en", title, creator, 1.0, 4e9, (run,)))
    scope, rows = memory.MemoryScope(principal="user:anne"), tmp_path / "rows.jsonl"
    there = (endpoints.store, endpoints.nats, tmp_path, endpoints.services["memory"])
    async with open_schedules(endpoints.nats) as bucket:
        await ScheduleStore(bucket, 5).add(schedule)
        await asyncio.to_thread(memory_records.export, rows, scope, *there)
        await asyncio.to_thread(memory_records.erase, scope, *there)
        left = [place.schedule.id async for place in ScheduleStore(bucket, 5).scan()]
    [row, link] = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (row["table"], row["ask"]) == ("schedules", ask_again)
    assert (link["table"], link["title"], link["runs"]) == ("links", "How is anne's basket?", ["run_of_anne"])
    said = capsys.readouterr().out
    assert "1 schedules, 1 links" in said.splitlines()[0]
    assert "memory: 1 schedules, 1 links" in said
    assert "schedule_anne" not in left
    assert await store.keys("results/run_of_anne/") == []
    with pytest.raises(NotFound):
        await links.find(hash_token("anne"))
    assert (await links.find(hash_token("bert"))).title == "How is bert's basket?"
    await links.withdraw(hash_token("bert"))
    await store.close()


@pytest.mark.parametrize("field", ["store", "bus"])
async def test_links_and_schedules_are_left_out_only_by_a_word(stack: Stack, tmp_path: Path, field: str) -> None:
    endpoints, _ = stack
    scope, rows = memory.MemoryScope(principal="user:anne"), tmp_path / "rows.jsonl"
    places = {"store": endpoints.store, "bus": endpoints.nats, field: ""}
    where = (places["store"], places["bus"], tmp_path, endpoints.services["memory"])
    for work in (lambda: memory_records.export(rows, scope, *where), lambda: memory_records.erase(scope, *where)):
        with pytest.raises(InvalidField, match=field):
            await asyncio.to_thread(work)


async def test_a_tenant_that_guesses_gets_nothing(stack: Stack) -> None:
    endpoints, clients = stack
    conversation = await fill(clients)

    other = connect(dict(endpoints.services), tenant="fund-9")
    try:
        request = memory.SearchMemoryRequest(question="the basket", conversation_id=conversation)
        assert not (await other.memory.search_memory(request)).pages
        for scope in (memory.MemoryScope(tenant="default"), memory.MemoryScope(everybody=True)):
            with pytest.raises(PermissionDenied):
                await other.memory.export_memory(memory.ExportMemoryRequest(scope=scope))
            with pytest.raises(PermissionDenied):
                await other.memory.erase_memory(memory.EraseMemoryRequest(request_id=new_id("e"), scope=scope))
    finally:
        await other.close()
