"""How an episode talks. Two protocols over the same loop and tools: ``research`` and ``search_r1``.

A protocol opens the conversation, says what a completion means, and turns tool results into messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from fathom.errors import InvalidField
from fathom.ids import sha256
from fathom.protocol import tags
from fathom.protocol.messages import Completion, Message, Role, Sampling, ToolCall, ToolSpec
from fathom.protocol.quoting import neutral
from services.planner.model import Task, ToolResult
from services.planner.prompting import Prompts
from services.planner.tools.arguments import argument

FINISH = "finish"
CALL_A_TOOL = (
    "That was no tool call. Call one tool, with its `intent`; call `finish` with the answer when you are done."
)
LAST_ROUND = "This is the last round: call `finish` now with what is known, and say what is missing."
SEARCH_R1_STOPS = ("</search>", "</answer>")


@dataclass(frozen=True)
class Decision:
    """What a completion asks for: tool calls, or the end, or a word of correction.

    ``end`` is the call that ends, ``unmade`` are those behind it, which are not made.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    correction: Message | None = None
    end: ToolCall | None = None
    unmade: tuple[ToolCall, ...] = ()


class EpisodeProtocol(Protocol):
    """The interface of both protocols."""

    tags: bool
    """True when actions are tags in the text; then no tools are offered to the policy."""

    def opening(self, task: Task) -> tuple[Message, ...]: ...

    def sampling(self, task: Task) -> Sampling: ...

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]: ...

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision: ...

    def render(self, result: ToolResult) -> Message: ...

    def nudge(self) -> Message | None: ...

    def prompt_hash(self, task: Task) -> str: ...

    def prompts(self, question: str, key: str, wanted: Mapping[str, str]) -> Mapping[str, str]: ...


class Research:
    """Tool calls in the policy's own format; the episode ends by ``finish``."""

    tags = False

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    def prompt_hash(self, task: Task) -> str:
        return self._prompts.hash(task)

    def prompts(self, question: str, key: str, wanted: Mapping[str, str]) -> Mapping[str, str]:
        """Prompt ids by stage; raises ``InvalidField`` for a wanted one that is not there."""
        return self._prompts.choose(question, key, wanted)

    def opening(self, task: Task) -> tuple[Message, ...]:
        """System prompt first and unchanged, then history, then what is of this run: the prefix stays cacheable."""
        system, user = self._prompts.system(task), self._prompts.opening(task)
        return (Message(Role.SYSTEM, system), *task.history, Message(Role.USER, user))

    def sampling(self, task: Task) -> Sampling:
        return task.sampling

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return specs

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision:
        """Calls in order; ``finish`` ends only as the first, so that no result which it has not seen is cut off."""
        calls = completion.tool_calls
        if not calls:
            # Small models answer in prose; after one correction prose counts as the answer.
            if (corrected or last) and completion.text.strip():
                return Decision(answer=completion.text.strip())
            return Decision(correction=Message(Role.USER, CALL_A_TOOL))
        if calls[0].name == FINISH:
            answer = finish_argument(calls[0].arguments_json)
            return Decision(calls=calls) if answer is None else Decision(answer=answer, end=calls[0], unmade=calls[1:])
        return Decision(calls=calls)

    def render(self, result: ToolResult) -> Message:
        return Message(Role.TOOL, result.content, tool_call_id=result.call.id)

    def nudge(self) -> Message | None:
        return Message(Role.USER, LAST_ROUND)


def finish_argument(arguments_json: str) -> str | None:
    """The answer inside a ``finish`` call; None when there is none, so that the tool can say so."""
    return argument(ToolCall("", FINISH, arguments_json), "answer").strip() or None


class SearchR1:
    """Search-R1's tags (arXiv 2503.09516): ``<search>`` asks, ``<information>`` is given, ``<answer>`` ends."""

    tags = True

    def __init__(self, instruction: str, system_prompt: str = "", documents: int = 3) -> None:
        """``documents`` is how many a search gives."""
        self._instruction, self._system, self._documents = instruction, system_prompt, documents

    def with_system_prompt(self, system_prompt: str) -> SearchR1:
        """The protocol with a caller's system prompt in place of the instruction."""
        return SearchR1(self._instruction, system_prompt, self._documents)

    def prompts(self, question: str, key: str, wanted: Mapping[str, str]) -> Mapping[str, str]:
        """None: the protocol has one instruction."""
        if wanted:
            raise InvalidField(f"prompts.{sorted(wanted)[0]}", "the search_r1 protocol has no prompts to choose from")
        return {}

    def prompt_hash(self, task: Task) -> str:
        return sha256(f"{self._system}\n{self._instruction}".encode())

    def opening(self, task: Task) -> tuple[Message, ...]:
        """The instruction and the question in one user message, or a caller's system prompt before the question."""
        if self._system:
            return (Message(Role.SYSTEM, self._system), Message(Role.USER, task.question))
        return (Message(Role.USER, f"{self._instruction}\n\nQuestion: {task.question}\n"),)

    def sampling(self, task: Task) -> Sampling:
        """Stops after a closing tag; the sampled ids up to it are kept (specs: token in, token out)."""
        return replace(task.sampling, stop=task.sampling.stop or SEARCH_R1_STOPS)

    def tools(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return ()

    def decide(self, completion: Completion, corrected: bool, last: bool) -> Decision:
        action = tags.parse_action(completion.text)
        if action.kind == "answer":
            return Decision(answer=action.content)
        if action.kind == "search" and not last:
            arguments = {"intent": "search", "query": action.content, "top_k": self._documents}
            call = ToolCall(f"search_{sha256(action.content.encode())[:8]}", "search", json.dumps(arguments))
            return Decision(calls=(call,))
        return Decision(correction=Message(Role.USER, tags.INVALID_ACTION))

    def render(self, result: ToolResult) -> Message:
        """Passages as numbered documents inside ``<information>`` (row SR06, SR10)."""
        documents = "\n".join(
            f"Doc {index}(Title: {hit['title']}) {hit['summary']}"
            for index, hit in enumerate(json.loads(result.content.split("\n", 1)[0]).get("hits", ()), start=1)
        )
        # A document must not speak in the protocol's own tags: it is quoted, never obeyed, and never graded.
        return Message(Role.USER, tags.information_block(neutral(documents)))

    def nudge(self) -> Message | None:
        """None: the last generation is simply one without a search (specs: rl.md 2.2)."""
        return None
