"""Conversation protocols of an episode: ``research`` and ``search_r1``, over the same loop and tools.

A protocol opens the conversation, interprets completions, and converts tool results to messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.domain.chat import tags
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolCall, ToolSpec
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.model.episode import Task, ToolResult
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.tools.arguments import read_argument

# Where a caller's instruction has the question.
QUESTION = "{question}"

FINISH = "finish"
CALL_A_TOOL = (
    "That was no tool call. Call one tool, with its `intent`; call `finish` with the answer when you are done."
)
# Looked up in recorded messages, so a change of the words makes older runs forget that their last round was announced.
LAST_ROUND = "This is the last round: call `finish` now with what is known, and say what is missing."
SEARCH_R1_STOPS = ("</search>", "</answer>")


@dataclass(frozen=True)
class Decision:
    """Interpretation of a completion: tool calls, an answer, or a correction.

    ``end`` is the call that ends the episode, ``unmade`` are the calls beside it, which are not executed. ``cut`` is
    a call whose arguments a limit has cut off; ``is_cut`` says the same of the answer.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    correction: Message | None = None
    end: ToolCall | None = None
    unmade: tuple[ToolCall, ...] = ()
    cut: ToolCall | None = None
    is_cut: bool = False


class EpisodeProtocol(Protocol):
    """Interface of both protocols."""

    tags: bool
    """True when actions are tags in the text; then no tools are offered to the policy."""

    def opening(self, task: Task) -> tuple[Message, ...]: ...

    def sampling(self, task: Task) -> Sampling: ...

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]: ...

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision: ...

    def render(self, result: ToolResult) -> Message: ...

    def nudge(self) -> Message | None: ...

    def prompt_hash(self, task: Task) -> str: ...

    def prompts(self, question: str, wanted: Mapping[str, str], window_tokens: int = 0) -> Mapping[str, str]: ...


class Research:
    """Protocol with tool calls in the policy's own format; ``finish`` ends the episode."""

    tags = False

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    def prompt_hash(self, task: Task) -> str:
        return self._prompts.hash(task)

    def prompts(self, question: str, wanted: Mapping[str, str], window_tokens: int = 0) -> Mapping[str, str]:
        """Return prompt ids by stage, short ones for a small window; raise ``InvalidField`` for an unknown one."""
        return self._prompts.choose(question, wanted, window_tokens=window_tokens)

    def opening(self, task: Task) -> tuple[Message, ...]:
        """Return the first messages: system prompt, history, question."""
        # What is specific to this run comes last, so that engines can cache the prefix.
        system, user = self._prompts.system(task), self._prompts.opening(task)
        return (Message(Role.SYSTEM, system), *task.history, Message(Role.USER, user))

    def sampling(self, task: Task) -> Sampling:
        return task.sampling

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return specs

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision:
        """Interpret a completion: calls in order, where ``finish`` ends the episode only as the first call."""
        calls = completion.tool_calls
        if not calls:
            # Small models answer in prose; after one correction prose counts as the answer.
            if (corrected or last) and completion.text.strip():
                return Decision(answer=completion.text.strip())
            return Decision(correction=Message(Role.USER, CALL_A_TOOL))
        # Behind other calls, it was written without having seen their results.
        if calls[0].name == FINISH:
            answer = read_finish_argument(calls[0].arguments_json)
            return Decision(calls=calls) if answer is None else Decision(answer=answer, end=calls[0], unmade=calls[1:])
        return Decision(calls=calls)

    def render(self, result: ToolResult) -> Message:
        return Message(Role.TOOL, result.content, tool_call_id=result.call.id)

    def nudge(self) -> Message | None:
        return Message(Role.USER, LAST_ROUND)


def read_finish_argument(arguments_json: str) -> str | None:
    """Return the answer of a ``finish`` call; None when there is none, so that the tool can report it."""
    return read_argument(ToolCall("", FINISH, arguments_json), "answer").strip() or None


