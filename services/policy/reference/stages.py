"""The stages of a workflow: a plan of sub-questions, a second try elsewhere, an answer from numbered material."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, Asked, read_ask
from fathom.domain.profile.guidance import read_memory
from fathom.domain.text.terms import is_small_talk, list_words
from fathom.domain.tool_results import Step
from fathom.services.policy.reference.answer import compose
from fathom.services.policy.reference.conversation import Conversation
from fathom.services.policy.reference.documents import list_quotes
from fathom.services.policy.reference.reading import Reading, is_reason

# The data tool's sub-questions without an answer.
LACKING = re.compile(r"^\d+\. \[data\] (.*) => (?:empty|failed|invalid)$", re.MULTILINE)
# A framework's tree: a dimension, branches two blanks deeper, and leaves such as "    - gross margin [data]".
DIMENSION, BRANCH = re.compile(r"^- ", re.MULTILINE), re.compile(r"^  - ", re.MULTILINE)
LEAF = re.compile(r"^    - (.*) \[data\]$", re.MULTILINE)
# The items of the material list: "[3] table sheet_1: … (12 rows)", "[4] document: …".
ITEM = re.compile(r"^(?=\[\d+\] (?:table|document|code|MISSING)\b)", re.MULTILINE)
TABLE, DOCUMENT = re.compile(r"\[(\d+)\] table (\w+): (.*) \([\d,]+ rows\)"), re.compile(r"\[(\d+)\] document: (.*)")
COLUMN = re.compile(r"(\S+?)(?: \(([^()]*(?:\([^()]*\))?[^()]*)\))?(?:, |$)")
# Five letters fold inflections: "profitable" and "profitability".
STEM, MOST_LEAVES, MOST_BRANCHES, MOST = 5, 6, 4, 3


def answer_stage(messages: Sequence[Message]) -> str | None:
    """Return the text of a stage, of a correction the same again; None when the conversation is no stage."""
    stages: Mapping[str, Callable[[Asked], str]] = {
        # The planner makes follow-ups whole before this policy is asked.
        REWRITE: lambda asked: asked["question"].strip(),
        PLAN: plan,
        REFLECT: supplement,
        COMPOSE: answer,
    }
    asked = next((read_ask(message.content) for message in messages if message.role is Role.USER), None)
    return stages[asked.stage](asked) if asked is not None else None


def plan(asked: Asked) -> str:
    """Return a JSON list of sub-questions.

    One with a date is for the data tool, a reason for documents as well. One without is about a whole topic, of which
    the branches of a framework say what belongs to it.
    """
    question = asked["question"].strip()
    if is_small_talk(question):
        return "[]"
    queries: list[dict[str, Any]] = [{"tool": "data", "subquery": question}]
    is_dated = any(map(str.isdigit, question))
    branches = [] if is_dated else choose_branches(asked["framework"], question)
    queries += [{"tool": "data", "subquery": question, "indicators": leaves} for leaves in branches]
    if not is_dated or is_reason(question):
        queries.append({"tool": "search", "subquery": question})
    return json.dumps(queries, ensure_ascii=False)


def choose_branches(framework: str, question: str) -> list[list[str]]:
    """Return the leaves for the data tool of the branches of a framework that share most stems with a question."""
    stems = {word[:STEM] for word in list_words(question)}
    branches = []
    for dimension, *below in (BRANCH.split(part) for part in DIMENSION.split(framework)[1:]):
        for branch in below:
            title = f"{dimension} {branch.partition(chr(10))[0]}"
            branches.append((len(stems & {word[:STEM] for word in list_words(title)}), LEAF.findall(branch)))
    ranked = sorted(branches, key=lambda one: -one[0])
    return [leaves[:MOST_LEAVES] for _, leaves in ranked if leaves][:MOST_BRANCHES]


def supplement(asked: Asked) -> str:
    """Return a JSON object of sub-questions by tool: what the data tool did not find is asked of documents."""
    lacking = list(dict.fromkeys(LACKING.findall(asked["asked"])))[:MOST]
    return json.dumps({"search": lacking} if lacking else {}, ensure_ascii=False)


def answer(asked: Asked) -> str:
    """Return the answer from the material: tables with their values, and quotations."""
    steps, sheets = [], []
    for item in ITEM.split(asked["material"]):
        head, _, body = item.strip().partition("\n")
        if table := TABLE.fullmatch(head):
            number, variable, title = table.groups()
            columns = read_columns(body)
            sheets.append({"material": int(number), "variable": variable, "title": title, "columns": columns})
            steps.append(Step("data", {}, {"status": "ok"}, body))
        elif document := DOCUMENT.fullmatch(head):
            about = {"status": "ok", "material": int(document[1]), "title": document[2]}
            steps.append(Step("fetch", {}, about, body))
    conversation = Conversation(asked["question"], tuple(steps), True, memory=read_memory(asked["memory"]))
    return compose(conversation, sheets, list_quotes(conversation, Reading()))


def read_columns(body: str) -> list[dict[str, str]]:
    """Return the columns of a table of the material list as the data tool describes them."""
    _, _, rest = body.partition("columns: ")
    kinds = dict.fromkeys(("date", "from", "to"), "date")
    found = COLUMN.findall(rest.partition("\n")[0])
    return [{"name": name, "unit": unit, "type": kinds.get(name, "double")} for name, unit in found]
