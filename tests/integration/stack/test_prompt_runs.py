"""Prompts through the real services: a run speaks with the ones that it names, and they are compared."""

from __future__ import annotations

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.services.local import Endpoints
from fathom.services.planner.commands.prompt import score_question
from fathom.services.planner.prompts.tools.compare import compare

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


async def test_questions_under_two_variants_are_compared(stack: Stack) -> None:
    _, clients = stack
    question = "What is maximum drawdown?"
    scores = [
        await score_question(clients, question, ["drawdown"], "answer", name, "rules")
        for name in ("evidence", "sections")
    ]
    lines = compare(scores)
    assert [line.prompt for line in lines] == ["answer.evidence.v1.en", "answer.sections.v1.en"]
    assert all(line.finished == line.expected == 1.0 and line.win_rate == 0.5 for line in lines)


async def test_a_prompt_that_is_not_there_stops_the_run_by_name(stack: Stack) -> None:
    _, clients = stack
    with pytest.raises(errors.InvalidField) as bad:
        async for _ in clients.planner.run(pb.RunRequest(question="What is CAGR?", prompts={"answer": "nope"})):
            pass
    assert bad.value.field == "prompts.answer"


async def test_what_was_asked_is_restated_in_the_trace_and_not_in_the_answer(stack: Stack) -> None:
    """On by default."""
    _, clients = stack
    question = "What is maximum   drawdown?"
    events = [response.event async for response in clients.planner.run(pb.RunRequest(question=question, model="rules"))]
    said = [event.thought.text for event in events if event.HasField("thought") and event.thought.kind == "restatement"]
    assert said == ["What is maximum drawdown?"]
    assert said[0] not in events[-1].finished.answer.markdown
