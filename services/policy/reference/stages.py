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
from fathom.services.policy.reference.answer import Findings, compose
from fathom.services.policy.reference.conversation import Conversation
from fathom.services.policy.reference.documents import list_quotes
from fathom.services.policy.reference.reading import Reading, is_reason

ASKED = re.compile(r"^\d+\. \[(\w+)\] (.*) => (ok|empty|failed|invalid)$", re.MULTILINE)
# Leaves of a framework's tree: "    - gross margin [data]", two levels below a branch.
LEAF = re.compile(r"^( *)- (.*?)(?: \[(data|search)\])?$", re.MULTILINE)
SEGMENT = re.compile("segment|分业务|分部", re.IGNORECASE)
# The items of the material list: ``[3] table sheet_1: …``, ``[4] document: …``, ``[5] MISSING …``.
ENTRY = re.compile(r"^\[(\d+)\] (table|document|code|MISSING)\b(.*)$", re.MULTILINE)
TABLE = re.compile(r" (\w+): (.*) \(([\d,]+) rows\)$")
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
    for message in messages:
        if message.role is Role.USER:
            asked = read_ask(message.content)
            return stages[asked.stage](asked) if asked is not None else None
    return None


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
    for leaves in [] if is_dated else choose_branches(asked["framework"], question):
        # One query for segments and wholes would find only the whole.
        whole = [leaf for leaf in leaves if not SEGMENT.search(leaf)][:MOST_LEAVES]
        queries.append({"tool": "data", "subquery": f"{question} {', '.join(whole)}", "indicators": whole})
        parts = [leaf for leaf in leaves if SEGMENT.search(leaf)][:1]
        queries += [{"tool": "data", "subquery": f"{question} {leaf}"} for leaf in parts]
    if not is_dated or is_reason(question):
        queries.append({"tool": "search", "subquery": question})
    return json.dumps(queries, ensure_ascii=False)


def choose_branches(framework: str, question: str) -> list[list[str]]:
    """Return the leaves for the data tool of the branches of a framework that share most stems with a question."""
    branches: list[tuple[str, list[str]]] = []
    dimension = ""
    for indent, name, tool in LEAF.findall(framework):
        if not indent:
            dimension = name
        elif len(indent) == 2:
            branches.append((f"{dimension} {name}", []))
        elif tool == "data" and branches:
            branches[-1][1].append(name)
    stems = {word[:STEM] for word in list_words(question)}
    shared = [len(stems & {word[:STEM] for word in list_words(title)}) for title, _ in branches]
    ranked = sorted(range(len(branches)), key=lambda place: -shared[place])
    return [branches[place][1] for place in ranked if branches[place][1]][:MOST_BRANCHES]


def supplement(asked: Asked) -> str:
    """Return a JSON object of sub-questions by tool: what one tool did not find is asked of the other."""
    wanted: dict[str, list[str]] = {}
    for tool, text, status in ASKED.findall(asked["asked"]):
        if status != "ok" and tool == "data":
            wanted.setdefault("search", []).append(" ".join(dict.fromkeys(text.split())))
    return json.dumps({tool: texts[:MOST] for tool, texts in wanted.items()}, ensure_ascii=False)


def answer(asked: Asked) -> str:
    """Return the answer from the material: tables with their values, quotations, and what is missing."""
    entries = list(ENTRY.finditer(asked["material"]))
    ends = [*(entry.start() for entry in entries[1:]), len(asked["material"])][: len(entries)]
    steps, sheets, missing = [], [], []
    for entry, end in zip(entries, ends, strict=True):
        number, kind, line = int(entry.group(1)), entry.group(2), entry.group(3)
        body = asked["material"][entry.end() : end].strip()
        if kind == "table" and (sheet := read_sheet(number, line, body)):
            sheets.append(sheet)
            steps.append(Step("data", {}, {"status": "ok"}, body))
        elif kind == "document":
            steps.append(Step("fetch", {}, {"status": "ok", "material": number, "title": line.strip(": ")}, body))
        elif kind == "MISSING":
            missing.append({"subject": line.strip(), "reason": "missing", "detail": "no data", "material": number})
    conversation = Conversation(asked["question"], tuple(steps), True, memory=read_memory(asked["memory"]))
    reading = Reading(missing=tuple(missing))
    return compose(Findings(conversation, reading, sheets, list_quotes(conversation, reading)))


def read_sheet(number: int, line: str, body: str) -> dict[str, Any] | None:
    """Return a table of the material list as the data tool describes it; None for another form."""
    head = TABLE.match(line)
    columns = next((text for text in body.splitlines() if text.startswith("columns: ")), "")
    if head is None or not columns:
        return None
    found = []
    for name, unit in COLUMN.findall(columns.removeprefix("columns: ")):
        kind = "date" if name in ("date", "from", "to") else "double"
        found.append({"name": name, "unit": unit, "type": kind})
    rows = int(head[3].replace(",", ""))
    return {"variable": head[1], "title": head[2], "rows": rows, "columns": found, "material": number}
