"""A report on a question with several parts: each is walked by itself, and the report has what all of them gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fathom.domain.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.programs.reading import Reading
from fathom.domain.tool_results import Step
from fathom.domain.writing.report import Part, list_missing, write_report
from fathom.services.policy.reference.calls import Call, finish
from fathom.services.policy.reference.walk import Walk

# Parts that are computed, and calls of one part: its question, its series, its cell and its chart.
MOST_PARTS, MOST_CALLS = 6, 10
# What a part is answered by: texts say nothing of one part of a report for certain.
TOOLS = frozenset({"data", "python", "finish"})


def list_part_calls(conversation: Conversation, tools: frozenset[str], rater: Rater) -> list[Call]:
    """Return the next calls of all parts that the data tool has found in a question, or the report.

    [] for a question without parts, and where no part names what can be computed: what is asked then is the whole.
    """
    asked = next((step for step in conversation.of("data") if "question" in step.arguments), None)
    questions = [str(part) for part in asked.head.get("parts", ())] if asked is not None else []
    walked = [(one, walk_part(one, conversation, tools, rater)) for one in questions[:MOST_PARTS]]
    if not any(walk for _, walk in walked):
        return []
    waiting = [call for _, walk in walked if walk is not None and (call := walk.next()).tool != "finish"]
    if waiting and not conversation.is_last_round:
        return [call for at, call in enumerate(waiting) if call not in waiting[:at]]
    parts = [*(make_part(one, walk) for one, walk in walked), *map(Part, questions[MOST_PARTS:])]
    missing = list_missing(parts, conversation.is_zh)
    return [finish(write_report(parts, missing, conversation.is_zh), missing, form="report")]


def walk_part(question: str, whole: Conversation, tools: frozenset[str], rater: Rater) -> Walk | None:
    """Return the walk of a part through the calls that were made for it.

    None for a part whose words name no measure: what the reader of questions makes of it is what the names alone would
    give. The walk is the same each time, so that a call of the conversation that equals its next one is that call.
    """
    steps: list[Step] = []
    while True:
        part = replace(whole, question=question, steps=tuple(steps), is_last_round=False, is_follow_up=False)
        walk = Walk(part, TOOLS & tools, None, rater)
        call = walk.next()
        found = next((step for step in whole.steps if is_result(step, call)), None)
        if call.tool == "finish" or found is None or len(steps) == MOST_CALLS:
            return walk
        steps.append(found)
        if len(steps) == 1 and not names_measure(question, found):
            return None


def make_part(question: str, walk: Walk | None) -> Part:
    """Return a part as the report has it."""
    if walk is None:
        return Part(question)
    call, left = walk.next(), walk.list_open()
    # Without anything open the tables have said what is asked.
    is_found = walk.calculation is None and call.tool == "finish" and not left
    return Part(question, walk.calculation, str(call.arguments["answer"]) if is_found else "", left)


def is_result(step: Step, call: Call) -> bool:
    """Return whether a step is that of a call."""
    given: Mapping[str, object] = {name: value for name, value in step.arguments.items() if name != "intent"}
    return step.tool == call.tool and given == call.arguments


def names_measure(question: str, step: Step) -> bool:
    """Return whether the words of a part name a measure, by the data tool's reading of them or by the classifier."""
    reading, words = Reading.from_step(step), Part(question).name
    return bool(reading.measures) or any(text in words for text in reading.texts("indicator", "measure"))
