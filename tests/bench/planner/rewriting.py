"""Rewriting of follow-ups by the planner's rewriter: right, wrong without a word, and asked back.

``python -m tests.bench rewriting FILE``. FILE is JSON Lines, one case per line; empty lines and lines that begin with
"#" are skipped:

    {"turns": [{"question": "What was Pfizer's maximum drawdown in 2020?", "answer": "It was -30.6% [1]."}],
     "follow_up": "and Lilly?", "expected_mentions": ["Lilly|LLY", "drawdown", "2020"],
     "unexpected_mentions": ["Pfizer"], "clarify": false}

``turns`` are oldest first. A rewritten question is right when it has all ``expected_mentions`` ("a|b" accepts either)
and none of ``unexpected_mentions``, compared without case, width and spaces; with ``clarify`` it is right when the
rewriter asks back. Without FILE the package's own cases run, which were written with an
earlier rewriter, and the human rewritings of ``/work/shared/data/rewrite_zh`` where they are present. The data service
runs in this process over the bundled tables (``make data``), with its encoder and reader of programs where present. The
baseline is the follow-up as it stands.

No language model rewrites, unless ``FATHOM_BENCH_REWRITING_MODEL`` is the base URL of an OpenAI-compatible endpoint:
then the planner's rewriter asks that, in the prompt of its stage, and the answers count that it takes. All cases are in
flight at once, so that whoever plays the model by files (``tests.bench.planner.file_model``) sees all of them. The
first run is recorded under ``FATHOM_BENCH_REWRITING_NAME``, "endpoint" without one; the data service is then that of a
whole local stack. Shares have Wilson's interval. ``FATHOM_BENCH_REWRITING_OUT`` names a file for what was made of each case, a JSON object per line.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call, calling
from fathom.core.errors import FathomError
from fathom.core.telemetry import Telemetry
from fathom.operations.shadow.gate import wilson
from fathom.services.planner.classification.classifier import MEASURE_FILE
from fathom.services.planner.commands.follow_ups import (
    OUTCOMES,
    Case,
    Exchange,
    judge,
    list_shares,
    load_gold,
    make_history,
    read_cases,
)
from fathom.services.planner.config import Config
from fathom.services.planner.model.programs import ReadProgram
from fathom.services.planner.model.slots import ReadText
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.reader import DatafetchReader, make_program, make_program_request, make_text
from fathom.services.planner.workflow.rewriting import Reading, Rewriter
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.planner.first_runs import announce, record
from tests.bench.planner.questions import local_stack
from tests.bench.planner.router import HOME, make_classifier

DIALOGUES = Path("/work/shared/data/rewrite_zh/dialogues.jsonl")
SAMPLE = 400
MODEL, ENDPOINT = "rules", "endpoint"
# Whoever plays the model takes their time, and readings of 60 cases at once wait for two processors.
MODEL_S, READ_S = 3_600.0, 300.0
# Cases have no dates of their own; without one a model asks what "last year" is.
TODAY = "2026-11-28"


class LocalReader:
    """Reads slots by datafetch's servicer in this process."""

    def __init__(self, servicer: Any) -> None:
        self._servicer = servicer

    async def read(self, text: str, as_of: object = None) -> ReadText | None:
        """Return the text with its slots; None when datafetch refuses it."""
        cut = text[:2_000]
        if not cut.strip():
            return ReadText(cut)
        try:
            response = await self._servicer.ReadQuestion(pb.ReadQuestionRequest(question=cut), Call.new())
        except FathomError:
            return None
        return make_text(cut, response)

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: object = None) -> ReadProgram | None:
        """Return the text with its slots and its program; None when datafetch refuses it."""
        request = make_program_request(text, earlier)
        try:
            return make_program(request.question, await self._servicer.ReadQuestion(request, Call.new()))
        except FathomError:
            return None


def make_rewriter(servicer: Any) -> Rewriter:
    """Return the planner's rewriter without a language model, set to ask back (``planner.clarify: auto``)."""
    clients = Clients({}, Telemetry("bench", log_level="critical"))
    heads = make_classifier(), make_classifier(MEASURE_FILE)
    return Rewriter(clients, LocalReader(servicer), *heads, lambda language: "", may_ask=True)


async def run(path: str = "") -> None:
    """Print the shares and the cases that are not right."""
    url = os.environ.get("FATHOM_BENCH_REWRITING_MODEL", "")
    name = os.environ.get("FATHOM_BENCH_REWRITING_NAME", ENDPOINT) if url else MODEL
    async with open_rewriter(url) as rewriter:
        if not path:
            await grade(load_gold(), rewriter, url)
            if not url:
                await grade_dialogues(rewriter)
            return
        first = announce(Path(path), name)
        figures = await grade(read_cases(Path(path)), rewriter, url)
        if first:
            record(Path(path), name, figures)


