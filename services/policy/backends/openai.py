"""The ``openai`` backend: any endpoint with OpenAI's chat completions API. It returns no token ids."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.config import ConfigError
from fathom.errors import (
    DependencyFailed,
    FathomError,
    Internal,
    InvalidField,
    MissingExtra,
    NotReady,
    Overloaded,
    VersionMismatch,
)
from fathom.protocol.drafts import WRITTEN_TAIL, written_head
from fathom.protocol.hermes import parse_tool_calls
from fathom.protocol.messages import Completion, FinishReason, Message, Role, ToolCall, ToolFormat, ToolSpec, Usage
from services.policy.backends.chat import functions
from services.policy.config import OpenAIModel
from services.policy.model import Occupancy, Request, json_object

FINISH = {"length": FinishReason.LENGTH, "content_filter": FinishReason.ABORT}
RETRY_AFTER_S = 2.0


@dataclass
class Partial:
    """Accumulated state of a streamed response."""

    text: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: str = ""
    stopped: bool = False
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    _begun: list[int] = field(default_factory=list)
    """Indices of calls with streamed arguments, in order."""

    def take(self, chunk: Any, stops: Sequence[str]) -> str:
        """Add a chunk and return its new text, up to and including a stop string, followed by its tool calls."""
        if chunk.usage is not None:
            details = getattr(chunk.usage, "prompt_tokens_details", None)
            cached = (getattr(details, "cached_tokens", None) or 0) if details else 0
            self.usage = Usage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0, cached)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish = choice.finish_reason or self.finish
        for piece in choice.delta.tool_calls or ():
            call = self.calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = piece.id or call["id"]
            if piece.function is not None:
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""
        written = self._written(choice.delta.tool_calls or ())
        before = len(self.text)
        self.text += choice.delta.content or ""
        ends = [self.text.index(stop) + len(stop) for stop in stops if stop in self.text]
        if ends:
            # The endpoint would leave the stop string out; the contract keeps it. So it is looked for here.
            self.text, self.stopped = self.text[: min(ends)], True
        return self.text[before:] + written

    def _written(self, pieces: Sequence[Any]) -> str:
        """Return pieces of native tool calls in text form, so that callers can stream them."""
        out = ""
        for piece in pieces:
            arguments = (piece.function.arguments or "") if piece.function is not None else ""
            if arguments and piece.index not in self._begun:
                out += (WRITTEN_TAIL if self._begun else "") + written_head(self.calls[piece.index]["name"])
                self._begun.append(piece.index)
            out += arguments if self._begun[-1:] == [piece.index] else ""
        return out

    def tool_calls(self, tool_format: ToolFormat) -> tuple[ToolCall, ...]:
        """Return the native tool calls, or else those written in the text."""
        if tool_format is ToolFormat.TAGS:
            return ()
        native = tuple(
            ToolCall(call["id"] or f"call_{index}", call["name"], call["arguments"] or "{}")
            for index, call in sorted(self.calls.items())
            if call["name"]
        )
        return native or parse_tool_calls(self.text)[1]


class OpenAIBackend:
    """A model at an endpoint. Earlier token ids are ignored; the whole conversation is sent as messages."""

    engine = "openai"
    exact = False
    version = 0

    def __init__(self, name: str, config: OpenAIModel) -> None:
        """Raise ``MissingExtra`` when the package openai is not installed."""
        if importlib.util.find_spec("openai") is None:
            raise MissingExtra("openai", "openai")
        self._name, self._config = name, config
        self._library: Any = importlib.import_module("openai")
        self._client: Any = None
        self._running = 0

    @property
    def window_tokens(self) -> int:
        return self._config.window_tokens

    @property
    def occupancy(self) -> Occupancy:
        return Occupancy(self._running)

    async def load(self) -> None:
        """Create the client without a request.

        Raise ``ConfigError`` when the environment variable of the key is not set.
        """
        variable = self._config.api_key_env
        key = os.environ.get(variable, "") if variable else "none"
        if not key:
            raise ConfigError(f"model {self._name!r}: environment variable {variable} is not set")
        self._client = self._library.AsyncOpenAI(
            base_url=self._config.base_url, api_key=key, timeout=self._config.timeout_s, max_retries=0
        )

    async def generate(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Stream a completion; closing the generator closes the connection."""
        if self._client is None:
            raise NotReady(f"model {self._name!r} is being loaded", retry_after_s=1.0)
        started, partial = time.monotonic(), Partial()
        self._running += 1
        try:
            stream = await self._client.chat.completions.create(**self._body(request))
            async with stream:
                async for chunk in stream:
                    if piece := partial.take(chunk, request.sampling.stop):
                        yield piece
                    if partial.stopped:
                        break
        except self._library.OpenAIError as error:
            raise self._translated(error) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise DependencyFailed(self._name, f"the endpoint sent garbage: {type(error).__name__}: {error}") from error
        finally:
            self._running -= 1
        if not (partial.finish or partial.stopped):
            raise DependencyFailed(self._name, "the endpoint ended its stream without a finish reason")
        yield self._completion(request, partial, round((time.monotonic() - started) * 1000))

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": [as_openai(message) for message in request.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens or self._config.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools and request.tool_format is ToolFormat.HERMES:
            body["tools"] = functions(request.tools)
        if sampling.seed:
            body["seed"] = sampling.seed
        if sampling.top_k:
            body["extra_body"] = {"top_k": sampling.top_k}  # not OpenAI's own, but most others know it
        if request.response_schema_json:
            body["response_format"] = response_format(request.response_schema_json)
        return body

    def _completion(self, request: Request, partial: Partial, duration_ms: int) -> Completion:
        calls = partial.tool_calls(request.tool_format)
        finish = FINISH.get(partial.finish, FinishReason.STOP)
        usage = partial.usage
        return Completion(
            prompt_token_ids=(),
            sampled_token_ids=(),
            log_probs=(),
            text=partial.text,
            tool_calls=calls,
            finish_reason=FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish,
            version_min=0,
            version_max=0,
            usage=Usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, duration_ms),
            exact=False,
            model=self._name,
        )

    def _translated(self, error: Any) -> FathomError:
        """Convert an error of the library to a ``FathomError`` with the endpoint's message, not headers or body."""
        library, message = self._library, f"the endpoint answered: {getattr(error, 'message', error)}"
        if isinstance(error, library.RateLimitError):
            return Overloaded(f"{self._name}: {message}", retry_after(error))
        if isinstance(error, library.APIConnectionError):  # timeouts included
            return DependencyFailed(self._name, f"the endpoint cannot be reached: {error}")
        if isinstance(error, library.BadRequestError | library.UnprocessableEntityError):
            return InvalidField("messages", message)
        if isinstance(error, library.APIStatusError) and error.status_code < 500:
            return Internal(f"{self._name}: status {error.status_code}, {message}")
        return DependencyFailed(self._name, message)

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Raise ``InvalidField("model")``, because the endpoint exposes no token ids."""
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that gives no token ids")

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that gives no token ids")

    async def encode(self, text: str) -> list[int]:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that gives no token ids")

    async def detokenize(self, ids: Sequence[int]) -> str:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that gives no token ids")

    async def load_weights(self, folder: Path, version: int) -> None:
        raise VersionMismatch(self._name, version, 0)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def as_openai(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's format; tool calls written in the text become native ones."""
    body: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.role is Role.TOOL:
        body["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        body["content"] = parse_tool_calls(message.content)[0] if "<tool_call>" in message.content else message.content
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in message.tool_calls
        ]
    return body


def response_format(schema_json: str) -> dict[str, Any]:
    """Return the parameter for structured output; raise ``InvalidField`` when the schema is no JSON object."""
    schema = json_object("response_schema_json", "it", schema_json)
    return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}


def retry_after(error: Any) -> float:
    """Return the retry delay of a response in seconds, at most 60; ``RETRY_AFTER_S`` when it is missing or invalid."""
    try:
        return min(60.0, max(0.0, float(error.response.headers.get("retry-after", RETRY_AFTER_S))))
    except (TypeError, ValueError):
        return RETRY_AFTER_S
