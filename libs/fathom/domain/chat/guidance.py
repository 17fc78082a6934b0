"""Per-run instructions to the model, appended to the user's message.

The system prompt and the tools stay byte-identical for every run, so that engines keep them in their prefix cache; the
date, the answer's format and the like therefore follow the question.
"""

from __future__ import annotations

OPEN, CLOSE = "<guidance>", "</guidance>"
OWN_DOCUMENTS = (
    "Documents: `search` reads those that the user has chosen for this question. Look there for what no table has, and "
    "cite the passage.",
    "文档：`search` 查找的是用户为本问题选定的文档。表格中没有的内容请先在其中查找，并引用原文段落。",
)
"""Line for a run that searches corpora of the user's choice, in English and Chinese."""


def with_guidance(question: str, lines: list[str]) -> str:
    """Return the question followed by the run's guidance lines."""
    return "\n".join([question, "", OPEN, *lines, CLOSE]) if lines else question


def question_of(content: str) -> str:
    """Return the question of a user's message without guidance."""
    # Only at the very end: a user may write such tags anywhere in a question.
    if not content.rstrip().endswith(CLOSE):
        return content
    return content[: content.rfind(OPEN)].rstrip() if OPEN in content else content


def has_own_documents(content: str) -> bool:
    """Return whether a user's message says that its run searches corpora of the user's choice."""
    lines = content[len(question_of(content)) :].splitlines()
    return any(line in lines for line in OWN_DOCUMENTS)
