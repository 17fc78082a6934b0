"""The stages of a workflow: a plan of sub-questions, a second try elsewhere, an answer from numbered material."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, Asked, read_ask
from fathom.domain.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.profile.guidance import read_memory
from fathom.domain.programs.reading import Reading
from fathom.domain.text.terms import is_small_talk
from fathom.domain.tool_results import Sheet, Step
from fathom.services.policy.reference.answer import compose
from fathom.services.policy.reference.documents import list_quotations
from fathom.services.policy.reference.wording import is_reason

# The data tool's sub-questions without an answer.
LACKING = re.compile(r"^\d+\. \[data\] (.*) => (?:empty|failed|invalid)$", re.MULTILINE)
# Leaves of a framework's tree that the data tool answers: "    - gross margin [data]".
LEAF = re.compile(r"^ +- (.*) \[data\]$", re.MULTILINE)
# The items of the list of material: "[3] table sheet_1: … (12 rows)", "[4] document: …".
ITEM = re.compile(r"^(?=\[\d+\] (?:table|document|code|MISSING)\b)", re.MULTILINE)
TABLE, DOCUMENT = re.compile(r"\[(\d+)\] table (\w+): (.*) \([\d,]+ rows\)"), re.compile(r"\[(\d+)\] document: (.*)")
COLUMN = re.compile(r"(\S+?)(?: \(([^()]*(?:\([^()]*\))?[^()]*)\))?(?:, |$)")
DATES = frozenset({"date", "from", "to"})
# Leaves of one sub-question, of a plan, and sub-questions of a second try.
AT_ONCE, MOST_LEAVES, MOST = 6, 24, 3


def answer_stage(messages: Sequence[Message], rater: Rater | None = None) -> str | None:
    """Return the text of a stage, of a correction the same again; None when the conversation is no stage.

    ``rater`` says which passages answer, by default by their words.
    """
    stages: Mapping[str, Callable[[Asked], str]] = {
        # The planner makes follow-ups whole before this policy is asked.
        REWRITE: lambda asked: asked["question"].strip(),
        PLAN: plan,
        REFLECT: supplement,
        COMPOSE: lambda asked: answer(asked, rater),
    }
    asked = next((read_ask(message.content) for message in messages if message.role is Role.USER), None)
    return stages[asked.stage](asked) if asked is not None else None


def plan(asked: Asked) -> str:
    """Return a JSON list of sub-questions.

    One with a date is for the data tool, a reason for documents as well. One without is about a whole topic, of which
    the leaves of its frameworks say what belongs to it.
    """
    question = asked["question"].strip()
    if is_small_talk(question):
        return "[]"
    is_dated = any(map(str.isdigit, question))
    leaves = [] if is_dated else LEAF.findall(asked["framework"])[:MOST_LEAVES]
    queries: list[dict[str, Any]] = [{"tool": "data", "subquery": question}]
    for start in range(0, len(leaves), AT_ONCE):
        queries.append({"tool": "data", "subquery": question, "indicators": leaves[start : start + AT_ONCE]})
    if not is_dated or is_reason(question):
        queries.append({"tool": "search", "subquery": question})
    return json.dumps(queries, ensure_ascii=False)


def supplement(asked: Asked) -> str:
    """Return a JSON object of sub-questions by tool: what the data tool did not find is asked of documents."""
    lacking = list(dict.fromkeys(LACKING.findall(asked["asked"])))[:MOST]
    return json.dumps({"search": lacking} if lacking else {}, ensure_ascii=False)


def answer(asked: Asked, rater: Rater | None = None) -> str:
    """Return the answer from the material: tables with their values, and quotations."""
    sheets, steps = read_material(asked["material"])
    conversation = Conversation(asked["question"], tuple(steps), True, memory=read_memory(asked["memory"]))
    quotes = [one.write(conversation.is_zh) for one in list_quotations(conversation, Reading(), rater or Rater())]
    return compose(conversation, sheets, quotes)


def read_material(text: str) -> tuple[list[Sheet], Sequence[Step]]:
    """Return the tables of a list, and as calls what brought its tables and documents."""
    steps, sheets = [], list[Sheet]()
    for item in ITEM.split(text):
        head, _, body = item.strip().partition("\n")
        if table := TABLE.fullmatch(head):
            number, variable, title = table.groups()
            listed = COLUMN.findall(body.partition("columns: ")[2].partition("\n")[0])
            columns = [
                {"name": name, "unit": unit, "type": "date" if name in DATES else "double"} for name, unit in listed
            ]
            sheets.append({"material": int(number), "variable": variable, "title": title, "columns": columns})
            steps.append(Step("data", {}, {"status": "ok"}, body))
        elif document := DOCUMENT.fullmatch(head):
            steps.append(Step("fetch", {}, {"status": "ok", "material": int(document[1]), "title": document[2]}, body))
    return sheets, steps
