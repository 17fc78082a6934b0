"""A report on a question with several parts: each is walked by itself, and the report has what all of them gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fathom.domain.chat.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.programs.reading import Reading
from fathom.domain.report_sections import (
    ANSWER,
    ASSUMPTIONS,
    CALCULATION,
    COUNTER,
    EVIDENCE,
    KEY_TABLE,
    MISSING,
    NO_SOURCE,
    SOURCES,
    write_sections,
)
from fathom.domain.tool_results import Step
from fathom.services.policy.reference.answer import MOST_TABLES, place_charts, place_tables, write_date
from fathom.services.policy.reference.calculation import Calculation
from fathom.services.policy.reference.calls import Call, finish
from fathom.services.policy.reference.walk import Walk
from fathom.services.policy.reference.wording import cite, join, load_texts, say

# Parts that are computed, and calls of one part: its question, its series, its cell and its chart.
MOST_PARTS, MOST_CALLS = 6, 10
# Values that the key table has of one step; the step's own table has all.
MOST_VALUES = 6
# What a part is answered by: texts say nothing of one part of a report for certain.
TOOLS = frozenset({"data", "python", "finish"})
# The names and the period that the words of a part have from the question.
SUBJECT = re.compile(r"^.*?(?::\s|：)")
Computed = Sequence[tuple[str, Calculation]]


@dataclass(frozen=True)
class Part:
    """A part with its walk and the next call of that; None for one whose words name nothing that can be computed."""

    question: str
    walk: Walk | None = None
    call: Call | None = None

    @property
    def name(self) -> str:
        """Return the words of the part."""
        return SUBJECT.sub("", self.question, count=1).strip()

    @property
    def calculation(self) -> Calculation | None:
        """Return the calculation of the part."""
        return self.walk.calculation if self.walk is not None else None

    @cached_property
    def left(self) -> list[str]:
        """Return what of the part stays open."""
        return self.walk.list_open() if self.walk is not None else []

    @property
    def found(self) -> str:
        """Return what was looked up; without anything open the tables have said what is asked."""
        if self.call is None or self.call.tool != "finish" or self.calculation is not None or self.left:
            return ""
        return str(self.call.arguments["answer"])


def list_part_calls(conversation: Conversation, tools: frozenset[str], rater: Rater) -> list[Call]:
    """Return the next calls of all parts that the data tool has found in a question, or the report.

    [] for a question without parts, and where no part names what can be computed: what is asked then is the whole.
    """
    asked = next((step for step in conversation.of("data") if "question" in step.arguments), None)
    questions = [str(part) for part in asked.head.get("parts", ())] if asked is not None else []
    parts = [walk_part(question, conversation, tools, rater) for question in questions[:MOST_PARTS]]
    if not any(part.walk for part in parts):
        return []
    waiting = [part.call for part in parts if part.call is not None and part.call.tool != "finish"]
    if waiting and not conversation.is_last_round:
        return [call for at, call in enumerate(waiting) if call not in waiting[:at]]
    return [write_report([*parts, *map(Part, questions[MOST_PARTS:])], conversation.is_zh)]


def walk_part(question: str, whole: Conversation, tools: frozenset[str], rater: Rater) -> Part:
    """Return a part, walked through the calls that were made for it.

    The walk is the same each time, so that a call of the conversation that equals its next one is that call.
    """
    steps: list[Step] = []
    while True:
        part = replace(whole, question=question, steps=tuple(steps), is_last_round=False, is_follow_up=False)
        walk = Walk(part, TOOLS & tools, None, rater)
        call = walk.next()
        found = next((step for step in whole.steps if is_result(step, call)), None)
        if call.tool == "finish" or found is None or len(steps) == MOST_CALLS:
            return Part(question, walk, call)
        steps.append(found)
        # What the reader of questions makes of words without a measure is what the names alone would give.
        if len(steps) == 1 and not names_measure(question, found):
            return Part(question)


def is_result(step: Step, call: Call) -> bool:
    """Return whether a step is that of a call."""
    given: Mapping[str, object] = {name: value for name, value in step.arguments.items() if name != "intent"}
    return step.tool == call.tool and given == call.arguments


def names_measure(question: str, step: Step) -> bool:
    """Return whether the words of a part name a measure, by the data tool's reading of them or by the classifier."""
    reading, words = Reading.from_step(step), Part(question).name
    return bool(reading.measures) or any(text in words for text in reading.texts("indicator", "measure"))