@asynccontextmanager
async def open_rewriter(url: str) -> AsyncIterator[Rewriter]:
    """Open the planner's rewriter, with the endpoint at ``url`` as its model unless that is empty."""
    if not url:
        tables, models = HOME / "data" / "tables", str(HOME / "models")
        async with service(tables, models_dir=models, embedding="auto") as (servicer, _):
            yield make_rewriter(servicer)
        return
    endpoint = {"engine": "openai", "base_url": url, "model": ENDPOINT, "timeout_s": MODEL_S, "api_key_env": ""}
    prompts = Prompts.of(load_catalogue(), Config())
    async with local_stack({ENDPOINT: endpoint, MODEL: {"engine": "rules"}}) as (clients, _store):
        reader = DatafetchReader(clients, READ_S)
        heads = make_classifier(), make_classifier(MEASURE_FILE)
        yield Rewriter(clients, reader, *heads, prompts.render_rewriting, model_s=MODEL_S, may_ask=True)


async def rewrite_all(cases: Sequence[Case], rewriter: Rewriter, url: str) -> list[Reading]:
    """Return what is made of the cases, by the model all at once."""
    model = ENDPOINT if url else ""
    asking = (rewriter.rewrite(case.follow_up, make_history(case.turns), model, TODAY) for case in cases)
    if not url:
        return [await one for one in asking]
    with calling(Call.new(timeout_s=MODEL_S)):
        return list(await asyncio.gather(*asking))


async def grade(cases: Sequence[Case], rewriter: Rewriter, url: str = "") -> dict[str, str]:
    """Print the outcomes in all, by kind and language, and the cases that are not right; return the figures."""
    found = await rewrite_all(cases, rewriter, url)
    outcomes = [judge(case, reading) for case, reading in zip(cases, found, strict=True)]
    base = sum(judge(case, Reading(case.follow_up)) == OUTCOMES[0] for case in cases)
    write_outcomes(cases, found)
    figures: dict[str, str] = {}
    for share in list_shares(cases, outcomes):
        figures[share.name] = f"{share.good} of {share.count}"
        print(share.describe())
    for outcome in (OUTCOMES[1], OUTCOMES[3]):
        figures[outcome] = str(outcomes.count(outcome))
    print(f"as it stands: {base / len(cases):.1%}")
    for case, reading, outcome in zip(cases, found, outcomes, strict=True):
        if outcome in (OUTCOMES[1], OUTCOMES[3]):
            options = list(reading.options)
            print(f"    {outcome}: {case.follow_up[:80]} => {reading.question[:160]} | {options}")
    return figures


def write_outcomes(cases: Sequence[Case], found: Sequence[Reading]) -> None:
    """Write what was made of each case to the file that the environment names, if it names one."""
    if out := os.environ.get("FATHOM_BENCH_REWRITING_OUT", ""):
        rows = [
            {
                "follow_up": case.follow_up,
                "outcome": judge(case, one),
                "question": one.question,
                "method": one.method,
                "unclear": one.reference,
                "options": one.options,
            }
            for case, one in zip(cases, found, strict=True)
        ]
        Path(out).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def load_dialogues() -> list[dict[str, Any]]:
    """Return the first dialogues; [] where they are not present."""
    if not DIALOGUES.exists():
        return []
    return [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()[:SAMPLE]]


async def grade_dialogues(rewriter: Rewriter) -> None:
    """Print the share of everyday Chinese follow-ups whose rewriting has the words that a person added."""
    right = total = 0
    for row in load_dialogues():
        added = longest_added(row["question"], row["rewrite"])
        if len(added) < 2:
            continue
        turns = [Exchange(question=row["history"][0], answer=row["history"][1])]
        total += 1
        right += added in (await rewriter.rewrite(row["question"], make_history(turns))).question
    if total:
        low, high = wilson(right, total)
        share = f"{right / total:.1%} (95 % {low:.1%} to {high:.1%})"
        print(f"rewrite_zh: {right} of {total} = {share} have the words that a person added")


def longest_added(question: str, rewritten: str) -> str:
    """Return the longest run of characters of the rewriting that the question lacks."""
    parts = "".join(letter if letter not in question else " " for letter in rewritten).split()
    return max(parts, key=len, default="")
