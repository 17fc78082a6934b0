"""Prompts of the pipeline's stages with their input sections. Only ``rewrite`` sees earlier turns."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.protocol.messages import Message, Role
from fathom.protocol.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, ask
from fathom.protocol.quoting import neutral
from services.planner.answering.material import estimated_tokens, listing
from services.planner.model import Episode, Task, ToolResult
from services.planner.prompting import Prompts
from services.planner.tools.tool import shortened
from services.planner.workflow.record import SubQuery
from services.planner.workflow.widening import Around

FULL_TURNS, MAX_ANSWER_CHARS = 2, 6_000
RESULT_CHARS, LEAST_RESULT_CHARS = 12_000, 300
TOOL_CHARS = 160
CUT, MARK_TOKENS = frozenset({"history", "framework", "indicators", "asked", "material"}), 20
SHARE = 0.7
"""Share of the window for a stage's prompt; the rest is for its output."""


def rewriting(prompts: Prompts, task: Task, room: int = 0) -> tuple[Message, ...]:
    """Return the prompt of the rewrite stage: earlier questions and answers, and the current question."""
    sections = {"history": history(task.history), "question": task.question, "date": task.date}
    return said(prompts, task, REWRITE, sections, room)


def planning(
    prompts: Prompts, task: Task, question: str, tools: Sequence[tuple[str, str]], around: Around, room: int = 0
) -> tuple[Message, ...]:
    """Return the prompt of the plan stage: the question, the tools, a framework's subtree, and indicator names."""
    return said(
        prompts,
        task,
        PLAN,
        {
            "question": question,
            "date": task.date,
            "tools": tool_lines(tools),
            "framework": around.framework,
            "indicators": ", ".join(around.indicators),
        },
        room,
    )


def reflecting(
    prompts: Prompts,
    task: Task,
    question: str,
    tools: Sequence[tuple[str, str]],
    asked: Sequence[tuple[SubQuery, ToolResult]],
    room: int = 0,
) -> tuple[Message, ...]:
    """Return the prompt of the reflect stage: the sub-questions sent so far, each with its result."""
    each = max(LEAST_RESULT_CHARS, RESULT_CHARS // max(1, len(asked)))
    lines = [
        f"{place}. [{query.tool}] {query.text} => {result.status.value}\n{shortened(neutral(result.content), each)}"
        for place, (query, result) in enumerate(asked, start=1)
    ]
    sections = {"question": question, "date": task.date, "tools": tool_lines(tools), "asked": "\n\n".join(lines)}
    return said(prompts, task, REFLECT, sections, room)


def composing(
    prompts: Prompts, task: Task, question: str, episode: Episode, tokens: int, room: int = 0
) -> tuple[Message, ...]:
    """Return the prompt of the compose stage: the question and all numbered material."""
    sections = {
        "question": question,
        "date": task.date,
        "guidance": prompts.text(task, "answer"),
        "material": neutral(listing(episode.material, min(tokens, room // 2) if room else tokens).text),
    }
    return said(prompts, task, COMPOSE, sections, room)


def said(prompts: Prompts, task: Task, stage: str, sections: dict[str, str], room: int) -> tuple[Message, ...]:
    system = prompts.text(task, stage)
    return (Message(Role.SYSTEM, system), Message(Role.USER, ask(stage, fitted(system, sections, room))))


def fitted(system: str, sections: dict[str, str], room: int) -> dict[str, str]:
    """Cut the sections to ``SHARE`` of the window by an upper token estimate, the longest first, in their middle.

    The question is never cut. Sections that fit are returned unchanged.
    """
    over = estimated_tokens(system) + sum(map(estimated_tokens, sections.values())) - int(room * SHARE)
    if not room or over <= 0:
        return sections
    out = dict(sections)
    for name in sorted(set(out) & CUT, key=lambda name: (-estimated_tokens(out[name]), name)):
        tokens = estimated_tokens(out[name])
        if over > 0 and tokens:
            kept = len(out[name]) * max(0, tokens - over - MARK_TOKENS) // tokens
            out[name] = shortened(out[name], max(LEAST_RESULT_CHARS, kept))
            over -= tokens - estimated_tokens(out[name])
    return out


def tool_lines(tools: Sequence[tuple[str, str]]) -> str:
    """Return one line per tool with its description."""
    return "\n".join(f"- {name}: {' '.join(description.split())[:TOOL_CHARS]}" for name, description in tools)


def history(messages: Sequence[Message], full_turns: int = FULL_TURNS) -> str:
    """Return the turns, oldest first: the last ``full_turns`` with their answers, older ones with bullet points only.

    Questions are in their rewritten form. Memory already provides bullet points for older turns; an older answer in
    full is cut to its first lines.
    """
    turns = [
        (asked.content, answered.content)
        for asked, answered in zip(messages[::2], messages[1::2], strict=False)
        if asked.role is Role.USER
    ]
    lines = []
    for number, (asked, answered) in enumerate(turns, start=1):
        full = number > len(turns) - full_turns
        told = shortened(answered, MAX_ANSWER_CHARS) if full else points(answered)
        lines.append(f"Q{number}: {' '.join(asked.split())}\nA{number}{'' if full else ' (points)'}:\n{neutral(told)}")
    return "\n\n".join(lines)


def points(answer: str) -> str:
    """Return the bullet points of an older answer, or its first lines when it has none."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    bullets = [line for line in lines if line.startswith("- ")]
    return "\n".join(bullets or [f"- {shortened(line, 200)}" for line in lines[:3]])
