"""Routing of a question to a scene and a mode by the classifier; what it is unsure of, a model may decide."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from fathom.services.planner.classification.classifier import Classifier, Verdict
from fathom.services.planner.classification.examples import (
    ABOUT,
    CHART,
    EVIDENCE,
    FORM,
    LAYOUT,
    NO_CHART,
    NOT_NEEDED,
    REPORT,
    ROUTE,
    ROUTED,
    SUBJECT,
)
from fathom.services.planner.model.episode import Subject

# Ends of clauses; a point or a dash only before a blank, as in "3.5" and "2014-16" there is none.
CLAUSES = re.compile(r"[:：,，;；。?？!！]\s*|\.\s+|\s[-–—]\s")
# Shorter ones are names and numbers; of a long question the request stands in front.
LEAST_CLAUSE, MAX_CLAUSES = 4, 12


class Scene(StrEnum):
    """Kind of request."""

    QUESTION_ANSWERING = "question_answering"
    DATA_QUERY = "data_query"
    TABLE_QUERY = "table_query"
    CUSTOMER_SERVICE = "customer_service"


class Mode(StrEnum):
    """Amount of work: direct answer, fixed pipeline, or agent."""

    DIRECT = "direct"
    WORKFLOW = "workflow"
    RESEARCH = "research"


class Form(StrEnum):
    """Form of an answer: as short as the question allows, or the fixed sections of a report."""

    ANSWER = "answer"
    REPORT = "report"


@dataclass(frozen=True)
class Route:
    """Routing decision.

    ``confidence`` is 0 to 1; ``reason`` says in a phrase who decided; ``is_sure`` is False for the default.
    """

    scene: Scene
    mode: Mode
    confidence: float
    reason: str
    is_sure: bool = True
    form: Form = Form.ANSWER


AskModel = Callable[[str], Awaitable[tuple[Scene, Mode] | None]]
"""Asks a language model for the scene and mode of a question; None without a usable word."""


async def route_question(question: str, classifier: Classifier, ask_model: AskModel | None = None) -> Route:
    """Return scene and mode of a question; unsure ones go to the model, or else to the agent."""
    found = await classifier.classify_one(ROUTE, question, ROUTED)
    if found.is_sure:
        scene, mode = found.label.split()
        return Route(Scene(scene), Mode(mode), found.probability, f"like examples of {scene.replace('_', ' ')}")
    said = await ask_model(question) if ask_model is not None else None
    if said is not None:
        return Route(*said, 0.5, "the model's word; the classifier is unsure")
    return default_route(found)


def default_route(found: Verdict) -> Route:
    """Return the route of a question that nothing has settled: the agent, which can do all that the others do."""
    why = "unsure" if found.label else "no encoder answers"
    return Route(Scene.QUESTION_ANSWERING, Mode.RESEARCH, found.probability, why, is_sure=False)


async def needs_evidence(question: str, classifier: Classifier) -> bool:
    """Return whether an answer must rest on a source; True unless the classifier is sure that it need not."""
    verdict = await classifier.classify_one(ROUTE, question, EVIDENCE)
    return not (verdict.is_sure and verdict.label == NOT_NEEDED)


async def find_chart(question: str, classifier: Classifier) -> str:
    """Return the kind of chart that a question asks for; "" for none and when unsure."""
    verdict = await classifier.classify_one(CHART, question)
    return verdict.label if verdict.is_sure and verdict.label != NO_CHART else ""


async def find_subject(question: str, classifier: Classifier) -> Subject:
    """Return what a question is about; unless the classifier is sure, it is to be researched.

    ``classifier`` holds the head ``subject``.
    """
    verdict = await classifier.classify_one(SUBJECT, question, ABOUT)
    return Subject(verdict.label) if verdict.is_sure and verdict.label in (*Subject,) else Subject.OTHER


def split_clauses(question: str) -> list[str]:
    """Return the clauses of a question by which its form is found, at most ``MAX_CLAUSES``; the question if it is one.

    A report is asked for in a few words, and what it is to say may take a paragraph.
    """
    clauses = [part for part in CLAUSES.split(question) if len(part) >= LEAST_CLAUSE][:MAX_CLAUSES]
    return clauses or [question]


async def find_form(question: str, classifier: Classifier) -> Form:
    """Return the form of the answer that a question asks for; a report only if a clause surely asks for one.

    ``classifier`` holds the head ``form``. Where it is unsure, the model decides by the usual prompt.
    """
    verdicts = await classifier.classify(FORM, split_clauses(question), LAYOUT)
    asked = any(verdict.is_sure and verdict.label == REPORT for verdict in verdicts)
    return Form.REPORT if asked else Form.ANSWER