@dataclass(frozen=True)
class TagTexts:
    """A caller's texts for a protocol of tags, as those that a checkpoint of elsewhere was trained with; "" is none.

    Raises ``InvalidField`` for an ``instruction`` without ``{question}``, or beside a ``system_prompt``.
    """

    system_prompt: str = ""
    instruction: str = ""
    invalid_action: str = ""

    def __post_init__(self) -> None:
        if self.instruction and self.system_prompt:
            raise InvalidField("instruction", "takes the place of system_prompt: give one of them")
        if self.instruction and QUESTION not in self.instruction:
            raise InvalidField("instruction", f"has no {QUESTION}, where the question is to stand")


class SearchR1:
    """Protocol with Search-R1's tags (arXiv 2503.09516): ``<search>``, ``<information>``, ``<answer>``."""

    tags = True

    def __init__(self, instruction: str, documents: int = 3, texts: TagTexts | None = None) -> None:
        """Create the protocol; ``documents`` is the number of documents per search, ``texts`` are the caller's own."""
        self._instruction, self._documents, self._texts = instruction, documents, texts or TagTexts()
        own = f"\n{self._texts.invalid_action}" if self._texts.invalid_action else ""
        asked = self._texts.instruction or instruction
        self._hash = sha256(f"{self._texts.system_prompt}\n{asked}{own}".encode())

    def with_texts(self, texts: TagTexts) -> SearchR1:
        """Return the protocol with the caller's texts in place of its own."""
        return SearchR1(self._instruction, self._documents, texts)

    def prompts(self, question: str, wanted: Mapping[str, str], window_tokens: int = 0) -> Mapping[str, str]:
        """Return {}, because the protocol has a single instruction.

        Raise ``InvalidField`` when prompts are requested.
        """
        if wanted:
            raise InvalidField(f"prompts.{sorted(wanted)[0]}", "the search_r1 protocol has no prompts to choose from")
        return {}

    def prompt_hash(self, task: Task) -> str:
        return self._hash

    def opening(self, task: Task) -> tuple[Message, ...]:
        """Return the instruction and the question in a user message, or the caller's system prompt and the question."""
        texts = self._texts
        if texts.system_prompt:
            return (Message(Role.SYSTEM, texts.system_prompt), Message(Role.USER, task.question))
        if texts.instruction:
            return (Message(Role.USER, texts.instruction.replace(QUESTION, task.question)),)
        return (Message(Role.USER, f"{self._instruction}\n\nQuestion: {task.question}\n"),)

    def sampling(self, task: Task) -> Sampling:
        """Return the sampling with a stop after a closing tag; the sampled ids up to the tag are kept."""
        return replace(task.sampling, stop=task.sampling.stop or SEARCH_R1_STOPS)

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return ()

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision:
        action = tags.parse_action(completion.text)
        if action.kind == "answer":
            return Decision(answer=action.content)
        if action.kind == "search" and not last:
            arguments = {"intent": "search", "query": action.content, "top_k": self._documents}
            # The protocol has no call ids; one from the query is the same for every play.
            call = ToolCall(f"search_{sha256(action.content.encode())[:8]}", "search", json.dumps(arguments))
            return Decision(calls=(call,))
        return Decision(correction=Message(Role.USER, self._texts.invalid_action or tags.INVALID_ACTION))

    def render(self, result: ToolResult) -> Message:
        """Return the passages as numbered documents inside ``<information>``."""
        documents = "\n".join(
            f"Doc {index}(Title: {hit['title']}) {hit['summary']}"
            for index, hit in enumerate(json.loads(result.content.split("\n", 1)[0]).get("hits", ()), start=1)
        )
        # A document must not speak in the protocol's own tags: it is quoted, never obeyed, and never graded.
        return Message(Role.USER, tags.information_block(neutral(documents)))

    def nudge(self) -> Message | None:
        """Return None, because the last generation is simply one without a search."""
        return None
