"""Blind questions through the whole local stack: right, partly right, refused, silently wrong, invented.

Reads every set in ``tests/golden/blind/questions`` (written from README and data, without knowledge of the code, and
committed before its first run), or those that ``FATHOM_BENCH_BLIND`` names, separated by commas. The reference policy
answers; ``FATHOM_BENCH_BLIND_MODEL`` is the base URL of an OpenAI-compatible endpoint that answers in its place.
``FATHOM_BENCH_BLIND_READER`` is a LoRA adapter of SmolLM2, a whole model's folder, or "raw": the engine ``reading`` answers with it, and only the
whole English questions are asked, which it has learnt to read (``FATHOM_BENCH_BLIND_RULES=1``: by the reference policy,
for comparison). Such runs are parts of sets, which nothing records.
A set's first run is recorded in ``tests/golden/blind/records.yaml``; later ones are named as such.
``FATHOM_BENCH_BLIND_OUT`` names a file for the answers and grades, one JSON object per line. The baseline is datafetch
alone: the question's words become a query, and its tables are the answer. Needs the bundled data (``make data``).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run as run_events
from fathom.core.errors import FathomError
from fathom.operations.shadow.gate import wilson
from tests.bench.planner.first_runs import announce, record
from tests.bench.planner.questions import local_stack
from tests.bench.planner.questions_small import until_ready
from tests.golden.blind.grading import REFERENCE, Given, Grade, Verdict, judge, read_numbers
from tests.golden.blind.schema import FOLDER, Question, load_questions

# Two processors answer two questions at a time; a model at an endpoint mostly waits.
AT_ONCE = {"rules": 2, "endpoint": 20, "reading": 8}
UNTRAINED_TOKENS = 96
# Rows of a placed table that a reader sees without scrolling.
ROWS = 30
ACCEPTABLE = "right or rightly refused"
BY_PLANNER = trajectory.PROTOCOL_UNSPECIFIED


async def run() -> None:
    """Print a table per set and one of all."""
    url, reader = os.environ.get("FATHOM_BENCH_BLIND_MODEL", ""), os.environ.get("FATHOM_BENCH_BLIND_READER", "")
    model = "endpoint" if url else "reading" if reader and not os.environ.get("FATHOM_BENCH_BLIND_RULES") else "rules"
    verdicts: list[Verdict] = []
    async with local_stack(make_models(url, reader)) as (clients, _store):
        if model == "reading":
            await until_ready(clients, model)
        for path in find_sets():
            questions = load_questions(path)
            first = announce(path, model) if not reader else False
            if reader:
                questions = [one for one in questions if one.language == "en" and not one.turns]
            found = await grade_questions(questions, clients, model)
            base = [judge(question, await ask_datafetch(question, clients)) for question in questions]
            print_table(path.stem, found, base)
            if first:
                record(path, model, list_figures(found))
            verdicts += found
    print_table("all", verdicts, ())
    write_verdicts(verdicts)


def make_models(url: str, reader: str = "") -> dict[str, Any]:
    """Return the models of the stack: the reference policy, and the endpoint or the reading model if there is one."""
    if reader:
        place = "folder" if (Path(reader) / "config.json").is_file() else "adapter"
        network = {"threads": 1} if reader == "raw" else {place: reader, "threads": 1}
        # A model that has not learnt the language writes on for as long as it may.
        tokens = UNTRAINED_TOKENS if reader == "raw" else 256
        return {
            "rules": {"engine": "rules"},
            "reading": {"engine": "reading", "network": network, "program_tokens": tokens},
        }
    if not url:
        return {"rules": {"engine": "rules"}}
    endpoint = {"engine": "openai", "base_url": url, "model": "endpoint", "timeout_s": 1_200, "api_key_env": ""}
    return {"endpoint": endpoint, "rules": {"engine": "rules"}}


def find_sets() -> list[Path]:
    """Return the files of the sets that were asked for, all of them by default."""
    wanted = [name for name in os.environ.get("FATHOM_BENCH_BLIND", "").split(",") if name]
    return [path for path in sorted(FOLDER.glob("*.jsonl")) if not wanted or path.stem in wanted]


async def grade_questions(
    questions: Sequence[Question], clients: Clients, model: str, protocol: trajectory.Protocol = BY_PLANNER
) -> list[Verdict]:
    """Ask and grade all questions, some at a time."""
    gate = asyncio.Semaphore(AT_ONCE.get(model, AT_ONCE["rules"]))

    async def grade(question: Question) -> Verdict:
        async with gate:
            verdict = judge(question, await ask(question, clients, model, protocol))
            print(f"  {question.id:<8}{verdict.grade:<40}{'; '.join(verdict.lacks)[:120]}", flush=True)
            return verdict

    return list(await asyncio.gather(*(grade(question) for question in questions)))


async def ask(question: Question, clients: Clients, model: str, protocol: trajectory.Protocol = BY_PLANNER) -> Given:
    """Ask the earlier questions of a conversation, then the question itself."""
    conversation, started = "", time.perf_counter()
    for text in (*question.turns, question.question):
        started = time.perf_counter()
        request = pb.RunRequest(question=text, model=model, conversation_id=conversation, protocol=protocol)
        try:
            events = [event async for event in run_events(clients, request)]
        except FathomError as error:
            return Given(str(error), is_open=True, is_refusal=True)
        conversation = next(event.started.conversation_id for event in events if event.HasField("started"))
    finished = events[-1].finished
    rounds = sum(event.HasField("sampled") for event in events)
    return read_answer(question, finished, time.perf_counter() - started, rounds)


def read_answer(question: Question, finished: pb.RunFinished, seconds: float = 0.0, rounds: int = 0) -> Given:
    """Return what a reader sees of a finished run."""
    answer = finished.answer
    tables = "\n".join(
        show_table(item.sheet) for item in find_placed(answer.markdown, [*finished.material, *answer.material])
    )
    lacks = {item.number for item in finished.material if item.HasField("missing")}
    is_open = (
        finished.stop_reason != trajectory.STOP_REASON_FINISHED or bool(answer.open) or bool(lacks & set(answer.cited))
    )
    asked = read_numbers(" ".join((*question.turns, question.question)))
    # How the question was read and what stays open repeats words of the question: it answers nothing.
    markdown = answer.markdown.replace(answer.reading.line, "", 1)
    prose = REFERENCE.sub(" ", markdown)
    # Numbers of the question and years are in refusals too: what is left would be an answer.
    stated = [number for number in read_numbers(prose) if number not in asked and not 1900 <= number <= 2100]
    unsupported = sum(finding.kind == trajectory.FINDING_KIND_UNSUPPORTED for finding in answer.findings)
    text = f"{markdown or finished.error}\n{tables}"
    return Given(text, is_open, not stated and not tables, unsupported, seconds, rounds)


def find_placed(markdown: str, material: Sequence[trajectory.Material]) -> list[trajectory.Material]:
    """Return the tables that the answer places."""
    return [item for item in material if item.HasField("sheet") and f"{{{{table:{item.variable}}}}}" in markdown]


def show_table(sheet: data.Sheet) -> str:
    """Return a table as a reader sees it before scrolling; the digest has the first and last rows."""
    return f"{sheet.title}\n" + "\n".join(sheet.digest.splitlines()[: ROWS + 2])


async def ask_datafetch(question: Question, clients: Clients) -> Given:
    """Return the baseline: what datafetch alone gives for the question's words."""
    try:
        response = await clients.datafetch.query(data.QueryRequest(question=question.question))
    except FathomError as error:
        return Given(error.message, is_open=True, is_refusal=True)
    lacks = " ".join(f"{item.subject} {item.aspect} {item.period}" for item in response.missing)
    text = "\n".join([*(show_table(sheet) for sheet in response.sheets), lacks])
    return Given(text, bool(response.missing), not response.sheets)


