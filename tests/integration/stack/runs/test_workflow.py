"""The workflow over the real stack with the reference policy: order, widening, conversations, both modes, durability."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.pipeline import read_ask
from fathom.services.local import Endpoints
from tests.integration.stack.planners import planners
from tests.integration.stack.runs.test_resume import follow_run, murder
from tests.support.observer import list_logged

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "How did US unemployment and inflation move from 2007 to 2009, and why?"


async def ask(clients: Clients, question: str, **fields: object) -> list[pb.RunEvent]:
    request = pb.RunRequest(question=question, **{"protocol": trajectory.PROTOCOL_WORKFLOW, **fields})  # type: ignore[arg-type]
    return [event async for event in run(clients, request)]


def list_stages(events: Sequence[pb.RunEvent]) -> list[str]:
    """The names of the stages; an answer that leaves a part open is composed twice."""
    names = [stage.name for stage in stages(events)]
    return names[:-1] if names[-2:] == ["compose", "compose"] else names


def stages(events: Sequence[pb.RunEvent]) -> list[trajectory.StageNote]:
    return [event.staged.stage for event in events if event.HasField("staged")]


async def test_a_question_is_planned_collected_reflected_on_and_answered_with_sources(stack: Stack) -> None:
    _, clients = stack
    events = await ask(clients, QUESTION)
    logged = list_logged(events)
    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
    assert list_stages(events) == ["plan", "reflect", "compose"]
    plan = stages(events)[0]
    assert [query.tool for query in plan.queries] == ["data", "search", "search", "search"]
    assert [query.text.count(year) for query, year in zip(plan.queries[1:], ("2007", "2008", "2009"), strict=True)] == [
        1, 1, 1,
    ]  # fmt: skip
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    answer = finished.answer
    # By hand, from the bundled series: 4.6 % at the end of January 2007, 9.9 % at the end of December 2009.
    assert "4.6%" in answer.markdown
    assert "9.9%" in answer.markdown
    assert "{{table:sheet_1}}" in answer.markdown
    assert answer.cited
    assert not answer.unresolved
    assert not answer.findings
    assert answer.model == "rules"
    drafts = [event.answer_delta.text for event in events if event.answer_delta.draft]
    assert drafts, "it is read while it is written"
    replaced = max((n for n, event in enumerate(events) if event.HasField("answer_replaced")), default=0)
    assert "".join(event.answer_delta.text for event in events[replaced:]) == answer.markdown
    replayed = await clients.planner.replay_run(pb.ReplayRunRequest(run_id=events[0].run_id))
    assert replayed.same, replayed


@pytest.mark.parametrize("question", ["How profitable is Apple?", "贵州茅台盈利能力怎么样？"])
async def test_how_profitable_takes_many_indicators_and_what_is_missing_is_said(stack: Stack, question: str) -> None:
    """Whatever the data tool is asked has a name in the library."""
    _, clients = stack
    events = await ask(clients, question)
    plan = stages(events)[0]
    sent = [query for query in plan.queries if not query.dropped]
    named = {name for query in sent if query.tool == "data" for name in query.indicators}
    assert len(named) >= 6, named
    assert len([query for query in sent if query.tool == "data" and query.indicators]) >= 3
    assert {one.part for one in plan.widening} == {"frameworks", "indicators", "association"}
    assert not any(one.error for one in plan.widening)
    unknown = {flaw.detail for flaw in plan.flaws if flaw.fault == "unknown_indicator"}
    asked = [query.text for query in sent if query.tool == "data"]
    assert unknown
    assert not any(name in text for name in unknown for text in asked)
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    # The bundle has no statements: the answer says what it lacks instead of making it up.
    assert "Missing:" in finished.answer.markdown or "缺失：" in finished.answer.markdown
    assert not finished.answer.findings
    # What the data tool did not have was asked of documents.
    reflection = stages(events)[1]
    assert {query.tool for query in reflection.queries if not query.dropped} >= {"search"}


async def test_a_follow_up_is_made_self_contained_and_remembered_so(stack: Stack) -> None:
    _, clients = stack
    conversation = new_id("conv")
    await ask(clients, "What was Apple's closing price on 2020-12-31?", conversation_id=conversation)
    events = await ask(clients, "And Microsoft's?", conversation_id=conversation)
    assert list_stages(events) == ["rewrite", "plan", "reflect", "compose"]
    rewritten = stages(events)[0].text
    assert "Microsoft" in rewritten
    assert "2020-12-31" in rewritten
    assert "217.502" in events[-1].finished.answer.markdown
    found = (await clients.planner.get_run(pb.GetRunRequest(run_id=events[0].run_id))).trajectory
    assert (found.question, found.understood) == ("And Microsoft's?", rewritten)
    for step in found.steps:
        # The reference policy needs no stage for it: the planner has rewritten before.
        assert step.stage.name != "rewrite"
        text = "\n".join(message.content for message in step.new_messages)
        assert "Apple" not in text
        assert "130.735" not in text
    turns = (await clients.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation))).turns
    assert [turn.rewritten_question for turn in turns] == ["", rewritten]
    assert read_ask(found.steps[0].new_messages[1].content) is not None


async def test_the_agent_answers_a_follow_up_as_the_whole_question(stack: Stack) -> None:
    _, clients = stack
    conversation = new_id("conv")
    own = {"protocol": trajectory.PROTOCOL_RESEARCH, "conversation_id": conversation}
    await ask(clients, "What was Apple's closing price on 2020-12-31?", **own)
    events = await ask(clients, "And Microsoft's?", **own)
    assert [stage.text for stage in stages(events)] == ["What was Microsoft's closing price on 2020-12-31?"]
    assert "217.50" in events[-1].finished.answer.markdown


async def test_the_same_question_in_both_modes_is_one_conversation(stack: Stack) -> None:
    """Through the gateway."""
    endpoints, clients = stack
    conversation = new_id("conv")
    question = "What was Apple's closing price on 2020-12-31?"
    async with httpx.AsyncClient(base_url=endpoints.gateway, timeout=60) as http:
        ids = []
        for mode in ("research", "workflow"):
            body = {"question": question, "conversation_id": conversation, "mode": mode}
            started = await http.post("/v1/runs", json=body)
            assert started.status_code == 202, started.text
            ids.append(started.json()["run_id"])
            async with http.stream("GET", f"/v1/runs/{ids[-1]}/events") as events:
                kinds = [json.loads(line[6:]) async for line in events.aiter_lines() if line.startswith("data: {")]
            assert kinds[-1]["finished"]["stop_reason"] == "STOP_REASON_FINISHED"
            # A run that waits tells its place before it starts.
            (begun,) = [event["started"] for event in kinds if "started" in event]
            assert begun["protocol"] == f"PROTOCOL_{mode.upper()}"
            assert any("staged" in event for event in kinds) is (mode == "workflow")
        turns = (await http.get(f"/v1/conversations/{conversation}")).json()["turns"]
        assert [turn["run_id"] for turn in turns] == ids
        assert [turn["question"] for turn in turns] == [question, question]
        # 130.735 in full; the agent's cell rounds to the cent.
        assert all("130.73" in turn["answer"] or "130.74" in turn["answer"] for turn in turns)
        bad = await http.post("/v1/runs", json={"question": question, "mode": "workflow", "protocol": "research"})
        assert bad.status_code == 400
        assert bad.json()["field"] == "mode"
    records = [(await clients.planner.get_run(pb.GetRunRequest(run_id=one))).trajectory for one in ids]
    sheets = [
        [item.sheet.id for step in one.steps for item in step.material if item.HasField("sheet")] for one in records
    ]
    assert sheets[0] == sheets[1], "the same data behind both"


async def test_a_route_is_told_and_taken(stack: Stack) -> None:
    _, clients = stack
    found = await clients.planner.route_question(pb.RouteQuestionRequest(question="How profitable is Apple?"))
    assert (found.unsure, found.mode, found.protocol) == (False, pb.MODE_WORKFLOW, trajectory.PROTOCOL_WORKFLOW)
    assert found.needs_evidence
    assert found.reason
    with pytest.raises(InvalidField, match="question"):
        await clients.planner.route_question(pb.RouteQuestionRequest(question=" "))
    simple = await ask(clients, "Hello", protocol=trajectory.PROTOCOL_AUTO)
    (begun,) = [event.started for event in simple if event.HasField("started")]
    assert begun.protocol == trajectory.PROTOCOL_RESEARCH
    assert simple[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED


async def test_a_group_of_workflows_is_rolled_out_for_a_trainer(stack: Stack) -> None:
    _, clients = stack
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question="What was Apple's closing price on 2020-12-31?")],
        group_size=2, protocol=trajectory.PROTOCOL_WORKFLOW, model="rules",
    )  # fmt: skip
    found = [response.trajectory async for response in clients.planner.rollout(request)]
    assert len(found) == 2
    for one in found:
        assert [step.stage.name for step in one.steps] == ["plan", "reflect", "compose"]
        assert len(one.segments) == 3
        assert sum(map(len, (part.mask for part in one.segments))) == sum(len(part.token_ids) for part in one.segments)
        assert "130.735" in one.answer.markdown


@pytest.mark.parametrize(("method", "place"), [("Generate", 2), ("Query", 1)], ids=["between stages", "in collecting"])
async def test_a_killed_planners_workflow_is_finished_by_another(
    stack: Stack, tmp_path: Path, method: str, place: int
) -> None:
    endpoints, _ = stack
    async with planners(endpoints, tmp_path, "first", "second") as (found, clients):
        run_id = new_id("run")
        dead = murder(found, run_id, method, place)
        request = pb.RunRequest(request_id=run_id, question=QUESTION, protocol=trajectory.PROTOCOL_WORKFLOW)
        async with aclosing(clients.planner.run(request)) as responses:
            # A run that waits tells its place before it starts.
            async for response in responses:
                if response.event.HasField("started"):
                    break
        async with asyncio.timeout(60):
            events = await follow_run(found, run_id, dead)
        assert len(dead) == 1
        finished = events[-1].finished
        assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
        assert "9.9%" in finished.answer.markdown
        assert list_stages(events) == ["plan", "reflect", "compose"]
        logged = list_logged(events)
        assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
        sampled = found.list_calls("Generate")
        assert len(sampled) - len(set(sampled)) == (1 if method == "Generate" else 0)


async def test_the_terminal_takes_a_mode_and_shows_the_stages(stack: Stack) -> None:
    endpoints, _ = stack
    planner = endpoints.services["planner"]

    async def fathom(*arguments: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fathom.cli.main", *arguments, "--planner", planner,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={**os.environ, "COLUMNS": "160"},
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode or 0, out.decode()

    question = "What was Apple's closing price on 2020-12-31?"
    code, out = await fathom("ask", question, "--mode", "workflow")
    assert code == 0, out
    assert "130.735" in out
    assert [word for word in ("▸ plan", "▸ reflect", "▸ compose") if word not in out] == []
    run_id = out.split("run run_", 1)[1].split(",")[0]
    code, shown = await fathom("runs", "show", f"run_{run_id}")
    assert code == 0, shown
    assert "▸ plan 1 sub-questions" in shown
    code, out = await fathom("ask", question, "--mode", "magic")
    assert code != 0
    assert "research, workflow, auto" in " ".join(out.split())
