"""A conversation as it stands when a model is asked: its last question, what the guidance says, and the calls since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.chat.guidance import (
    ABOUT_DATA,
    ABOUT_PRODUCT,
    has_line,
    has_own_documents,
    list_corpora,
    list_given_tables,
    question_of,
)
from fathom.domain.chat.hermes import OPEN
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.notices import is_note
from fathom.domain.profile.guidance import Line, find_value, read_memory
from fathom.domain.profile.kinds import Kind
from fathom.domain.text.terms import is_chinese
from fathom.domain.tool_results import Step, read_steps


@dataclass(frozen=True)
class Conversation:
    """The question and its steps; ``is_last_round`` when a message follows the last result: time to finish."""

    question: str
    steps: tuple[Step, ...]
    is_last_round: bool
    is_follow_up: bool = False
    memory: tuple[Line, ...] = ()
    """Lines of the user's memory in the prompt."""
    has_own_documents: bool = False
    """True where the run searches corpora of the user's choice."""
    given_tables: tuple[str, ...] = ()
    """Titles of the tables that the run begins with: the user's own, and those of earlier turns."""
    corpora: tuple[str, ...] = ()
    """Names of the corpora of the user's choice, where the message names them."""
    is_about_data: bool = False
    """True for a question about the data that there are."""
    is_about_product: bool = False
    """True for a question about the program or an account."""

    @property
    def is_zh(self) -> bool:
        """Return whether the answer is to be in Chinese."""
        language = find_value(self.memory, Kind.LANGUAGE)
        return language == "zh" if language else is_chinese(self.question)

    @property
    def charts(self) -> list[str]:
        """Return the names of the figures of cells that drew a chart."""
        drawn = [step for step in self.steps if step.is_chart and step.is_ok]
        return [str(name) for step in drawn for name in step.head.get("figures", ())]

    def of(self, tool: str) -> list[Step]:
        """Return the calls of one tool in order."""
        return [step for step in self.steps if step.tool == tool]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Read the last question of a conversation and the steps since then, ignoring the planner's notes."""
    messages = [message for message in messages if not is_note(message)]
    start = find_question(messages)
    content = messages[start].content if start >= 0 else ""
    question = question_of(content).strip()
    return Conversation(
        question,
        tuple(read_steps(messages[start + 1 :])),
        is_last_round=len(messages) - 1 > start and messages[-1].role is Role.USER,
        is_follow_up=any(message.role is Role.USER for message in messages[: max(start, 0)]),
        memory=read_memory(content.removeprefix(question)),
        has_own_documents=has_own_documents(content),
        given_tables=tuple(list_given_tables(content)),
        corpora=tuple(list_corpora(content)),
        is_about_data=has_line(content, ABOUT_DATA),
        is_about_product=has_line(content, ABOUT_PRODUCT),
    )


def find_question(messages: Sequence[Message]) -> int:
    """Return the index of the last user message that is a question; -1 without one."""
    for index in range(len(messages) - 1, -1, -1):
        before = messages[index - 1] if index else Message(Role.SYSTEM, "")
        # A user message behind a result or a malformed call is a remark of the planner.
        called = before.role is Role.ASSISTANT and (bool(before.tool_calls) or OPEN in before.content)
        if messages[index].role is Role.USER and before.role is not Role.TOOL and not called:
            return index
    return -1
