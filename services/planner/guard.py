"""Guard against premature ends of an episode; it refuses one ``finish`` at most."""

from __future__ import annotations

import json
import re

from fathom.protocol.messages import Message, Role, ToolCall
from fathom.protocol.quoting import neutral
from services.planner.model import Episode, ToolState
from services.planner.todo import Todo

REFUSED = "Not finished yet: "
MARK = '{"tool": "finish", "status": "refused"'
NO_EVIDENCE = frozenset({"think", "todo", "finish"})
# What only a source can answer: figures, periods, comparisons, causes. A greeting or the weather needs no evidence.
SIGNS = re.compile(
    r"\d|%|\b(?:compar\w*|versus|vs|trend|returns?|prices?|revenues?|profits?|margins?|growth|drawdown|volatil\w*"
    r"|valuation|earnings|dividends?|sales|shares?|stocks?|markets?|inflation|gdp|rates?|analy[sz]e|impact|cause[sd]?"
    r"|how (?:much|many|did)|why did)\b"
    r"|比较|对比|走势|趋势|收益|股价|价格|营收|收入|利润|利率|增长|回撤|波动|估值|业绩|分红|市值|通胀|分析|影响|原因|为什么|多少|几个",
    re.IGNORECASE,
)


def needs_evidence(question: str) -> bool:
    """Return whether the question cannot be answered reliably from the model's memory."""
    return SIGNS.search(question) is not None


def collected(episode: Episode) -> bool:
    """Return whether any source was queried; an empty result is evidence too."""
    return any(
        result.call.name not in NO_EVIDENCE and result.status is not ToolState.INVALID
        for step in episode.steps
        for result in step.results
    )


def reason(episode: Episode, todo: Todo) -> str:
    """Return why the episode must not end yet: "todo", "evidence" or ""; also "" after an earlier refusal."""
    if any(message.content.startswith((MARK, REFUSED)) for message in episode.messages):
        return ""
    if todo.open:
        return "todo"
    if not collected(episode) and needs_evidence(episode.task.question):
        return "evidence"
    return ""


def refusal(why: str, todo: Todo, call: ToolCall | None) -> Message:
    """Return the refusal as the result of the ``finish`` call, or as a message to a model that ended in prose."""
    if why == "todo":
        left = "; ".join(item.text for item in todo.open)
        said = (
            f"{REFUSED}the todo list has open entries ({left}). Do them, or mark them done or drop them, then finish."
        )
    else:
        said = f"{REFUSED}no source was asked. Ask one, or finish again if the answer needs none."
    if call is None:
        return Message(Role.USER, neutral(said))
    content = json.dumps({"tool": "finish", "status": "refused", "error": said}, ensure_ascii=False)
    return Message(Role.TOOL, neutral(content), tool_call_id=call.id)
