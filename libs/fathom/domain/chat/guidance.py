"""Per-run instructions to the model, appended to the user's message.

The system prompt and the tools stay byte-identical for every run, so that engines keep them in their prefix cache; the
date, the answer's format and the like therefore follow the question.
"""

from __future__ import annotations

OPEN, CLOSE = "<guidance>", "</guidance>"


def with_guidance(question: str, lines: list[str]) -> str:
    """Return the question followed by the run's guidance lines."""
    return "\n".join([question, "", OPEN, *lines, CLOSE]) if lines else question


def question_of(content: str) -> str:
    """Return the question of a user's message without guidance."""
    # Only at the very end: a user may write such tags anywhere in a question.
    if not content.rstrip().endswith(CLOSE):
        return content
    return content[: content.rfind(OPEN)].rstrip() if OPEN in content else content
