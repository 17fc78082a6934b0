"""Each stage is killed while a model thinks about its second source, and goes on without loss or repetition."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, ask
from fathom.trainers.data.queries.record import make_query
from fathom.trainers.data.stages import answering, evolving, planning, reflecting, repairing, rewriting
from fathom.trainers.data.stages.conversations import Conversation
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.running import Task, run_tasks
from tests.unit.trainers.data.stages.peers import make_asker, make_conversation, write_by_rules
from tests.unit.trainers.data.stages.test_reflecting import WordEncoder

SECOND = "Coca-Cola"
MATERIAL = "[1] document: results\n{name} sold more in 2019. Its revenue was 37.3 billion dollars."
OUTPUTS = {
    PLAN: '[{{"tool": "data", "subquery": "{name} revenue 2019"}}]',
    REFLECT: '{{"search": ["{name} revenue 2019"]}}',
    COMPOSE: "Revenue was 37.3 billion dollars [1].",
}


def make_episode(name: str) -> Episode:
    """A played question about a company, with every stage."""
    question = f"How did {name} do in 2019?"
    sections = {
        PLAN: {"question": question, "tools": "- data: numbers"},
        REFLECT: {"question": question, "asked": f"1. [search] {name} => ok\n{MATERIAL.format(name=name)}"},
        COMPOSE: {"question": question, "material": MATERIAL.format(name=name)},
    }
    calls = tuple(
        StageCall(
            stage=stage,
            messages=(Turn(role="system", content=stage), Turn(role="user", content=ask(stage, sections[stage]))),
            output=OUTPUTS[stage].format(name=name),
        )
        for stage in sections
    )
    return Episode(id=name, question=question, language="en", source="q:1", query=name, model="rules", calls=calls)


def make_answer(name: str) -> Record:
    """A row of the answer stage."""
    call = make_episode(name).find(COMPOSE)
    assert call is not None
    return Record(id=name, stage="answer", status="accepted", source="q:1", messages=call.messages, output=call.output)


def list_tasks(stage: str, asker: Any) -> list[Task[Record]]:
    """Return the tasks of a stage for two sources, the second of which is about SECOND."""
    names = ("Apple", SECOND)
    episodes = [make_episode(name) for name in names]
    if stage == "rewrite":
        first = make_conversation(2)
        second = Conversation.model_validate_json(first.model_dump_json().replace("Apple", SECOND))
        return rewriting.make_tasks([first, second], "c.jsonl", asker, asker)
    if stage == "plan":
        return planning.make_tasks(episodes, asker, asker)
    if stage == "reflect":
        return reflecting.make_tasks(episodes, reflecting.Matcher(WordEncoder(), asker, -1.0), asker)
    if stage == "answer":
        return answering.make_tasks(episodes, [asker], asker, answering.Band(1, 10_000))
    if stage == "repair":
        return repairing.make_tasks([make_answer(name) for name in names], asker)
    queries = [make_query(episode.question, "q:1") for episode in episodes]
    return evolving.make_tasks(queries, ["constraint", "deepen"], asker)


def write_until_second(stage: str, target: Path, said: Connection) -> None:
    """Run a stage with a model that never comes back from its second source; the process has to be killed."""

    def reply(request: Any) -> str:
        if any(SECOND in message.content for message in request.messages):
            said.send("asked")
            threading.Event().wait()
        return write_by_rules(request)

    # One after the other, so that all of the first source is there when the second is asked about.
    asyncio.run(run_tasks(list_tasks(stage, make_asker(reply, "rules")), target, Record, at_once=1))


@pytest.mark.parametrize("stage", ["rewrite", "plan", "reflect", "answer", "repair", "evolve"])
def test_a_killed_stage_loses_no_row_and_doubles_none(stage: str, tmp_path: Path) -> None:
    target = tmp_path / f"{stage}.jsonl"
    # A server that has imported all of it once; forking this process would take its threads' locks along.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    heard, said = context.Pipe(duplex=False)
    process = context.Process(target=write_until_second, args=(stage, target, said), daemon=True)
    process.start()
    said.close()
    assert heard.recv() == "asked"
    heard.close()
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()
    before = target.read_bytes()
    assert before
    rules: Callable[[Any], str] = write_by_rules
    rows = asyncio.run(run_tasks(list_tasks(stage, make_asker(rules, "rules")), target, Record))
    after = target.read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    ids = [json.loads(line)["id"] for line in after.decode().splitlines()]
    assert sorted(ids) == sorted(rows)
    assert len(set(ids)) == len(ids)
