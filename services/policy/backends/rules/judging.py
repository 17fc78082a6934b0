"""Reference policy as a judge: scores two quoted answers by overlap with the reference or the question.

A judge's request is recognised by the title of its response schema, and answered in that schema. The score of an answer
depends on that answer alone, so the order of presentation has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import unquote
from fathom.services.policy.backends.rules.terms import is_chinese, words

PAIRWISE, RUBRIC = "fathom.judge.pairwise", "fathom.judge.rubric"
# A title and the quotation below it: ``# First answer``, then ``<quoted>``, the text, ``</quoted>`` on lines of their
# own.
SECTION = re.compile(r"^# (Question|Reference|First answer|Second answer)\n(<quoted>\n.*?\n</quoted>)$", re.M | re.S)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SOURCE = re.compile(r"\[\d+\]|https?://")
# Above this an answer is taken for padded and loses points.
MANY_WORDS = 300


def judge_reply(schema_json: str, messages: Sequence[Message]) -> str | None:
    """Return the reply of a judge; None when the schema is not a judge's."""
    title = titled(schema_json)
    if title not in (PAIRWISE, RUBRIC):
        return None
    asked = next((message.content for message in messages if message.role is Role.USER), "")
    said = {name: unquote(quotation) for name, quotation in SECTION.findall(asked)}
    question, reference = said.get("Question", ""), said.get("Reference", "")
    # Each answer is scored by itself, so the order in which they are shown cannot matter.
    first, second = (score(said.get(f"{name} answer", ""), question, reference) for name in ("First", "Second"))
    if title == PAIRWISE:
        return json.dumps({"reason": reason(first, second, question), "first": first, "second": second})
    return json.dumps(rubric(first, second, question, reference), ensure_ascii=False)


def titled(schema_json: str) -> str:
    """Return the schema's title; "" for none."""
    try:
        schema = json.loads(schema_json or "{}")
    except ValueError:
        return ""
    return str(schema.get("title", "")) if isinstance(schema, dict) else ""


def score(answer: str, question: str, reference: str) -> int:
    """Score an answer from 0 to 10 by agreement with the reference; without one by overlap with the question.

    Without a reference, figures and sources earn points as well.
    """
    given = set(words(answer))
    if not given:
        return 0
    if reference:
        wanted = set(words(reference))
        shared = len(given & wanted) / max(1, len(wanted))
        figures = set(NUMBER.findall(reference))
        told = len(figures & set(NUMBER.findall(answer))) / len(figures) if figures else shared
        value = 5 * shared + 4 * told
    else:
        asked = set(words(question))
        value = 4 * len(given & asked) / max(1, len(asked))
        value += 3 * bool(NUMBER.search(answer)) + 2 * bool(SOURCE.search(answer))
    value += 1 if len(words(answer)) <= MANY_WORDS else -1
    return max(0, min(10, round(value)))


def reason(first: int, second: int, question: str) -> str:
    if is_chinese(question):
        return "两者相当" if first == second else "较好的一个更贴近所问与参考"
    return "both say as much" if first == second else "the better one says more of what was asked"


def rubric(first: int, second: int, question: str, reference: str) -> dict[str, object]:
    """Return principles, critiques and scores of at least 1."""
    counted = "agreement with the reference" if reference else "speaks of what was asked, with figures and sources"
    principles = [{"principle": counted, "weight": 90}, {"principle": "no longer than it must be", "weight": 10}]
    critiques = {name: f"earns {value} of 10" for name, value in (("first", first), ("second", second))}
    return {"principles": principles, "critiques": critiques, "first": max(1, first), "second": max(1, second)}
