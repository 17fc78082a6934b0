"""Per-run instructions to the model, appended to the user's message.

The system prompt and the tools stay byte-identical for every run, so that engines keep them in their prefix cache; the
date, the answer's format and the like therefore follow the question.
"""

from __future__ import annotations

import re

OPEN, CLOSE = "<guidance>", "</guidance>"
OWN_DOCUMENTS = (
    "Documents: `search` reads those that the user has chosen for this question. Look there for what no table has, and "
    "cite the passage.",
    "文档：`search` 查找的是用户为本问题选定的文档。表格中没有的内容请先在其中查找，并引用原文段落。",
)
"""Line for a run that searches corpora of the user's choice, in English and Chinese."""

GIVEN_TABLES = (
    "Tables of earlier turns or of the user are in Python already; cite them by number and place them by name:",
    "以下表格（之前各轮的，或用户提供的）已在 Python 中，可以引用和放置：",
)
"""Line above the list of the tables that a run begins with, in English and Chinese."""
ABOUT_DATA = (
    "The question is about the data that there are: `catalogue` without a query has the overview.",
    "问题问的是有哪些数据：不带 query 调用 `catalogue` 可得概览。",
)
"""Line for a question about the data as such, in English and Chinese."""

ABOUT_PRODUCT = (
    "The question is about an account or about this program, on which no tool has anything: say in short what Fathom "
    "answers, refer to whoever operates it, and quote nothing.",
    "问题问的是账号或本程序，任何工具都没有相关内容：简短说明 Fathom 能回答什么，请用户联系运营方，不要引用任何资料。",
)
"""Line for a question about the program or an account, in English and Chinese."""

CORPORA = ("Corpora chosen for this question: ", "为本问题选定的文档库：")
"""Beginning of the line that names them, in English and Chinese."""
# One of them: number, variable, title and size.
GIVEN_TABLE = re.compile(r"\[\d+\] \w+: (.+?), [\d,]+ rows; columns ")


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
    return has_line(content, OWN_DOCUMENTS)


def has_line(content: str, lines: tuple[str, str]) -> bool:
    """Return whether a user's message has one of two lines of guidance."""
    return any(line in lines for line in content[len(question_of(content)) :].splitlines())


def list_corpora(content: str) -> list[str]:
    """Return the names of the corpora that a user's message names."""
    lines = content[len(question_of(content)) :].splitlines()
    named = next((line.removeprefix(start) for line in lines for start in CORPORA if line.startswith(start)), "")
    return named.split(", ") if named else []


def list_given_tables(content: str) -> list[str]:
    """Return the titles of the tables that a user's message says its run begins with."""
    guidance = content[len(question_of(content)) :]
    listed = next((guidance.partition(line)[2] for line in GIVEN_TABLES if line in guidance), "")
    return GIVEN_TABLE.findall(listed)
