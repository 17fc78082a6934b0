"""Answers before and after 20 conversations of others: ``python -m tests.bench remembered``.

``tests/golden/memory/changes.jsonl`` names the conversations, of four authors who did not know the code, what of each
lasts, and a question whose answer it should change. Each is played in a tenant of its own, with the reference policy:
the question is asked without memory, then the user's messages are, and the question again in a new conversation. What
was not learnt of the messages is put by hand, as the page does. An earlier conclusion (``conclusion``) is the sentence
that the set says contradicts what the data say. Counted are answers that change as they should, runs that say what of
memory they were given, and answers that are as before once the user has deleted it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients, connect
from fathom.clients.runs import run as run_events
from fathom.core.ids import new_id
from tests.bench.planner.questions import MODELS, running_stack
from tests.bench.planner.router import read_lines

GOLD = Path(__file__).parents[2] / "golden" / "memory"
CONCLUSION = "conclusion"
# Learning runs behind the answer; whatever is not there by then counts as not learnt.
LEARNING_S, LOOK_S = 20.0, 0.25
AT_ONCE = 2
RUN_ID = re.compile(r"run_[0-9a-f_]+")


@dataclass(frozen=True)
class Played:
    """A run's answer, its effort, and what of its user's memory it was given."""

    answer: str
    effort: int
    remembered: Any

    def is_as(self, other: Played) -> bool:
        """Return whether another run was played and answered the same."""
        return (self.effort, self.answer) == (other.effort, other.answer)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one conversation."""

    kind: str
    is_learnt: bool
    is_changed: bool
    is_visible: bool
    is_undone: bool


async def run() -> None:
    """Print the figures by kind and of all."""
    cases = read_lines(GOLD / "changes.jsonl")
    gate = asyncio.Semaphore(AT_ONCE)
    async with running_stack(MODELS) as endpoints:

        async def play(case: dict[str, Any]) -> Outcome:
            async with gate, AsyncExitStack() as stack:
                sides = []
                for name in ("before", "after"):
                    clients = connect(endpoints.services, tenant=f"{case['id']}-{name}")
                    stack.push_async_callback(clients.close)
                    sides.append(clients)
                return await try_case(case, *sides)

        outcomes = await asyncio.gather(*map(play, cases))
    for kind in [*dict.fromkeys(one.kind for one in outcomes), "all"]:
        print(describe(kind, [one for one in outcomes if kind in (one.kind, "all")]))
    for case, one in zip(cases, outcomes, strict=True):
        if not (one.is_changed and one.is_visible and one.is_undone):
            print(f"  {case['id']}: {one}")


def describe(kind: str, outcomes: Sequence[Outcome]) -> str:
    """Return the line of a kind."""
    counted = Counter[str]()
    for one in outcomes:
        counted.update(
            {"changed": one.is_changed, "visible": one.is_visible, "undone": one.is_undone, "learnt": one.is_learnt}
        )
    # Earlier conclusions are put, since these sets' own answers are not the product's.
    learnt = sum(one.kind != CONCLUSION for one in outcomes)
    return (
        f"{kind}: of {len(outcomes)} answers {counted['changed']} change as they should, {counted['visible']} runs say"
        f" why, {counted['undone']} are as before once it is deleted; learnt of the words themselves"
        f" {counted['learnt']} of {learnt}"
    )


async def try_case(case: Mapping[str, Any], without: Clients, having: Clients) -> Outcome:
    """Play a conversation in two tenants, of which one has its memory."""
    before = await ask(without, case["question"])
    place = place_conclusion if case["kind"] == CONCLUSION else place_fact
    is_learnt, forget = await place(case, without, having)
    after = await ask(having, case["question"])
    await forget()
    undone = await ask(having, case["question"])
    has_expected = all(one in after.answer for one in case["expected"])
    is_new = not case["expected"] or any(one not in before.answer for one in case["expected"])
    return Outcome(
        kind=case["kind"],
        is_learnt=is_learnt,
        is_changed=has_expected and is_new and not after.is_as(before),
        is_visible=bool(after.remembered.facts or after.remembered.stances),
        is_undone=undone.is_as(before),
    )


