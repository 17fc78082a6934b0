"""Search-R1 protocol: think and search, then think and answer from the information blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.tags import parse_action
from fathom.domain.text.months import MONTH_NAMES
from fathom.domain.text.terms import list_sentences, list_words

INFORMATION = re.compile(r"<information>(.*?)(?:</information>|\Z)", re.DOTALL)
QUESTION = re.compile(r"Question:\s*(.+?)\s*\Z", re.DOTALL)
DOCUMENT = re.compile(r"Doc \d+\s*\(Title: *\"?(.*?)\"?\)", re.DOTALL)
# Capitalised words, joined by small ones: "University of Cambridge", "Ludwig van Beethoven", "J.P. Morgan".
NAME = re.compile(r"\b(?:[A-Z][\w.&'-]*)(?:\s+(?:of|the|and|de|van|von|[A-Z][\w.&'-]*))*\s*(?:[A-Z][\w.&'-]*)?")
# "5 May 1998", "May 5, 1998", an ISO date, or a bare year from 1500, which a shorter number is not.
DATE = re.compile(
    rf"\b(?:\d{{1,2}} )?(?:{'|'.join(MONTH_NAMES)})(?: \d{{1,2}},)? \d{{4}}|\d{{4}}-\d\d-\d\d|\b(?:1[5-9]|20)\d\d\b"
)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?%?")
MAX_SEARCHES, UNKNOWN = 2, "unknown"


def next_text(messages: Sequence[Message]) -> str:
    """Return the next turn in tags: searches until there is information (at most two), then an answer."""
    first = next((message.content for message in messages if message.role is Role.USER), "")
    named = QUESTION.search(first)
    question = (named.group(1) if named else first).strip()
    shown = [message.content for message in messages if message.role is not Role.ASSISTANT]
    told = [text for text in shown if text.lstrip().startswith("<information>")]
    blocks = [block for text in told for block in INFORMATION.findall(text)]
    information = "\n".join(blocks).strip()
    actions = [parse_action(message.content) for message in messages if message.role is Role.ASSISTANT]
    searches = sum(action.kind == "search" for action in actions)
    if not information and searches < MAX_SEARCHES:
        thought = "The first search found nothing; key words may." if searches else "I need to look this up."
        query = (" ".join(list_words(question)) or question) if searches else question
        return f"<think>{thought}</think>\n<search> {query} </search>"
    answer = short_answer(question, information)
    thought = "The information names it." if answer != UNKNOWN else "The information does not say it."
    return f"<think>{thought}</think>\n<answer> {answer} </answer>"


def short_answer(question: str, information: str) -> str:
    """Return a name, date or number, as the question word implies, from the best matching sentence."""
    wanted = set(list_words(question))
    parts = list_sentences(DOCUMENT.sub("\n", information))
    best = max(parts, key=lambda part: len(wanted & set(list_words(part))), default="")
    if not wanted & set(list_words(best)):
        return UNKNOWN
    is_date = re.match(r"\W*when\b|.*\b(?:what|which) (?:year|date)\b|.*(?:哪一年|何时)", question, re.IGNORECASE)
    is_number = re.search(r"\bhow (?:many|much)\b|多少|几", question, re.IGNORECASE)
    pattern = DATE if is_date else NUMBER if is_number else NAME
    candidates = [match.group().strip(" ,.") for match in pattern.finditer(best)]
    # An answer that only repeats words of the question says nothing.
    return next((text for text in candidates if list_words(text) and not set(list_words(text)) & wanted), best)
