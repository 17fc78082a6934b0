"""Z02: the tasks can be solved. Their paths are played through the real stack, planner to sandbox, and graded there;
the reference policy solves part of the searching ones by itself.

The model at the edge is scripted with a task's calls. Its answer is what the tools have shown it, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import Sampling
from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.files import generate
from fathom.trainers.data.synth.search import FACTS, GAP
from fathom.trainers.data.synth.task import SCENARIOS, SynthTask
from tests.integration.stack.scripted_model import Line, Said, ScriptedModel

pytestmark = pytest.mark.asyncio(loop_scope="package")
COUNT = 45
"""Of each scenario, the first of those that tests/unit/trainers/data/test_synth.py answers by other means."""
PLAYED = 20
"""Of each scenario that one run plays; a run costs a second of processor time, and its kinds come in turns."""
Scripted = tuple[Clients, ScriptedModel]


def read_last_result(messages: Said) -> str:
    """Return the last result: what the document says, or what the cell printed."""
    return str([message for message in messages if message["role"] == "tool"][-1]["content"])


def from_document(task: SynthTask, text: str) -> str:
    """The answer to a searching task, read off the document that was fetched."""
    if task.kind in ("figure", "person"):
        before, after = (re.escape(part) for part in str(task.path[0].arguments["query"]).split(GAP))
        found = re.search(f"{before}(.{{1,40}}?){after}", text)
    elif task.kind == "described":
        found = re.search(r'([^"]+) \([A-Z]+\): company profile', text)
    else:
        found = next(pattern.search(text) for kind, pattern, _ in FACTS if kind == task.kind)
    return found.group(1) if found else "not shown"


def finish(task: SynthTask) -> Callable[[Said], Line]:
    """The answer with its citation: planner asks again about a number that stands without."""

    def line(messages: Said) -> Line:
        text = read_last_result(messages)
        number = json.loads(text.split("\n", 1)[0]).get("material", 1)
        printed = re.search(r"^## stdout\n(.*)", text, re.MULTILINE)
        answer = from_document(task, text) if task.scenario == "search" else printed and printed.group(1)
        return "finish", {"answer": f"{answer} [{number}]"}

    return line


def script(task: SynthTask) -> Sequence[Line | Callable[[Said], Line]]:
    return [*((step.tool, dict(step.arguments)) for step in task.path), finish(task)]


@pytest.fixture(scope="module")
def tasks(tables_dir: Path, corpus_dir: Path) -> dict[str, list[SynthTask]]:
    bundle = Bundle(tables_dir.parent)
    found: dict[str, list[SynthTask]] = {scenario: generate(bundle, scenario, COUNT, 7) for scenario in SCENARIOS}
    bundle.close()
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def scripted_stack(
    stack: tuple[Endpoints, Clients], scripted_door: tuple[ScriptedModel, str], tasks: dict[str, list[SynthTask]]
) -> AsyncIterator[Scripted]:
    scripts = {task.question: script(task) for found in tasks.values() for task in found}
    with scripted_door[0].telling(scripts) as model:
        yield stack[1], model


async def grade_tasks(
    scripted: Scripted, tasks: Sequence[SynthTask], model: str, protocol: trajectory.Protocol
) -> dict[str, trajectory.Trajectory]:
    """Return trajectories by task, each graded by the task's own grader. The scripts begin anew."""
    clients, script = scripted
    script.seen.clear()
    request = pb.RolloutRequest(
        tasks=[
            pb.RolloutTask(id=t.id, question=t.question, references=t.references, grader=t.grader,
                           grader_parameters=t.grader_parameters)
            for t in tasks
        ],
        group_size=1, model=model, protocol=protocol, concurrency=2, sampling=Sampling(seed=1),
    )  # fmt: skip
    stream = clients.planner.rollout(request, timeout_s=600.0)
    return {tasks[found.trajectory.task_index].id: found.trajectory async for found in stream}


def few(tasks: Sequence[SynthTask], each: int) -> list[SynthTask]:
    """The first ``each`` of every kind."""
    taken: Counter[str] = Counter()
    found = []
    for task in tasks:
        taken[task.kind] += 1
        if taken[task.kind] <= each:
            found.append(task)
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_paths_of_some_of_each_kind_end_right(
    scripted_stack: Scripted, tasks: dict[str, list[SynthTask]], scenario: str
) -> None:
    chosen = few(tasks[scenario], 1)
    found = await grade_tasks(scripted_stack, chosen, "scripted", trajectory.PROTOCOL_RESEARCH)
    wrong = {
        task.id: (task.references, found[task.id].answer.markdown, found[task.id].error)
        for task in chosen
        if found[task.id].reward != 1.0
    }
    assert wrong == {}


async def test_the_reference_policy_solves_part_of_the_searching_tasks_alone(
    scripted_stack: Scripted, tasks: dict[str, list[SynthTask]]
) -> None:
    """With tags and production's own instruction: neither hopeless nor done, which is what learning needs."""
    found = await grade_tasks(scripted_stack, tasks["search"], "rules", trajectory.PROTOCOL_SEARCH_R1)
    share = sum(item.reward for item in found.values()) / len(found)
    assert 0.2 <= share <= 0.95, share


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_nine_of_ten_paths_end_right(
    scripted_stack: Scripted, tasks: dict[str, list[SynthTask]], scenario: str
) -> None:
    chosen = tasks[scenario][:PLAYED]
    found = await grade_tasks(scripted_stack, chosen, "scripted", trajectory.PROTOCOL_RESEARCH)
    wrong = {task.id: found[task.id].answer.markdown for task in chosen if found[task.id].reward != 1.0}
    assert len(wrong) <= PLAYED / 10, wrong