async def place_fact(
    case: Mapping[str, Any], _: Clients, having: Clients
) -> tuple[bool, Callable[[], Awaitable[None]]]:
    """Play the user's messages; return whether the fact was learnt of them, and what deletes all that was."""
    conversation = new_id("conv")
    turns = next(row["turns"] for row in read_lines(GOLD / case["file"]) if row["id"] == case["id"])
    for turn in turns:
        if turn["role"] == "user":
            await ask(having, turn["content"], conversation)
    kind = memory.FactKind.Value(f"FACT_KIND_{case['kind'].upper()}")

    def is_there(facts: Sequence[memory.Fact]) -> bool:
        return any(fact.kind == kind and set(fact.value.split(",")) == set(case["value"].split(",")) for fact in facts)

    is_learnt = await wait(having, is_there)
    if not is_learnt:
        # The stubs give enum values as plain ints.
        fact = memory.Fact(kind=cast(memory.FactKind, kind), value=case["value"], text=case["value"])
        await having.memory.put_fact(memory.PutFactRequest(request_id=new_id("fact"), fact=fact))

    async def forget() -> None:
        for fact in (await having.memory.list_facts(memory.ListFactsRequest(page_size=100))).facts:
            await having.memory.delete_fact(memory.DeleteFactRequest(fact_id=fact.id))

    return is_learnt, forget


async def wait(clients: Clients, is_there: Callable[[Sequence[memory.Fact]], bool]) -> bool:
    """Return whether facts are learnt within ``LEARNING_S``."""
    until = time.monotonic() + LEARNING_S
    while time.monotonic() < until:
        if is_there((await clients.memory.list_facts(memory.ListFactsRequest(page_size=100))).facts):
            return True
        await asyncio.sleep(LOOK_S)
    return False


async def place_conclusion(
    case: Mapping[str, Any], without: Clients, having: Clients
) -> tuple[bool, Callable[[], Awaitable[None]]]:
    """Record a conclusion that differs from the answer's in its value; return False, and what deletes it."""
    side = next(row["later"] for row in read_lines(GOLD / case["file"]) if row["id"] == case["id"])
    until = time.monotonic() + LEARNING_S
    stances: Sequence[memory.Stance] = ()
    # Named as the product names what its own answer says of the same question.
    while not stances and time.monotonic() < until:
        stances = (await without.memory.list_stances(memory.ListStancesRequest(page_size=50))).stances
        await asyncio.sleep(LOOK_S)
    conversation, run_id = new_id("conv"), new_id("run")
    turn = memory.Turn(question=case["question"], answer=side["text"], run_id=run_id)
    await having.memory.append_turn(
        memory.AppendTurnRequest(request_id=run_id, conversation_id=conversation, turn=turn)
    )
    for stance in stances[:1]:
        stance.MergeFrom(memory.Stance(view=side["text"], run_id=run_id, value=case["value"], unit=case["unit"]))
        stance.id = ""
        await having.memory.record_stance(memory.RecordStanceRequest(request_id=new_id("stance"), stance=stance))

    async def forget() -> None:
        await having.memory.delete_conversation(memory.DeleteConversationRequest(conversation_id=conversation))

    return False, forget


async def ask(clients: Clients, question: str, conversation: str = "") -> Played:
    """Return what a run of the reference policy answers."""
    request = pb.RunRequest(question=question, model="rules", conversation_id=conversation)
    events = [event async for event in run_events(clients, request)]
    started = next(event.started for event in events if event.HasField("started"))
    answer = events[-1].finished.answer.markdown or events[-1].finished.error
    # Runs name themselves in what they say of their own material.
    return Played(RUN_ID.sub("run", answer), started.effort, started.remembered)
