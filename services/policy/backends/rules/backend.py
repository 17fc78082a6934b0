"""The ``rules`` backend: the reference policy behind the interface of the inference engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from fathom.core.errors import InvalidField, VersionMismatch
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, ToolFormat, ToolSpec, Usage
from fathom.domain.conversation import read_conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.passages.nearness import open_encoder
from fathom.services.policy.backends.chat import render_prompt
from fathom.services.policy.backends.rules import search_r1
from fathom.services.policy.backends.rules.authoring import write_reply
from fathom.services.policy.backends.rules.drafting import draft_reply
from fathom.services.policy.backends.rules.judging import judge_reply
from fathom.services.policy.backends.rules.tokenizer import END_ID, RulesTokenizer, load_vocabulary
from fathom.services.policy.config import RulesModel
from fathom.services.policy.model import Item, Occupancy, Request
from fathom.services.policy.reference.answer import state_open
from fathom.services.policy.reference.calls import Written
from fathom.services.policy.reference.policy import next_call
from fathom.services.policy.reference.stages import answer_stage

# About a line: pieces must be small enough to show that answers stream, and few enough not to cost time.
PIECE_CHARS = 80
RESTATED, MAX_RESTATED = "restated_question", 300
NO_TOOLS = "No tool is on offer, and without one the reference policy knows nothing."


class RulesBackend:
    """Deterministic backend: equal conversations give equal ids. Log-probabilities are 0.0, i.e. probability 1."""

    engine = "rules"
    exact = True
    version = 0

    def __init__(self, name: str, config: RulesModel, models: Path | None = None) -> None:
        """Configure the backend; under ``models`` are the weights of the encoder by which passages are rated."""
        self._rater = Rater(open_encoder(models) if models is not None else None)
        self._name, self._config = name, config
        self._tokenizer = RulesTokenizer(load_vocabulary())
        self._running = 0

    @property
    def window_tokens(self) -> int:
        return self._config.window_tokens

    @property
    def occupancy(self) -> Occupancy:
        return Occupancy(self._running)

    async def load(self) -> None:
        """Do nothing, because there is nothing to load."""

    async def generate(self, request: Request, written: Written | None = None) -> AsyncGenerator[Item, None]:
        """Yield pieces of about a line each, then the completion; ``written`` is a model's program of the question."""
        self._running += 1
        try:
            # In a thread, because reading a long conversation takes milliseconds of pure Python, which would stall
            # other streams.
            completion = await asyncio.to_thread(self._complete, request, written)
            for start in range(0, len(completion.text), PIECE_CHARS):
                yield completion.text[start : start + PIECE_CHARS]
                await asyncio.sleep(0)
        finally:
            self._running -= 1
        yield completion

    def _complete(self, request: Request, written: Written | None) -> Completion:
        started, tokenizer = time.monotonic(), self._tokenizer
        check_ids(request.context_token_ids, tokenizer, "context_token_ids")
        prompt = render_prompt(tokenizer, request)
        whole = len(request.context_token_ids) + len(prompt.ids)
        room = self._config.window_tokens - whole
        if room < 1:
            raise InvalidField("messages", f"take {whole:,} tokens; the window has {self._config.window_tokens:,}")
        limit = min(request.sampling.max_tokens or self._config.max_tokens, room)
        sampled, finish = self._cut_reply(reply(request, written, self._rater), request.sampling.stop, limit)
        # Decoded from the ids and not taken from the rules: cut at the limit, the ids may end within a character.
        text = tokenizer.decode(sampled[:-1] if sampled[-1] == END_ID else sampled)
        calls = parse_tool_calls(text)[1] if request.tool_format is ToolFormat.HERMES else ()
        return Completion(
            prompt_token_ids=tuple(prompt.ids),
            sampled_token_ids=tuple(sampled),
            log_probs=(0.0,) * len(sampled),
            text=text,
            tool_calls=calls,
            finish_reason=FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish,
            version_min=0,
            version_max=0,
            usage=Usage(whole, len(sampled), 0, round((time.monotonic() - started) * 1000)),
            exact=True,
            model=self._name,
            boundary_tokens=prompt.boundary,
        )

    def _cut_reply(self, text: str, stops: Sequence[str], limit: int) -> tuple[list[int], FinishReason]:
        """Return at most ``limit`` ids of the text, ending with the first stop string or the end-of-turn id."""
        ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
        ids = self._tokenizer.encode(text[: min(ends)]) if ends else [*self._tokenizer.encode(text), END_ID]
        return (ids, FinishReason.STOP) if len(ids) <= limit else (ids[:limit], FinishReason.LENGTH)

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Raise ``InvalidField("model")``, because rules have no distribution over ids."""
        raise InvalidField("model", f"{self._name!r} is the rule-based policy, which has no probabilities to score by")

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        return self._tokenizer.encode(self._tokenizer.render(messages, tools, add_generation_prompt))

    async def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode_content(text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        check_ids(ids, self._tokenizer, "token_ids")
        return self._tokenizer.decode(ids)

    async def load_weights(self, folder: Path, version: int) -> None:
        raise VersionMismatch(self._name, version, 0)

    async def close(self) -> None:
        """Do nothing, because there is nothing to release."""


def reply(request: Request, written: Written | None = None, rater: Rater | None = None) -> str:
    """Return the next text of the reference policy in the requested format."""
    if request.tool_format is ToolFormat.TAGS:
        return search_r1.next_text(request.messages)
    if request.response_schema_json and (judged := judge_reply(request.response_schema_json, request.messages)):
        return judged
    if request.response_schema_json and (text := write_reply(request.response_schema_json, request.messages)):
        return text
    if request.response_schema_json and (draft := draft_reply(request.response_schema_json, request.messages)):
        return draft
    if not request.tools:
        return answer_stage(request.messages, rater) or NO_TOOLS
    conversation = read_conversation(request.messages)
    call = next_call(conversation, [tool.name for tool in request.tools], written, rater)
    if call.tool != "finish":
        return "\n".join(format_tool_call(one.tool, dict(one.arguments)) for one in (call, *call.beside))
    finish = next((tool for tool in request.tools if tool.name == "finish"), None)
    # An endpoint that offers no such tool expects the answer as plain text.
    if finish is None:
        return state_open(call.arguments, conversation.question)
    asked = " ".join(conversation.question.split())[:MAX_RESTATED]
    arguments = {RESTATED: asked, **call.arguments}
    if not takes(finish, "reading"):
        arguments["answer"] = state_open(call.arguments, conversation.question)
    return format_tool_call("finish", {name: value for name, value in arguments.items() if takes(finish, name)})


def takes(tool: ToolSpec, name: str) -> bool:
    """Return whether a tool takes an argument; the answer and the intent it always does."""
    return name not in (RESTATED, "reading") or f'"{name}"' in tool.parameters_json


def check_ids(ids: Sequence[int], tokenizer: RulesTokenizer, field: str) -> None:
    """Raise ``InvalidField`` for a token id outside of the vocabulary."""
    if ids and (min(ids) < 0 or max(ids) >= tokenizer.size):
        raise InvalidField(field, f"holds an id outside of 0 to {tokenizer.size - 1:,}")
