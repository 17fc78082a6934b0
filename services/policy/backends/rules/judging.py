"""The reference policy as a judge: scores quoted answers by overlap with the reference or the question.

A judge's request is recognised by the title of its response schema. The score of an answer depends on that answer
alone, so the order of presentation has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import unquote
from fathom.domain.text.terms import list_words
from fathom.domain.tool_results import parse_object

PAIRWISE, RUBRIC, DIRECT = "fathom.judge.pairwise", "fathom.judge.rubric", "fathom.judge.direct"
# A title, and the quotation below it on lines of its own.
SECTION = re.compile(
    r"^# (Question|Reference|Answer|First answer|Second answer)\n(<quoted>\n.*?\n</quoted>)$", re.M | re.S
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SOURCE = re.compile(r"\[\d+\]|https?://")
# Above this an answer is taken for padded and loses points.
MANY_WORDS = 300


def judge_reply(schema_json: str, messages: Sequence[Message]) -> str | None:
    """Return the reply of a judge; None when the schema is not a judge's."""
    title = (parse_object(schema_json) or {}).get("title", "")
    if title not in (PAIRWISE, RUBRIC, DIRECT):
        return None
    asked = next((message.content for message in messages if message.role is Role.USER), "")
    said = {name: unquote(quotation) for name, quotation in SECTION.findall(asked)}
    question, reference = said.get("Question", ""), said.get("Reference", "")
    if title == DIRECT:
        scores = rate_alone(said.get("Answer", ""), question, reference)
        return json.dumps({"reason": "by rules: counts of words, figures and sources", **scores})
    first, second = (score(said.get(f"{name} answer", ""), question, reference) for name in ("First", "Second"))
    if title == PAIRWISE:
        reason = "both say as much" if first == second else "the better one says more of what was asked"
        return json.dumps({"reason": reason, "first": first, "second": second})
    counted = "agreement with the reference" if reference else "speaks of what was asked, with figures and sources"
    principles = [{"principle": counted, "weight": 90}, {"principle": "no longer than it must be", "weight": 10}]
    critiques = {name: f"earns {value} of 10" for name, value in (("first", first), ("second", second))}
    scores = {"first": max(1, first), "second": max(1, second)}
    return json.dumps({"principles": principles, "critiques": critiques, **scores})


def rate_alone(answer: str, question: str, reference: str) -> dict[str, int]:
    """Return a score from 0 to 10 in each of four dimensions of an answer that is shown alone."""
    given, figures = set(list_words(answer)), set(NUMBER.findall(answer))
    asked, wanted = set(list_words(question)), set(NUMBER.findall(reference))
    if not given:
        return dict.fromkeys(("accuracy", "logic", "professionalism", "citation"), 0)
    # Without a reference a stated figure is all that can be seen of being right.
    right = len(figures & wanted) / len(wanted) if wanted else float(bool(figures))
    return {
        "accuracy": round(10 * right),
        "logic": round(10 * len(given & asked) / max(1, len(asked))),
        "professionalism": 10 if len(list_words(answer)) <= MANY_WORDS else 5,
        "citation": 10 * bool(SOURCE.search(answer)),
    }


def score(answer: str, question: str, reference: str) -> int:
    """Return 0 to 10: agreement with the reference, or else overlap with the question, figures and sources."""
    terms = list_words(answer)
    given = set(terms)
    if not given:
        return 0
    if reference:
        wanted, figures = set(list_words(reference)), set(NUMBER.findall(reference))
        shared = len(given & wanted) / max(1, len(wanted))
        stated = len(figures & set(NUMBER.findall(answer))) / len(figures) if figures else shared
        value = 5 * shared + 4 * stated
    else:
        asked = set(list_words(question))
        value = 4 * len(given & asked) / max(1, len(asked))
        value += 3 * bool(NUMBER.search(answer)) + 2 * bool(SOURCE.search(answer))
    value += 1 if len(terms) <= MANY_WORDS else -1
    return max(0, min(10, round(value)))
