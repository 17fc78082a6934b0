"""The agent with the reference policy on multi-step questions: right answers, traceable numbers, rounds, seconds.

Whether a number is traceable is for the product's own verifier to say, over the whole tables; a tracer that shares no
code with it looks a second time, over what the model was shown. The whole local stack answers; the baseline gives datafetch the same question and takes its table digest for an answer.
Held-out questions are counted apart. Needs the bundled data (``make data``).
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import run as run_events
from fathom.core.errors import FathomError
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.review import find_uncited
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.proto.episode import material_from_proto
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import read_ref
from tests.golden.agent.grading import Given, Verdict, judge
from tests.golden.agent.reference import Reference
from tests.golden.agent.schema import HELD, SEEN, Question, load_questions

HOME = Path(".fathom")
AT_ONCE = 3
MODELS = {"rules": {"engine": "rules"}}


async def run() -> None:
    """Both sets, each with its baseline; faults are printed of the set that may be fitted on only."""
    reference = Reference(HOME / "data" / "tables")
    async with local_stack(MODELS) as (clients, store):
        for title, path in (("fitted on", SEEN), ("held out", HELD)):
            questions = load_questions(path)
            verdicts = await grade_questions(questions, clients, store, reference, "rules")
            base = [judge(question, await digest_of(question, clients), reference) for question in questions]
            print(f"-- {title}")
            report(verdicts, base)
            for verdict in verdicts if path == SEEN else ():
                show_faults(verdict)


@asynccontextmanager
async def local_stack(models: dict[str, Any], config: Path | None = None) -> AsyncIterator[tuple[Clients, ObjectStore]]:
    """Yield clients and store of a stack of its own."""
    async with running_stack(models, config) as endpoints:
        clients, store = connect(endpoints.services), open_store(endpoints.store)
        yield clients, store
        await clients.close()
        await store.close()


@asynccontextmanager
async def running_stack(models: dict[str, Any], config: Path | None = None) -> AsyncIterator[Endpoints]:
    """Yield a stack in a home of its own with the bundled data and the encoder, as ``make data`` builds them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "models").symlink_to((HOME / "models").resolve())
        shutil.copytree(HOME / "data" / "tables", home / "data" / "tables")
        shutil.copytree(HOME / "data" / "corpus", home / "data" / "corpus")
        settings = LocalSettings(home=home, gateway_port=0, models=models, config=config)
        async with LocalStack(settings).running() as endpoints:
            yield endpoints


