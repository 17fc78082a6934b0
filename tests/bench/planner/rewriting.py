"""Rewriting of follow-ups: right, wrong and asked back, without a language model.

``python -m tests.bench rewriting FILE``. FILE is JSON Lines, one case per line; empty lines and lines that begin with
"#" are skipped:

    {"turns": [{"question": "What was Pfizer's maximum drawdown in 2020?", "answer": "It was -30.6% [1]."}],
     "follow_up": "and Lilly?", "expected_mentions": ["Lilly|LLY", "drawdown", "2020"],
     "unexpected_mentions": ["Pfizer"], "clarify": false}

``turns`` are oldest first. A rewritten question is right when it has all ``expected_mentions`` ("a|b" accepts either)
and none of ``unexpected_mentions``, compared without case, width and spaces; with ``clarify`` it is right when the
rewriter asks back. Without FILE the cases of ``tests/golden/workflow/rewriting.yaml`` run, which were written with an
earlier rewriter, and the human rewritings of ``/work/shared/data/rewrite_zh`` where they are present. The data service
runs in this process over the bundled tables (``make data``), with its encoder and reader of programs where present. The baseline is the follow-up as it stands.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call
from fathom.core.errors import FathomError
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.messages import Message, Role
from fathom.domain.text.language import language_of
from fathom.services.planner.model.programs import ReadProgram
from fathom.services.planner.model.slots import ReadText
from fathom.services.planner.reader import make_program, make_program_request, make_text
from fathom.services.planner.workflow.rewriting import Reading, Rewriter
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.planner.first_runs import announce, record
from tests.bench.planner.router import HOME, make_classifier, read_lines

GOLD = Path(__file__).parents[2] / "golden" / "workflow" / "rewriting.yaml"
DIALOGUES = Path("/work/shared/data/rewrite_zh/dialogues.jsonl")
SAMPLE = 400
MODEL = "rules"


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
    return Rewriter(clients, LocalReader(servicer), make_classifier(), lambda language: "", may_ask=True)


def make_history(turns: Sequence[dict[str, str]]) -> list[Message]:
    """Return the turns as the planner gets them from memory."""
    return [
        message
        for turn in turns
        for message in (Message(Role.USER, turn["question"]), Message(Role.ASSISTANT, turn["answer"]))
    ]


def fold(text: str) -> str:
    """Return the text without case, width and spaces."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def judge(case: dict[str, Any], found: Reading) -> str:
    """Return "right", "wrong" or "asked back"."""
    if case.get("clarify"):
        return "right" if found.asks_back else "wrong"
    if found.asks_back:
        return "asked back"
    text = fold(found.question)
    has_all = all(any(fold(part) in text for part in one.split("|")) for one in case["expected_mentions"])
    has_none = not any(fold(part) in text for part in case.get("unexpected_mentions", ()))
    return "right" if has_all and has_none else "wrong"


def load_gold() -> list[dict[str, Any]]:
    """Return the golden cases in the form of a file."""
    return [
        {
            "turns": [{"question": asked, "answer": answered} for asked, answered in case["turns"]],
            "follow_up": case["question"],
            "expected_mentions": [str(part) for part in case["expect"]],
        }
        for case in yaml.safe_load(GOLD.read_text(encoding="utf-8"))
    ]


async def run(path: str = "") -> None:
    """Print the shares and the cases that are not right."""
    async with service(HOME / "data" / "tables", models_dir=str(HOME / "models"), embedding="auto") as (servicer, _):
        rewriter = make_rewriter(servicer)
        if not path:
            await grade(load_gold(), rewriter)
            await grade_dialogues(rewriter)
            return
        first = announce(Path(path), MODEL)
        figures = await grade(read_lines(Path(path)), rewriter)
        if first:
            record(Path(path), MODEL, figures)


async def grade(cases: Sequence[dict[str, Any]], rewriter: Rewriter) -> dict[str, str]:
    """Print right, wrong and asked back in all, by kind and language; return the shares of right ones by group."""
    groups: list[tuple[str, str]] = []
    lines, base = [], 0
    for case in cases:
        found = await rewriter.rewrite(case["follow_up"], make_history(case["turns"]))
        outcome = judge(case, found)
        base += judge(case, Reading(case["follow_up"])) == "right"
        names = ("all", "clarify" if case.get("clarify") else "rewrite", language_of(case["follow_up"]))
        groups += [(name, outcome) for name in names]
        if outcome != "right":
            lines.append(f"    {outcome}: {case['follow_up'][:80]} => {found.question[:160]} | {list(found.options)}")
    figures: dict[str, str] = {}
    for name in dict.fromkeys(group for group, _ in groups):
        counts = Counter(outcome for group, outcome in groups if group == name)
        total = sum(counts.values())
        figures[name] = f"{counts['right']} of {total}"
        print(f"{name:8} right {counts['right']} of {total} = {counts['right'] / total:.1%}, {dict(counts)}")
    print(f"as it stands: {base / len(cases):.1%}")
    print(*lines, sep="\n")
    return figures


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
        turns = [{"question": row["history"][0], "answer": row["history"][1]}]
        total += 1
        right += added in (await rewriter.rewrite(row["question"], make_history(turns))).question
    if total:
        print(f"rewrite_zh: {right} of {total} = {right / total:.1%} have the words that a person added")


def longest_added(question: str, rewritten: str) -> str:
    """Return the longest run of characters of the rewriting that the question lacks."""
    parts = "".join(letter if letter not in question else " " for letter in rewritten).split()
    return max(parts, key=len, default="")
