"""Measure how well the words of the frameworks tell the topic: own labelled questions, and questions that others wrote.

The others' labels are what their questions were written for: the database (fund, stock, macro), annual reports, or
events in the news. Their fitted parts (training questions, ids A) were looked at when words were added; the figures are
of the parts that were not. The baseline always names the commonest topic of the set.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.services.datafetch.catalog.frameworks import Frameworks, load_frameworks
from tests.beside import beside
from tests.golden.datafetch.schema import load_topics

BULL = {"ccks_fund": {"fund"}, "ccks_macro": {"macro"}, "ccks_stock": {"stock", "company", "financial_report"}}


@dataclass(frozen=True)
class Set:
    """Questions, each with the topics that are right for it."""

    name: str
    questions: list[tuple[str, frozenset[str]]]


async def run() -> None:
    """Prints, per set, how often the first topic is right, one of the first two is, and none is given."""
    library = load_frameworks()
    print(f"{'set':<28}{'n':>6}{'first':>8}{'two':>8}{'none':>7}{'commonest':>11}{'ratio':>7}")
    for found in [*own(), *others()]:
        first, both, none = rates(library, found.questions)
        commonest = Counter(topic for _, right in found.questions for topic in right).most_common(1)[0][1]
        base = commonest / len(found.questions)
        single = len({right for _, right in found.questions}) == 1
        told = f"{'-':>11}{'-':>7}" if single else f"{base:>11.1%}{first / base:>7.2f}"
        print(f"{found.name:<28}{len(found.questions):>6}{first:>8.1%}{both:>8.1%}{none:>7.1%}{told}")


def rates(library: Frameworks, questions: Sequence[tuple[str, frozenset[str]]]) -> tuple[float, float, float]:
    """Shares of questions: first topic right, one of the first two right, no topic at all."""
    found = [[topic for topic, _ in library.classify(text)] for text, _ in questions]
    pairs = list(zip(found, (right for _, right in questions), strict=True))
    first = sum(bool(right.intersection(topics[:1])) for topics, right in pairs)
    both = sum(bool(right.intersection(topics[:2])) for topics, right in pairs)
    return first / len(pairs), both / len(pairs), sum(not topics for topics in found) / len(pairs)


def own() -> list[Set]:
    """The labelled questions of this house, by half."""
    questions = load_topics()
    halves = (("own, fitted half", "fit"), ("own, held-out half", "held"))
    return [
        Set(name, [(q.ask, frozenset(filter(None, (q.topic, q.also)))) for q in questions if q.half == half])
        for name, half in halves
    ]


def others() -> list[Set]:
    """Sets that stand beside the repository; empty, with a word, when they do not."""
    folder = beside()
    if not folder.is_dir():
        print("questions by others are left out: no shared/data beside the repository")
        return []
    bull = [(row["question"], frozenset(BULL[row["db_name"]])) for row in rows(folder / "bull_cn_text2sql/dev.jsonl")]
    parts = [
        Set(f"databases: {sorted(right)[-1]}", [q for q in bull if q[1] == right])
        for right in map(frozenset, BULL.values())
    ]
    reports = frozenset({"financial_report", "company"})
    annual = [
        (row["question"], reports)
        for row in rows(folder / "finglm_cn_annual/questions_verified.jsonl")
        if row["_id"][0] == "B"
    ]
    events = [(row["text"], frozenset({"event"})) for row in rows(folder / "fincuge_event_qa/queries.jsonl")]
    return [
        Set("databases: all", bull),
        *parts,
        Set("annual reports, ids B", annual),
        Set("events in the news", events),
    ]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