def print_table(title: str, verdicts: Sequence[Verdict], base: Sequence[Verdict]) -> None:
    """Print the grades by kind of question, then of all, and the share of acceptable ones beside the baseline's."""
    print(f"-- {title}: {len(verdicts)} questions")
    print(f"{'kind':<14}{'n':>4}" + "".join(f"{grade:>12.11}" for grade in Grade))
    for kind in (*dict.fromkeys(verdict.question.kind for verdict in verdicts), "all"):
        of_kind = [verdict for verdict in verdicts if kind in (verdict.question.kind, "all")]
        counts = Counter(verdict.grade for verdict in of_kind)
        print(f"{kind:<14}{len(of_kind):>4}" + "".join(f"{counts[grade]:>12}" for grade in Grade))
    share, low = measure_share(verdicts), measure_share(base)
    below, above = wilson(round(share * len(verdicts)), len(verdicts))
    beside = f", datafetch alone {low:.0%}, ratio {share / low:.2f}" if low else ""
    seconds = statistics.median(verdict.given.seconds for verdict in verdicts)
    rounds = statistics.mean(verdict.given.rounds for verdict in verdicts)
    print(f"{ACCEPTABLE} {share:.1%} [{below:.1%}, {above:.1%}]{beside}; median {seconds:.1f} s, {rounds:.1f} rounds\n")


def list_figures(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return the figures of a run as they are recorded."""
    counts = Counter(verdict.grade for verdict in verdicts)
    return {str(grade): str(counts[grade]) for grade in Grade} | {ACCEPTABLE: f"{measure_share(verdicts):.1%}"}


def measure_share(verdicts: Sequence[Verdict]) -> float:
    """Return the share of answers that are right or rightly refused."""
    return sum(v.grade in (Grade.RIGHT, Grade.REFUSED_RIGHTLY) for v in verdicts) / max(len(verdicts), 1)


def write_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Write the graded answers to the file that the environment names, if it names one."""
    if out := os.environ.get("FATHOM_BENCH_BLIND_OUT", ""):
        Path(out).write_text("".join(f"{format_verdict(verdict)}\n" for verdict in verdicts), encoding="utf-8")


def format_verdict(verdict: Verdict) -> str:
    """Return a graded answer as a line of JSON."""
    question = verdict.question
    known = {"id": question.id, "question": question.question, "grade": verdict.grade, "lacks": verdict.lacks}
    return json.dumps({**known, "answer": verdict.given.text}, ensure_ascii=False)
