"""Search-R1's tags (arXiv 2503.09516): ``<think> <search> <information> <answer>``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

# The first well-formed pair wins; the same tag must close, and content may span lines.
ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
CLOSING = ("</search>", "</answer>")
INVALID_ACTION = (
    "\nMy previous action is invalid. To search, put the query between <search> and </search>; to answer, put the"
    " final answer between <answer> and </answer>. Let me try again.\n"
)


@dataclass(frozen=True)
class Action:
    """The action that a text asks for; ``kind`` None means that it has no well-formed action."""

    kind: Literal["search", "answer"] | None
    content: str = ""


def parse_action(text: str) -> Action:
    """Return the first well-formed action of ``text``, its content stripped."""
    match = ACTION.search(text)
    if match is None:
        return Action(None)
    return Action("search" if match.group(1) == "search" else "answer", match.group(2).strip())


def cut_after_action(text: str) -> str:
    """Cut ``text`` after the first closing search tag, else after the first closing answer tag, else nowhere."""
    for closing in CLOSING:
        position = text.find(closing)
        if position >= 0:
            return text[: position + len(closing)]
    return text


def information_block(text: str, max_chars: int = 0) -> str:
    """Format search results as the model reads them, with a blank line around.

    Above ``max_chars`` (0: no limit) the text is cut at its end, never its closing tag.
    """
    stripped = text.strip()
    kept = stripped[:max_chars].rstrip() if max_chars > 0 else stripped
    return f"\n\n<information>{kept}</information>\n\n"
