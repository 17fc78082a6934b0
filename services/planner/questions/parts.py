"""Parts of a question for a report, each as a question that names its subject."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain.text.language import language_of
from fathom.services.planner.questions.measures import mask, split_clauses

REPORT = "report"
NAMING = (pb.MENTION_KIND_ENTITY, pb.MENTION_KIND_PERIOD)
MEASURING = (pb.MENTION_KIND_INDICATOR, pb.MENTION_KIND_MEASURE)


def list_parts(question: str, mentions: Sequence[pb.Mention]) -> list[str]:
    """Return a question for each part of a question for a report; [] for another question, or a single part.

    "A report on Exxon Mobil 2014-2022: performance, risk" has the parts "Exxon Mobil 2014-2022: performance" and
    "Exxon Mobil 2014-2022: risk": names and periods of the first clause that has any are those of the clauses behind
    it; a clause with a period of its own keeps that. Clauses of nothing but names and periods right behind the first
    one belong to the subject: "Exxon Mobil, 2014 to 2022: performance, risk".
    """
    if not any(one.kind == pb.MENTION_KIND_OUTPUT and one.value == REPORT for one in mentions):
        return []
    named = [one for one in mentions if one.kind in NAMING]
    clauses = [(spans[0][1], spans[-1][2]) for spans in split_clauses(mask(question, named))]
    first = next((clause for clause in clauses if find_within(clause, named)), None)
    if first is None:
        return []
    subject = find_within(first, named)
    asked = [clause for clause in clauses if clause > first]
    while asked and is_bare(question, asked[0], named):
        subject += find_within(asked.pop(0), named)
    if not any(one.kind == pb.MENTION_KIND_PERIOD for one in subject):
        # "Unemployment and inflation from 2010 to 2020": a period behind the last clause is that of all.
        subject += [one for one in named if one.kind == pb.MENTION_KIND_PERIOD][:1]
    if find_within(first, [one for one in mentions if one.kind in MEASURING]):
        ends = [one.end for one in mentions if one.kind == pb.MENTION_KIND_OUTPUT and one.end <= first[1]]
        asked = [(max([first[0], *ends]), first[1]), *asked]
    parts = [write_part(question, clause, subject, find_within(clause, named)) for clause in asked]
    return parts if len(parts) > 1 else []


def is_bare(question: str, clause: tuple[int, int], named: Sequence[pb.Mention]) -> bool:
    """Return whether a clause has no letter or digit outside of its names and periods."""
    words = list(question)
    for one in named:
        words[one.start : one.end] = " " * (one.end - one.start)
    return not any(map(str.isalnum, words[slice(*clause)]))


def find_within(clause: tuple[int, int], mentions: Sequence[pb.Mention]) -> list[pb.Mention]:
    """Return the mentions that lie in a clause, in their order."""
    return sorted((one for one in mentions if clause[0] <= one.start < clause[1]), key=lambda one: one.start)


def write_part(question: str, clause: tuple[int, int], subject: Sequence[pb.Mention], own: Sequence[pb.Mention]) -> str:
    """Return the words of a clause behind the names and the period of the subject; ``own`` are those of the clause."""
    words = question[slice(*clause)].strip()
    has_period = any(one.kind == pb.MENTION_KIND_PERIOD for one in own)
    names = [one.text for one in subject if one.kind == pb.MENTION_KIND_ENTITY and one not in own]
    periods = [one.text for one in subject if one.kind == pb.MENTION_KIND_PERIOD and not has_period]
    if language_of(question) == "zh":
        return f"{'、'.join(names)}{''.join(periods)}：{words}" if names or periods else words
    head = " ".join(filter(None, (", ".join(names), *periods)))
    return f"{head}: {words}" if head else words
