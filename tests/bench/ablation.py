"""Ablations: the share of questions of several steps that are right with a part of the planner and without it.

``python -m tests.bench ablation``. Each part is switched by a setting of the planner, in a local stack of its own; the
same questions are asked with it and without it, and the difference has a 95 % interval over the questions, which are
the pairs. Reads the questions of kind ``multi_step`` of the blind sets that ``FATHOM_BENCH_BLIND`` names, separated by
commas (default: set_n), which are burnt for this; ``FATHOM_BENCH_ABLATION`` names parts, all by default;
``FATHOM_BENCH_BLIND_MODEL`` is the base URL of an OpenAI-compatible endpoint that answers in place of the reference
policy. Needs the bundled data (``make data``).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.intervals import bootstrap_mean
from tests.bench.planner.blind import find_sets, grade_questions, make_models
from tests.bench.planner.questions import local_stack
from tests.golden.blind.grading import Grade, Verdict
from tests.golden.blind.schema import Question, load_questions

GOOD = (Grade.RIGHT, Grade.REFUSED_RIGHTLY)
LEAST = 20


@dataclass(frozen=True)
class Ablation:
    """A part of the planner: the settings without it, and the protocol that has it."""

    name: str
    without: dict[str, Any]
    protocol: trajectory.Protocol


ABLATIONS = (
    Ablation("reflection", {"workflow_reflects": False}, trajectory.PROTOCOL_WORKFLOW),
    Ablation("frameworks in the plan", {"workflow_widening": []}, trajectory.PROTOCOL_WORKFLOW),
    Ablation("history policy", {"step_policy": "off"}, trajectory.PROTOCOL_RESEARCH),
    Ablation("coverage sent back", {"correct_coverage": False}, trajectory.PROTOCOL_RESEARCH),
)


async def run() -> None:
    """Print a line per part: the rates with and without it, and their difference with its interval."""
    os.environ.setdefault("FATHOM_BENCH_BLIND", "set_n")
    questions = [one for path in find_sets() for one in load_questions(path) if one.kind == "multi_step"]
    if len(questions) < LEAST:
        print(f"{len(questions)} questions of several steps are too few, {LEAST} are the least: name more sets")
        return
    wanted = [name for name in os.environ.get("FATHOM_BENCH_ABLATION", "").split(",") if name]
    if unknown := set(wanted) - {one.name for one in ABLATIONS}:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(one.name for one in ABLATIONS)}")
        return
    # The planner as it is plays once for all parts of a protocol.
    baselines: dict[int, list[Verdict]] = {}
    for ablation in ABLATIONS:
        if wanted and ablation.name not in wanted:
            continue
        if ablation.protocol not in baselines:
            baselines[ablation.protocol] = await play(questions, {}, ablation.protocol)
        without = await play(questions, ablation.without, ablation.protocol)
        print(format_line(ablation.name, baselines[ablation.protocol], without), flush=True)


async def play(questions: Sequence[Question], settings: dict[str, Any], protocol: trajectory.Protocol) -> list[Verdict]:
    """Ask all questions of a stack whose planner has these settings."""
    url = os.environ.get("FATHOM_BENCH_BLIND_MODEL", "")
    model = "endpoint" if url else "rules"
    with tempfile.TemporaryDirectory() as folder:
        # A file and not the environment, which the next stack would inherit.
        file = Path(folder) / "fathom.yaml"
        file.write_text(yaml.safe_dump({"planner": settings} if settings else {}), encoding="utf-8")
        async with local_stack(make_models(url), file) as (clients, _store):
            return await grade_questions(questions, clients, model, protocol)


def format_line(name: str, having: Sequence[Verdict], without: Sequence[Verdict]) -> str:
    """Return the rates with and without a part, and the difference over the same questions with its interval."""
    scores = [[float(verdict.grade in GOOD) for verdict in side] for side in (having, without)]
    low, high = bootstrap_mean([[one - other] for one, other in zip(*scores, strict=True)])
    rates = [sum(side) / len(side) for side in scores]
    return (
        f"{name}: with {rates[0]:.1%}, without {rates[1]:.1%} of {len(having)}; "
        f"difference {100 * (rates[0] - rates[1]):+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    )
