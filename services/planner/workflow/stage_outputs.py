"""Tolerant parsing of stage outputs: malformed output becomes flaws, never an exception."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fathom.domain.chat.tolerant import read_array, read_object
from fathom.services.planner.model.stages import Fault, Flaw, SubQuery

# Limits of what a stage's output may ask; longer texts are copies of the prompt.
MAX_QUERY_CHARS, MAX_QUERIES, MAX_INDICATORS = 400, 24, 12
# Characters of a defect kept in its record.
SHOWN = 80
# Labels that models put in front of the question despite the instruction: "**Rewritten question:** How …", "改写：…".
LABEL = re.compile(
    r"^\s*(?:\*\*)?(?:rewritten(?: question)?|self-contained question|question|output|answer"
    r"|改写后的?问题|改写|问题|输出)"
    r"(?:\*\*)?\s*[:：]\s*(?:\*\*)?",
    re.IGNORECASE,
)
FENCES = re.compile(r"^\s*```[a-z]*\s*$", re.MULTILINE | re.IGNORECASE)
# Reasoning models think first, and may be cut off before they close the tag.
THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
MARKUP = re.compile(r"<[a-z!/][^<>]{0,200}>", re.IGNORECASE)
QUOTES = "\"'`“”‘’「」『』*_ "
TEXT_KEYS = ("subquery", "sub_query", "query", "question", "text", "q", "子问题", "问题", "查询")
TOOL_KEYS = ("tool", "name", "工具")
LISTS = ("queries", "plan", "subqueries", "sub_queries", "sub_questions", "items", "计划")
WRAPPERS = ("missing", "supplement", "supplements", "need", "缺失", "补充")


def read_question(text: str, fallback: str, longest: int) -> tuple[str, tuple[Flaw, ...]]:
    """Return a self-contained question on one line; ``fallback`` for an empty or overlong output."""
    plain = MARKUP.sub(" ", FENCES.sub("", THOUGHT.sub("", text)))
    found = read_object(plain, cut_off=False)
    if found is not None:
        plain = next((str(found[key]) for key in ("rewritten_question", *TEXT_KEYS) if found.get(key)), "")
    lines = [LABEL.sub("", line).strip(QUOTES) for line in plain.splitlines()]
    lines = [line for line in lines if any(character.isalnum() for character in line)]
    if not lines:
        return fallback, (Flaw(Fault.EMPTY, text[:SHOWN]),)
    # Of several lines the question is the one that asks; introductions end in a colon.
    asking = [line for line in lines if line.endswith(("?", "？"))]
    chosen = " ".join((asking or [line for line in lines if not line.endswith((":", "："))] or lines)[0].split())
    if len(chosen) > longest:
        return fallback, (Flaw(Fault.TOO_LONG, chosen[:SHOWN]),)
    return chosen, ()


def read_plan(text: str, tools: Collection[str]) -> tuple[list[SubQuery], list[Flaw]]:
    """Parse a plan: a JSON list of {tool, subquery, indicators?}, or an object by tool."""
    value, flaws = parse_outermost(text)
    if isinstance(value, list):
        return read_entries(value, tools, "plan")
    if value is None:
        return [], flaws
    inner = next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)
    if inner is not None:
        return read_entries(inner, tools, "plan")
    if any(key in value for key in TOOL_KEYS):
        return read_entries([value], tools, "plan")
    return read_by_tool(value, tools, "plan")


def read_reflection(text: str, tools: Collection[str]) -> tuple[list[SubQuery], list[Flaw]]:
    """Parse supplementary sub-questions: a JSON object by tool, empty when nothing is missing."""
    value, flaws = parse_outermost(text)
    if isinstance(value, list):
        return read_entries(value, tools, "reflect")
    if value is None:
        return [], flaws
    inner = next((value[key] for key in WRAPPERS if isinstance(value.get(key), Mapping)), value)
    return read_by_tool(inner, tools, "reflect")


def parse_outermost(text: str) -> tuple[list[Any] | dict[str, Any] | None, list[Flaw]]:
    """Return the first JSON list or object of a text, or None with the flaw."""
    plain = THOUGHT.sub("", text).strip()
    if not plain:
        return None, [Flaw(Fault.EMPTY)]
    starts = {opening: place for opening in "[［{｛" if (place := plain.find(opening)) >= 0}
    # A list of objects begins with a bracket, an object of lists with a brace; full-width ones come from Chinese
    # models.
    listed = starts and min(starts, key=lambda opening: starts[opening]) in "[［"
    found: list[Any] | dict[str, Any] | None = read_array(plain) if listed else read_object(plain)
    if found is None:
        return None, [Flaw(Fault.NOT_JSON, plain[:SHOWN])]
    return found, []


def read_by_tool(found: Mapping[str, Any], tools: Collection[str], origin: str) -> tuple[list[SubQuery], list[Flaw]]:
    """Return the sub-questions of an object whose keys are tools and whose values are texts or lists of texts."""
    items = []
    for tool, value in found.items():
        for one in value if isinstance(value, list) else [value]:
            items.append({**one, "tool": tool} if isinstance(one, Mapping) else {"tool": tool, "subquery": one})
    return read_entries(items, tools, origin)


def read_entries(items: Sequence[Any], tools: Collection[str], origin: str) -> tuple[list[SubQuery], list[Flaw]]:
    """Return the valid items as sub-questions, and the flaws of the others."""
    queries: list[SubQuery] = []
    flaws: list[Flaw] = []
    for item in items[:MAX_QUERIES]:
        if not isinstance(item, Mapping):
            flaws.append(Flaw(Fault.NO_QUERY, str(item)[:SHOWN]))
            continue
        tool = next((str(item[key]) for key in TOOL_KEYS if item.get(key)), "").strip().lower()
        text = MARKUP.sub(" ", next((str(item[key]) for key in TEXT_KEYS if item.get(key)), ""))
        text = " ".join(text.split())
        if tool not in tools:
            flaws.append(Flaw(Fault.UNKNOWN_TOOL, tool[:SHOWN]))
        elif not any(character.isalnum() for character in text):
            flaws.append(Flaw(Fault.NO_QUERY, tool))
        elif len(text) > MAX_QUERY_CHARS:
            flaws.append(Flaw(Fault.TOO_LONG, text[:SHOWN]))
        else:
            queries.append(SubQuery(tool, text, origin, read_names(item.get("indicators"))))
    if len(items) > MAX_QUERIES:
        flaws.append(Flaw(Fault.TOO_MANY, f"{len(items)} sub-questions"))
    return queries, flaws


def read_names(value: object) -> tuple[str, ...]:
    """Return the indicator names that are texts of a plausible length."""
    if isinstance(value, str):
        value = re.split(r"[,，、;；]", value)
    if not isinstance(value, list):
        return ()
    names = [" ".join(name.split()) for name in value if isinstance(name, str)]
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= SHOWN))[:MAX_INDICATORS]
