"""Search-R1's tags in a response: their contents, and validation of their order (arXiv 2503.09516, v0.3)."""

from __future__ import annotations

import re

TAG = re.compile(r"<(/?)(think|search|information|answer)>")
# What may open after what has closed. A thought is followed by an action, a search by its information.
AFTER = {
    "start": {"think"},
    "think": {"search", "answer"},
    "search": {"information"},
    "information": {"think"},
    "answer": set[str](),
}
ACTIONS = {"search", "answer"}
# As in Search-R1's port to verl; a response may name the tag in its thoughts.
MAX_ANSWER_TAGS = 10


def contents(response: str, tag: str) -> list[str]:
    """Return the stripped text between each opening tag and the next closing one, in linear time."""
    found, position = [], 0
    opening, closing = f"<{tag}>", f"</{tag}>"
    while (start := response.find(opening, position)) >= 0 and (end := response.find(closing, start)) >= 0:
        found.append(response[start + len(opening) : end].strip())
        position = end + len(closing)
    return found


def last_answer(response: str) -> str | None:
    """Return the last answer of the response, without the prompt and its example; None without one."""
    found = contents(response, "answer")
    return found[-1] if found else None


def is_spam(response: str) -> bool:
    """Return True if more than ten answer tags open or close: guessing in every tag is not an answer."""
    return max(response.count("<answer>"), response.count("</answer>")) > MAX_ANSWER_TAGS


def fault(response: str, thoughts: bool) -> str:
    """Return why the response is malformed; "" when it is well formed.

    Well formed is (think, search, information)* think answer, every tag closed before the next opens, only whitespace
    between tags and nothing after the answer. Without ``thoughts`` the think tags are optional.
    """
    closed, opened, position = "start", "", 0
    for match in TAG.finditer(response):
        name, closing = match.group(2), bool(match.group(1))
        if not opened and response[position : match.start()].strip():
            return f"text stands outside of tags before {match.group()}"
        if closing and name != opened:
            return f"{match.group()} closes nothing"
        if not closing and (opened or not may_follow(closed, name, thoughts)):
            return f"{match.group()} opens {'inside ' + opened if opened else 'after ' + closed}"
        closed, opened, position = (name, "", match.end()) if closing else (closed, name, match.end())
    if opened:
        return f"<{opened}> is not closed"
    if closed != "answer":
        return "there is no answer at the end"
    return "text follows the answer" if response[position:].strip() else ""


def may_follow(closed: str, tag: str, thoughts: bool) -> bool:
    """Return True if ``tag`` may open after ``closed``; an action may replace an omitted thought."""
    return tag in AFTER[closed] or (not thoughts and "think" in AFTER[closed] and tag in ACTIONS)
