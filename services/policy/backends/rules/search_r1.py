"""Search-R1 protocol: think and search, then think and answer from the information blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.tags import parse_action
from fathom.domain.text.months import MONTH_NAMES
from fathom.services.policy.backends.rules.terms import keywords, sentences, words

INFORMATION = re.compile(r"<information>(.*?)(?:</information>|\Z)", re.DOTALL)
QUESTION = re.compile(r"Question:\s*(.+?)\s*\Z", re.DOTALL)
DOCUMENT = re.compile(r"Doc \d+\s*\(Title: *\"?(.*?)\"?\)", re.DOTALL)
# Capitalised words, joined by small ones: "University of Cambridge", "Ludwig van Beethoven", "J.P. Morgan".
NAME = re.compile(r"\b(?:[A-Z][\w.&'-]*)(?:\s+(?:of|the|and|de|van|von|[A-Z][\w.&'-]*))*\s*(?:[A-Z][\w.&'-]*)?")
# "3 May 1998", "May 3, 1998", "1998-05-03", 1998年5月3日, or a bare year from 1500 on.
DATE = re.compile(
    rf"\b(?:\d{{1,2}} )?(?:{'|'.join(MONTH_NAMES)})"
    r"(?: \d{1,2},)? \d{4}|\d{4}-\d\d-\d\d|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|\b(?:1[5-9]|20)\d\d\b"
)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?%?")
MAX_SEARCHES = 2
UNKNOWN = "unknown"


def next_text(messages: Sequence[Message]) -> str:
    """Return the next turn in tags: searches until there is information (at most two), then an answer."""
    question = question_of(messages)
    information = "\n".join(
        match.group(1) for message in messages if message.role is not Role.ASSISTANT
        for match in INFORMATION.finditer(message.content)
        if message.content.lstrip().startswith("<information>")
    ).strip()  # fmt: skip
    asked = [parse_action(message.content) for message in messages if message.role is Role.ASSISTANT]
    searches = [action.content for action in asked if action.kind == "search"]
    if not information and len(searches) < MAX_SEARCHES:
        query = (keywords(question) or question) if searches else question
        thought = "The first search found nothing; key words may." if searches else "I need to look this up."
        return f"<think>{thought}</think>\n<search> {query} </search>"
    found = short_answer(question, information)
    thought = "The information names it." if found != UNKNOWN else "The information does not say it."
    return f"<think>{thought}</think>\n<answer> {found} </answer>"


def question_of(messages: Sequence[Message]) -> str:
    """Return the first user message, after "Question:" if the template has it."""
    text = next((message.content for message in messages if message.role is Role.USER), "")
    match = QUESTION.search(text)
    return (match.group(1) if match else text).strip()


def short_answer(question: str, information: str) -> str:
    """Return a name, date or number, as the question word implies, from the best matching sentence."""
    wanted = set(words(question))
    body = DOCUMENT.sub("\n", information)
    parts = [part.strip() for part in sentences(body)]
    best = max(parts, key=lambda part: len(wanted & set(words(part))), default="")
    if not best or not wanted & set(words(best)):
        return UNKNOWN
    if re.match(r"\W*when\b|.*\b(?:what|which) (?:year|date)\b|.*(?:哪一年|何时|什么时候)", question, re.IGNORECASE):
        pattern = DATE
    elif re.search(r"\bhow (?:many|much)\b|多少|几", question, re.IGNORECASE):
        pattern = NUMBER
    else:
        pattern = NAME
    candidates = [match.group().strip(" ,.") for match in pattern.finditer(best)]
    # An answer that only repeats words of the question says nothing.
    new = [candidate for candidate in candidates if words(candidate) and not set(words(candidate)) & wanted]
    return new[0] if new else best