def write_report(parts: Sequence[Part], is_zh: bool) -> Call:
    """Return the ``finish`` call with the report."""
    missing = list(dict.fromkeys(text for part in parts for text in list_missing(part, is_zh)))
    calculations = [(part.name, part.calculation) for part in parts if part.calculation is not None]
    computed = [(name, one) for name, one in calculations if one.values]
    bodies = {
        ANSWER: "\n\n".join(write_part(part, is_zh) for part in parts),
        KEY_TABLE: write_table(computed, is_zh),
        EVIDENCE: "\n\n".join(text for name, one in computed for text in list_evidence(name, one)),
        COUNTER: say("no_counter", is_zh),
        ASSUMPTIONS: "\n\n".join(write_assumptions(computed, is_zh)) or say("no_assumptions", is_zh),
        MISSING: "\n".join(f"- {text}" for text in missing) or say("none_missing", is_zh),
        SOURCES: "\n".join(list_sources(calculations, is_zh)) or NO_SOURCE[is_zh],
    }
    return finish(write_sections(bodies, is_zh), missing, form="report")


def write_part(part: Part, is_zh: bool) -> str:
    """Return what a part gave."""
    one = part.calculation
    said = one.write_paragraphs()[0] if one is not None and one.values else part.found
    return f"**{part.name}**\n\n{said}" if said else say("part_missing", is_zh, part.name)


def write_table(computed: Computed, is_zh: bool) -> str:
    """Return the table of all values in Markdown, "" for none."""
    rows = [
        [name, one.labels[number], text + outcome.cited]
        for name, one in computed
        for number, outcome in one.values.items()
        for text in outcome.texts[:MOST_VALUES]
    ]
    head = load_texts()["columns"][is_zh]
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def list_evidence(name: str, one: Calculation) -> list[str]:
    """Return the heading of a part, its tables and its chart."""
    return [f"### {name}", *place_tables(one.placed_sheets[:MOST_TABLES]), *place_charts(one.conversation)]


def write_assumptions(computed: Computed, is_zh: bool) -> Iterator[str]:
    """Yield how uncertain parts were read, the conventions of the calculations, and as of when the data are."""
    for name, one in computed:
        if one.program.unused or not one.is_certain:
            yield say("taken_for", is_zh, name, join(one.labels.values(), is_zh))
    values = [outcome for _, one in computed for outcome in one.values.values()]
    said = {text: cited for one in values for text, cited in one.conventions.items()}
    if said:
        yield "\n".join(f"- {text}{cited}" for text, cited in said.items())
    yield from write_date([sheet for _, one in computed for sheet in one.used_sheets], is_zh)


def list_missing(part: Part, is_zh: bool) -> Iterator[str]:
    """Yield what of a part was not computed, and why; how it was read is an assumption."""
    one = part.calculation
    if one is None and not part.found:
        reasons = [text for text in part.left if text != part.question]
        yield f"{part.name}{f' ({join(reasons, is_zh)})' if reasons else ''}"
    elif one is not None:
        read = {say("doubtful", is_zh), *(str(word.get("words", "")) for word in one.program.unused)}
        yield from (f"{part.name}{'：' if is_zh else ': '}{text}" for text in part.left if text not in read)


def list_sources(calculations: Computed, is_zh: bool) -> list[str]:
    """Return the tables and calculations of the parts, by number."""
    named: dict[int, str] = {}
    for _, one in calculations:
        named |= {int(sheet["material"]): str(sheet.get("title", "")) for sheet in one.sheets if "material" in sheet}
        cells = [step for step in one.conversation.of("python") if step.is_ok and step.material and not step.is_chart]
        named |= {step.material: CALCULATION[is_zh] for step in cells}
    return [f"-{cite(number)} {title}" for number, title in sorted(named.items())]
