"""A question for a report, answered part by part: each part is walked by itself, and the report has all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fathom.domain.chat.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.programs.reading import Reading
from fathom.domain.tool_results import Step
from fathom.services.policy.reference.calls import Call
from fathom.services.policy.reference.report import Part, write_report
from fathom.services.policy.reference.walk import Walk

# Parts that are computed, and calls of one part: its question, its series, its cell and its chart.
MOST_PARTS, MOST_CALLS = 6, 10
# What a part is answered by: texts say nothing of one part of a report for certain.
TOOLS = frozenset({"data", "python", "finish"})


@dataclass(frozen=True)
class Parts:
    """The parts of one question, as far as the conversation has come."""

    conversation: Conversation
    tools: frozenset[str]
    """Names of the tools on offer."""
    rater: Rater
    """Says which passages answer."""

    @property
    def questions(self) -> list[str]:
        """Return the parts that the data tool has found in the question; [] for a question without any."""
        asked = next((step for step in self.conversation.of("data") if "question" in step.arguments), None)
        return [str(part) for part in asked.head.get("parts", ())] if asked is not None else []

    def list_calls(self) -> list[Call]:
        """Return the next calls of all parts, or the report.

        [] for a question without parts, and where no part names what can be computed: what is asked then is the whole.
        """
        questions = self.questions
        if not questions:
            return []
        walked = {question: self._walk(question) for question in questions[:MOST_PARTS]}
        if not any(walked.values()):
            return []
        waiting = [one[1] for one in walked.values() if one is not None and one[1].tool != "finish"]
        if waiting and not self.conversation.is_last_round:
            return [call for at, call in enumerate(waiting) if call not in waiting[:at]]
        parts = [Part(question) if one is None else make_part(question, *one) for question, one in walked.items()]
        parts += [Part(question) for question in questions[MOST_PARTS:]]
        return [Call("finish", write_report(parts, self.conversation.is_zh))]

    def _walk(self, question: str) -> tuple[Walk, Call] | None:
        """Return the walk of a part through the calls that were made for it, and its next call.

        None for a part whose words name nothing that can be computed: what the reader of questions then makes of it is
        what the names alone would give.

        The walk is the same each time, so that a call of the conversation that equals its next one is that call.
        """
        steps: list[Step] = []
        while True:
            whole = self.conversation
            part = replace(whole, question=question, steps=tuple(steps), is_last_round=False, is_follow_up=False)
            walk = Walk(part, TOOLS & self.tools, None, self.rater)
            call = walk.next()
            found = next((step for step in self.conversation.steps if is_result(step, call)), None)
            if call.tool == "finish" or found is None or len(steps) == MOST_CALLS:
                return walk, call
            steps.append(found)
            if len(steps) == 1 and not names_measure(question, found):
                return None


def is_result(step: Step, call: Call) -> bool:
    """Return whether a step is that of a call."""
    given: Mapping[str, object] = {name: value for name, value in step.arguments.items() if name != "intent"}
    return step.tool == call.tool and given == call.arguments


def names_measure(question: str, step: Step) -> bool:
    """Return whether the words of a part name a measure, by the data tool's reading of them or by the classifier."""
    reading, words = Reading.from_step(step), Part(question).name
    return bool(reading.measures) or any(text in words for text in reading.texts("indicator", "measure"))


def make_part(question: str, walk: Walk, call: Call) -> Part:
    """Return a part as the report has it: its calculation, or what was looked up, and what stays open."""
    left = walk.list_open()
    one = walk.calculation
    if one is not None:
        return Part(question, one, left=tuple(left))
    # Without anything open the tables have said what is asked.
    found = str(call.arguments.get("answer", "")) if call.tool == "finish" and not left else ""
    return Part(question, None, found, tuple(left))