async def grade_questions(
    questions: Sequence[Question], clients: Clients, store: ObjectStore, reference: Reference, model: str
) -> list[Verdict]:
    """Ask and judge all questions, a few at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(question: Question) -> Verdict:
        async with gate:
            return judge(question, await ask(question, clients, store, model), reference)

    return list(await asyncio.gather(*(one(question) for question in questions)))


async def ask(question: Question, clients: Clients, store: ObjectStore, model: str) -> Given:
    """One run: its answer, its material as text, the points of its largest figure."""
    started = time.perf_counter()
    request = pb.RunRequest(question=question.ask, model=model)
    events = [event async for event in run_events(clients, request)]
    seconds, finished = time.perf_counter() - started, events[-1].finished
    material = {item.number: text_of(item) for item in finished.material}
    missing = [text_of(item) for item in finished.material if item.HasField("missing")]
    lacks = " ".join(missing)
    figures = [
        json.loads(await read_ref(store, figure.ref)) for item in finished.material for figure in item.code.figures
    ]
    # The largest trace: a figure may have marks and bands beside the series that was asked for.
    points = max((points_of(trace) for figure in figures for trace in figure["data"]), default=0)
    run_id = next((event.run_id for event in events if event.run_id), "")
    steps = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory.steps
    claims, doubts = await check_numbers(finished, question.ask, store)
    text = drop_notice(finished.answer) or finished.error
    return Given(text, material, points, len(steps), seconds, lacks, claims, doubts)


async def check_numbers(finished: pb.RunFinished, question: str, store: ObjectStore) -> tuple[int, tuple[str, ...]]:
    """Count the answer's numbers and dates, and list those that the product's checks do not find in what it cites."""
    markdown, material = drop_notice(finished.answer), [material_from_proto(item) for item in finished.material]
    verifier = Verifier(question, await Evidence(store).gather(material))
    claims = sum(len(sentence.numbers) + len(sentence.moments) for sentence in parse_sentences(markdown))
    marks = [*verifier.verify(markdown), *find_uncited(markdown, material)]
    return claims, tuple(f"{mark.kind.value} {mark.text!r}: {mark.detail}" for mark in marks)


def drop_notice(answer: trajectory.Answer) -> str:
    """Return the answer without the paragraph in front that names what it leaves open, which the product writes."""
    return answer.markdown.partition("\n\n")[2] if answer.open else answer.markdown


def text_of(item: Any) -> str:
    """Return what a material says, as text."""
    if item.HasField("code"):
        return str(item.code.stdout)
    if item.HasField("sheet"):
        columns = " ".join(f"{column.unit} {column.as_of}" for column in item.sheet.columns)
        return f"{item.sheet.title}\n{item.sheet.digest}\n{columns}"
    if item.HasField("missing"):
        return f"{item.missing.subject} {item.missing.aspect} {item.missing.period} {item.missing.detail}"
    return str(item.passage.text)


def points_of(trace: dict[str, Any]) -> int:
    """Number of values of a trace, which plotly may have packed."""
    values = trace.get("y", ())
    if isinstance(values, dict):
        return len(base64.b64decode(values["bdata"])) // np.dtype(values["dtype"]).itemsize
    return len(values)


async def digest_of(question: Question, clients: Clients) -> Given:
    """The baseline: what datafetch alone gives for the question's words."""
    try:
        response = await clients.datafetch.query(data.QueryRequest(question=question.ask))
    except FathomError as error:
        return Given(error.message, {})
    lacks = [f"Missing: {item.subject}." for item in response.missing]
    return Given("\n\n".join([*(sheet.digest for sheet in response.sheets), *lacks]), {})


def report(verdicts: Sequence[Verdict], base: Sequence[Verdict]) -> None:
    """A line per kind, then all; the share of numbers that can be traced; rounds and seconds."""
    right = Counter(verdict.question.kind for verdict in verdicts if verdict.right)
    floor = Counter(verdict.question.kind for verdict in base if verdict.right)
    print(f"{'kind':<12}{'n':>4}{'rules':>9}{'datafetch alone':>17}{'rounds':>8}{'s':>7}")
    for kind, n in Counter(verdict.question.kind for verdict in verdicts).items():
        of_kind = [verdict.given for verdict in verdicts if verdict.question.kind == kind]
        rounds, seconds = statistics.mean(g.rounds for g in of_kind), statistics.mean(g.seconds for g in of_kind)
        print(f"{kind:<12}{n:>4}{right[kind] / n:>9.0%}{floor[kind] / n:>17.0%}{rounds:>8.1f}{seconds:>7.1f}")
    share, low = (sum(v.right for v in found) / len(found) for found in (verdicts, base))
    numbers, loose = sum(v.numbers for v in verdicts), sum(len(v.loose) for v in verdicts)
    print(f"{'all':<12}{len(verdicts):>4}{share:>9.1%}{low:>17.1%}   ratio {share / max(low, 1e-9):.2f}")
    claims, doubts = sum(v.given.claims for v in verdicts), sum(len(v.given.doubts) for v in verdicts)
    print(f"numbers and dates traceable {1 - doubts / max(claims, 1):.1%} of {claims} (the product's verifier)")
    print(f"numbers and dates traceable {1 - loose / max(numbers, 1):.1%} of {numbers} (the second tracer)")


def show_faults(verdict: Verdict) -> None:
    """Print what is wrong with an answer."""
    if verdict.faults or verdict.loose or verdict.given.doubts:
        print(f"  {verdict.question.id}: {verdict.question.ask}")
        loose = [f"loose: {', '.join(verdict.loose)}"] if verdict.loose else []
        for fault in (*verdict.faults, *loose, *verdict.given.doubts):
            print(f"    {fault[:300]}")
