"""The answer that the planner gives in the model's place: why there is none of its own, and what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.domain.chat.quoting import shorten
from fathom.domain.text.language import language_of
from fathom.services.planner.answering.rendering.missing import escape_markdown
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    Finding,
    FindingKind,
    Material,
    MaterialKind,
    Shortfall,
)
from fathom.services.planner.tools.documents import format_day

# A page of each kind: the panel beside the answer has the rest.
MAX_TABLES, MAX_CELLS, MAX_DOCUMENTS = 6, 6, 8
PRINTED_CHARS = 1_200
REASONS = {
    Shortfall.EMPTY: ("the model replied with nothing, twice in a row", "模型连续两次没有任何回复"),
    Shortfall.FILTERED: ("a content filter withheld the model's replies", "模型的回复被内容过滤器拦截"),
    Shortfall.REPEATING: ("the model went on repeating calls that it had made", "模型一直重复已做过的调用"),
    Shortfall.IDLE: ("the model went on without finding anything new", "模型一直没有找到新的内容"),
    Shortfall.BUDGET: (
        "the budget of this run was spent before the model finished",
        "模型完成之前本次运行的额度已用尽",
    ),
    Shortfall.CONTEXT: (
        "the conversation did not fit into the model's window, also after it was shortened",
        "对话缩短之后仍超出模型的窗口",
    ),
    Shortfall.TIME: ("the time of this run was spent before the model finished", "模型完成之前本次运行的时间已用尽"),
}
CUT = ("**Cut off:** the model's reply ended here before it was complete.", "**未完：** 模型的回复在完成之前被截断。")


def compose_available(episode: Episode, shortfall: Shortfall, draft: str = "") -> str:
    """Return an answer without a model: the reason first, then its last draft, or else all that was found."""
    chinese = language_of(episode.task.question) == "zh"
    why = REASONS[shortfall][chinese]
    if draft:
        said = f"**没有完成的答案：** {why}。以下是它最后的草稿。"
        return f"{said if chinese else f'**Not finished:** {why}. This is its last draft.'}\n\n{draft}"
    known = [item for item in episode.material if item.kind is not MaterialKind.MISSING]
    if not known:
        nothing = f"**没有答案：** {why}，也没有找到任何内容。"
        return nothing if chinese else f"**No answer:** {why}, and nothing was found."
    head = f"**没有答案：** {why}。以下是已找到的内容，没有经过模型整理。"
    lines = [head if chinese else f"**No answer:** {why}. This is what was found; no model has put it in words."]
    lines += list_tables(known, chinese)
    lines += list_cells(known, chinese)
    lines += list_documents(known, chinese)
    return "\n\n".join(lines)


def list_tables(material: Sequence[Material], chinese: bool) -> list[str]:
    """Return the tables in place, each with its title and citation; the newest ones where there are many."""
    tables = [item for item in material if item.kind is MaterialKind.SHEET]
    lines = ["## 表格" if chinese else "## Tables"] if tables else []
    for item in tables[-MAX_TABLES:]:
        lines += [f"{escape_markdown(item.item.title)} [{item.number}]", f"{{{{table:{item.variable}}}}}"]
    return lines


def list_cells(material: Sequence[Material], chinese: bool) -> list[str]:
    """Return what the calculations that ran have printed, and their figures; the newest ones where there are many."""
    cells = [item for item in material if item.kind is MaterialKind.CODE and item.item.ok]
    shown = [item for item in cells if item.item.stdout.strip() or item.item.result.strip() or item.item.figures]
    lines = ["## 计算" if chinese else "## Calculations"] if shown else []
    for item in shown[-MAX_CELLS:]:
        record = item.item
        printed = "\n".join(part for part in (record.stdout.rstrip(), record.result.rstrip()) if part)
        if printed:
            lines += [f"{'输出' if chinese else 'Printed'} [{item.number}]:", fence(shorten(printed, PRINTED_CHARS))]
        lines += [f"{{{{figure:{figure.id}}}}}" for figure in record.figures]
    return lines


def list_documents(material: Sequence[Material], chinese: bool) -> list[str]:
    """Return the titles of the documents, the newest finds where there are many."""
    documents = [item for item in material if item.kind is MaterialKind.PASSAGE]
    if not documents:
        return []
    dated = [(item, format_day(item.item.publish_time)) for item in documents[-MAX_DOCUMENTS:]]
    listed = [
        f"- {escape_markdown(item.item.title)}{f' ({day})' if day else ''} [{item.number}]" for item, day in dated
    ]
    return ["## 文档" if chinese else "## Documents", "\n".join(listed)]


def fence(text: str) -> str:
    """Return text as a code block that it cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}\n{text}\n{marks}"


def mark_truncated(answer: Answer, question: str, detail: str) -> Answer:
    """Return the answer with a first line that says that it was cut off, and a finding on that line."""
    line = CUT[language_of(question) == "zh"]
    shift = len(line) + 2
    moved = [replace(mark, start=mark.start + shift, end=mark.end + shift) for mark in answer.findings]
    mark = Finding(0, len(line), FindingKind.TRUNCATED, line, detail)
    return replace(answer, markdown=f"{line}\n\n{answer.markdown}", findings=(mark, *moved))
