"""What a run says to the model beside the question: at the end of the user's message.

The system prompt and the tools stay the same bytes for every run, so that engines keep them in their
prefix cache; the date, the answer's form and the like stand behind the question (row P09).
"""

from __future__ import annotations

OPEN, CLOSE = "<guidance>", "</guidance>"


def with_guidance(question: str, lines: list[str]) -> str:
    """The question, and below it what this run adds."""
    return "\n".join([question, "", OPEN, *lines, CLOSE]) if lines else question


def question_of(content: str) -> str:
    """The question of a user's message, without guidance."""
    if not content.rstrip().endswith(CLOSE):
        return content
    return content[: content.rfind(OPEN)].rstrip() if OPEN in content else content
