"""Prompts of the pipeline's stages with their input sections. Only ``rewrite`` sees earlier turns."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.chat import pipeline
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, ask
from fathom.domain.chat.quoting import neutral, shorten
from fathom.services.planner.answering.rendering.material import estimate_tokens, list_material
from fathom.services.planner.model.episode import Episode, Task, ToolResult
from fathom.services.planner.model.stages import SubQuery
from fathom.services.planner.prompts.selection import Prompts, describe_memory
from fathom.services.planner.workflow.enrichment import QuestionContext

# Characters of all results together in the reflection, and the least per result, below which it says nothing.
RESULT_CHARS, LEAST_RESULT_CHARS = 12_000, 300
# A plan needs to know what a tool is for, not its details.
TOOL_CHARS = 160
CUT, MARK_TOKENS = frozenset({"history", "framework", "indicators", "asked", "material"}), 20
SHARE = 0.7
"""Share of the window for a stage's prompt; the rest is for its output."""


def prompt_rewrite(prompts: Prompts, task: Task, room: int = 0) -> tuple[Message, ...]:
    """Return the prompt of the rewrite stage: earlier questions and answers, and the current question."""
    sections = {"history": format_history(task.history), "question": task.question, "date": task.date}
    return build_prompt(prompts, task, REWRITE, sections, room)


def prompt_plan(
    prompts: Prompts,
    task: Task,
    question: str,
    tools: Sequence[tuple[str, str]],
    around: QuestionContext,
    room: int = 0,
) -> tuple[Message, ...]:
    """Return the prompt of the plan stage: the question, the tools, a framework's subtree, and indicator names."""
    return build_prompt(
        prompts,
        task,
        PLAN,
        {
            "question": question,
            "date": task.date,
            "tools": format_tools(tools),
            "framework": around.framework,
            "indicators": ", ".join(around.indicators),
            "memory": "".join(describe_memory(task)),
        },
        room,
    )


def prompt_reflect(
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
        f"{place}. [{query.tool}] {query.text} => {result.status.value}\n{shorten(neutral(result.content), each)}"
        for place, (query, result) in enumerate(asked, start=1)
    ]
    sections = {"question": question, "date": task.date, "tools": format_tools(tools), "asked": "\n\n".join(lines)}
    return build_prompt(prompts, task, REFLECT, sections, room)


def prompt_compose(
    prompts: Prompts, task: Task, question: str, episode: Episode, tokens: int, room: int = 0
) -> tuple[Message, ...]:
    """Return the prompt of the compose stage: the question and all numbered material."""
    sections = {
        "question": question,
        "date": task.date,
        "guidance": prompts.text(task, "answer"),
        "memory": "".join(describe_memory(task)),
        "material": neutral(list_material(episode.material, min(tokens, room // 2) if room else tokens).text),
    }
    return build_prompt(prompts, task, COMPOSE, sections, room)


def build_prompt(prompts: Prompts, task: Task, stage: str, sections: dict[str, str], room: int) -> tuple[Message, ...]:
    system = prompts.text(task, stage)
    return (Message(Role.SYSTEM, system), Message(Role.USER, ask(stage, fit_sections(system, sections, room))))


def fit_sections(system: str, sections: dict[str, str], room: int) -> dict[str, str]:
    """Cut the sections to ``SHARE`` of the window by an upper token estimate, the longest first, in their middle.

    The question is never cut. Sections that fit are returned unchanged.
    """
    over = estimate_tokens(system) + sum(map(estimate_tokens, sections.values())) - int(room * SHARE)
    if not room or over <= 0:
        return sections
    out = dict(sections)
    # By name among equals, so that the same sections always give the same prompt.
    for name in sorted(set(out) & CUT, key=lambda name: (-estimate_tokens(out[name]), name)):
        tokens = estimate_tokens(out[name])
        if over > 0 and tokens:
            kept = len(out[name]) * max(0, tokens - over - MARK_TOKENS) // tokens
            out[name] = shorten(out[name], max(LEAST_RESULT_CHARS, kept))
            over -= tokens - estimate_tokens(out[name])
    return out


def format_tools(tools: Sequence[tuple[str, str]]) -> str:
    """Return one line per tool with its description."""
    return "\n".join(f"- {name}: {' '.join(description.split())[:TOOL_CHARS]}" for name, description in tools)


def format_history(messages: Sequence[Message]) -> str:
    """Return the turns of a run's history as the rewrite stage is shown them."""
    turns = [
        (asked.content, answered.content)
        for asked, answered in zip(messages[::2], messages[1::2], strict=False)
        if asked.role is Role.USER
    ]
    return pipeline.format_history(turns)
