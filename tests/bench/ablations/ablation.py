"""Ablations: the share of questions that are right with a part of the planner and without it.

``python -m tests.bench ablation``. Each part is switched by a setting of the planner, in a local stack of its own; the
same questions are asked with it and without it, and the difference has a 95 % interval over the questions, which are
the pairs. ``FATHOM_BENCH_ABLATION`` names parts (reflection, frameworks, history policy, thought length, coverage,
memory), all by default.

Reflection is asked questions of two look-ups, memory questions about a remembered watch-list (``tests/golden/ablations``;
the answers are of the bundled data); the others the questions of kind ``multi_step`` of the blind sets that
``FATHOM_BENCH_BLIND`` names, separated by commas (default: set_n), which are burnt for this. The reference policy
answers; reflection is measured with ``tests/bench/ablations/bridging.py`` as well, a model that knows the tools and no
answer, since the reference policy reads no name out of a document to look it up (``FATHOM_BENCH_ABLATION_MODEL`` names
one of the two). ``FATHOM_BENCH_BLIND_MODEL`` is the base URL of an OpenAI-compatible endpoint that answers in place of
both. Needs the bundled data (``make data``).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.core.ids import new_id
from fathom.domain.intervals import bootstrap_mean
from fathom.operations.shadow.gate import wilson
from tests.bench.ablations.bridging import BridgingModel
from tests.bench.planner.blind import AT_ONCE, ask, find_sets, grade_questions, make_models
from tests.bench.planner.questions import running_stack
from tests.golden.ablations.schema import Watched, load_bridges, load_watched
from tests.golden.blind.grading import Grade, Verdict, judge
from tests.golden.blind.schema import Question, load_questions
from tests.integration.stack.scripted_model import entry

GOOD = (Grade.RIGHT, Grade.REFUSED_RIGHTLY)
LEAST = 20
BRIDGING = "bridging"


def load_multi_step() -> list[Question]:
    """Return the questions of several steps of the blind sets that were asked for."""
    os.environ.setdefault("FATHOM_BENCH_BLIND", "set_n")
    return [one for path in find_sets() for one in load_questions(path) if one.kind == "multi_step"]


@dataclass(frozen=True)
class Ablation:
    """A part of the planner: the settings without it, the protocol that has it, and the questions that need it.

    ``models`` answer where no endpoint is named.
    """

    name: str
    without: dict[str, Any]
    protocol: trajectory.Protocol
    load: Callable[[], Sequence[Question]] = load_multi_step
    models: tuple[str, ...] = ("rules",)


WORKFLOW, RESEARCH = trajectory.PROTOCOL_WORKFLOW, trajectory.PROTOCOL_RESEARCH
ABLATIONS = (
    Ablation("reflection", {"workflow_reflects": False}, WORKFLOW, load_bridges, ("rules", BRIDGING)),
    Ablation("frameworks", {"workflow_widening": []}, WORKFLOW),
    Ablation("history policy", {"step_policy": "off"}, RESEARCH),
    Ablation("thought length", {"think_chars": 0}, RESEARCH),
    Ablation("coverage", {"correct_coverage": False}, RESEARCH),
    Ablation("memory", {"memory_tokens": 0}, RESEARCH, load_watched),
)
Played = dict[str, list[Verdict]]
"""Graded answers by model."""


async def run() -> None:
    """Print a line per part and model: the rates with and without it, and their difference, with intervals."""
    wanted = [name for name in os.environ.get("FATHOM_BENCH_ABLATION", "").split(",") if name]
    if unknown := set(wanted) - {one.name for one in ABLATIONS}:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(one.name for one in ABLATIONS)}")
        return
    # The planner as it is plays once for all parts that share protocol and questions.
    baselines: dict[tuple[int, Callable[[], Sequence[Question]]], Played] = {}
    for ablation in ABLATIONS:
        if wanted and ablation.name not in wanted:
            continue
        questions, key = ablation.load(), (ablation.protocol, ablation.load)
        if len(questions) < LEAST:
            print(f"{ablation.name}: {len(questions)} questions are too few, {LEAST} are the least: name more sets")
            continue
        if key not in baselines:
            baselines[key] = await play(questions, {}, ablation)
        without = await play(questions, ablation.without, ablation)
        for model, verdicts in without.items():
            print(format_line(f"{ablation.name}, {model}", baselines[key][model], verdicts), flush=True)


async def play(questions: Sequence[Question], settings: dict[str, Any], ablation: Ablation) -> Played:
    """Ask all questions of a stack whose planner has these settings, each model in turn."""
    url = os.environ.get("FATHOM_BENCH_BLIND_MODEL", "")
    only = os.environ.get("FATHOM_BENCH_ABLATION_MODEL", "")
    names = ("endpoint",) if url else tuple(name for name in ablation.models if only in ("", name))
    with tempfile.TemporaryDirectory() as folder:
        # A file and not the environment, which the next stack would inherit.
        file = Path(folder) / "fathom.yaml"
        file.write_text(yaml.safe_dump({"planner": settings} if settings else {}), encoding="utf-8")
        async with serve_models(url, names) as models, running_stack(models, file) as endpoints:
            print(f"-- {ablation.name}: {', '.join(map(str, settings)) or 'as it is'}", flush=True)
            return {name: await grade(questions, endpoints.services, name, ablation.protocol) for name in names}


@asynccontextmanager
async def serve_models(url: str, names: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """Yield the models of the stack, with the bridging one behind a door of its own where it plays."""
    models = make_models(url)
    if BRIDGING not in names:
        yield models
        return
    async with BridgingModel(load_bridges()).running() as address:
        yield {**models, BRIDGING: entry(address)}


async def grade(
    questions: Sequence[Question], endpoints: Mapping[str, str], model: str, protocol: trajectory.Protocol
) -> list[Verdict]:
    """Ask and grade all questions, those about something remembered of a user each in a tenant of its own."""
    gate = asyncio.Semaphore(AT_ONCE.get(model, AT_ONCE["rules"]))

    async def grade_watched(question: Watched) -> Verdict:
        async with gate:
            clients = connect(endpoints, tenant=question.id)
            try:
                await remember(clients, question)
                return judge(question, await ask(question, clients, model, protocol))
            finally:
                await clients.close()

    watched = [one for one in questions if isinstance(one, Watched)]
    clients = connect(endpoints)
    try:
        others = [one for one in questions if not isinstance(one, Watched)]
        found = await grade_questions(others, clients, model, protocol)
    finally:
        await clients.close()
    return [*found, *await asyncio.gather(*map(grade_watched, watched))]


async def remember(clients: Clients, question: Watched) -> None:
    """Store the watch-list, as it would be learnt from an earlier conversation."""
    fact = memory.Fact(kind=memory.FACT_KIND_WATCH_LIST, value=question.watched, text="my watch list")
    await clients.memory.put_fact(memory.PutFactRequest(request_id=new_id("fact"), fact=fact))


def format_line(name: str, having: Sequence[Verdict], without: Sequence[Verdict]) -> str:
    """Return the rates with and without a part, and the difference over the same questions, with their intervals."""
    scores = [[float(verdict.grade in GOOD) for verdict in side] for side in (having, without)]
    low, high = bootstrap_mean([[one - other] for one, other in zip(*scores, strict=True)])
    rates = [sum(side) / len(side) for side in scores]
    shown = [describe_rate(sum(side), len(side)) for side in scores]
    return (
        f"{name}: with {shown[0]}, without {shown[1]} of {len(having)}; "
        f"difference {100 * (rates[0] - rates[1]):+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    )


def describe_rate(right: float, count: int) -> str:
    """Return a share with its interval (Wilson)."""
    low, high = wilson(round(right), count)
    return f"{right / count:.1%} [{low:.1%}, {high:.1%}]"
