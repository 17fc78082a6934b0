"""The ``openai`` backend: any endpoint with OpenAI's chat completions API. It returns no token ids."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import structlog

from fathom.core.config import ConfigError
from fathom.core.errors import (
    ContextTooLong,
    DependencyFailed,
    FathomError,
    InvalidField,
    MissingExtra,
    VersionMismatch,
)
from fathom.core.retry import RetryPolicy
from fathom.domain.chat.messages import Completion, FinishReason, Message, ToolSpec, Usage
from fathom.services.policy.backends.openai.errors import Translator, is_page, read_error
from fathom.services.policy.backends.openai.events import BrokenStream, read_events
from fathom.services.policy.backends.openai.learning import LENGTH_LIMITS, LearnedFields, apply, find_correction
from fathom.services.policy.backends.openai.profile import make_profile
from fathom.services.policy.backends.openai.reply import Reply
from fathom.services.policy.backends.openai.request import build_body
from fathom.services.policy.backends.openai.shown import ShownReply
from fathom.services.policy.backends.openai.thoughts import Piece
from fathom.services.policy.backends.openai.usage import TURN_TOKENS, compute_cost, estimate_tokens
from fathom.services.policy.config import OpenAIModel
from fathom.services.policy.model import Item, Occupancy, Request, ThoughtDelta

MAX_CORRECTIONS = 6
"""Corrections of one request that an endpoint may ask for, one after the other."""
# Before the first piece the caller retries, by its own policy and deadline; two layers would multiply the attempts.
RESTARTS = RetryPolicy(attempts=3, first_delay_s=0.2, max_delay_s=2.0)
"""Attempts at a reply that breaks off after its first piece."""


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
        self.profile = make_profile(config)
        self.learned = LearnedFields()
        self._translator = Translator(name, config, "")
        self._library: Any = importlib.import_module("openai")
        self._log = structlog.get_logger()
        self._client: Any = None
        self._begins_inside = False
        """True when an earlier reply began within a thought whose opening tag was not sent."""
        self._running = 0

    @property
    def window_tokens(self) -> int:
        return self._config.window_tokens

    @property
    def occupancy(self) -> Occupancy:
        return Occupancy(self._running)

    async def load(self) -> None:
        """Create the client without a request.

        Raise ``ConfigError`` when an environment variable of a key or a header is not set.
        """
        variable = self._config.api_key_env
        # The library needs some key even where the endpoint needs none.
        key = self._read_secret(variable) if variable else "none"
        secrets = {header: self._read_secret(name) for header, name in self._config.header_envs.items()}
        self._translator = Translator(self._name, self._config, key if variable else "")
        # No retries in the library: callers retry with their own deadline, and two layers would multiply the attempts.
        self._client = self._library.AsyncOpenAI(
            base_url=self._config.base_url,
            api_key=key,
            timeout=self._config.timeout_s,
            max_retries=0,
            default_headers={**self._config.headers, **secrets},
        )

    def _read_secret(self, variable: str) -> str:
        value = os.environ.get(variable, "")
        if not value:
            raise ConfigError(f"model {self._name!r}: environment variable {variable} is not set")
        return value

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Stream a completion; closing the generator closes the connection.

        A reply that breaks off after its first piece is asked for again: sampling has no side effects. If the new one
        begins otherwise, the rest comes with the completion alone.
        """
        if self._client is None:
            raise self._translator.loading()
        shown, failures = ShownReply(), 0
        self._running += 1
        try:
            while True:
                try:
                    async with aclosing(self._attempt(request, shown)) as items:
                        async for item in items:
                            yield item
                    return
                except BrokenStream as error:
                    failures += 1
                    broken = DependencyFailed(self._name, f"the endpoint broke off its reply: {error}")
                    if not shown.has_begun or failures >= (RESTARTS.attempts or 1):
                        raise broken from error
                    self._log.warning("reply broke off", model=self._name, attempt=failures, error=str(error))
                    shown.restart()
                    await asyncio.sleep(RESTARTS.delay_s(failures))
        finally:
            self._running -= 1

    async def _attempt(self, request: Request, shown: ShownReply) -> AsyncGenerator[Item, None]:
        """Yield the pieces that are not shown yet, then the completion; raise ``BrokenStream`` or a ``FathomError``."""
        started = time.monotonic()
        reply = Reply(self.profile, request.tool_format, request.sampling.stop, self._begins_inside)
        body = build_body(request, self.profile)
        stream = await self._open(body)
        if stream is None:
            reply.finish = "content_filter"
        else:
            async with stream, aclosing(read_events(stream.response, self._name, self._config.timeout_s)) as events:
                async for chunk in events:
                    for item in show(self._take(reply, chunk), shown):
                        yield item
                    if reply.stopped:
                        break
        for item in show(reply.end(), shown):
            yield item
        # A connection that is closed in the middle ends the stream without an error; half an answer must not pass for
        # one.
        if not (reply.finish or reply.stopped):
            raise BrokenStream("its stream ended without a finish reason")
        self._begins_inside = reply.splitter.is_unopened or (self._begins_inside and not reply.splitter.text)
        yield self._completion(reply, body, round((time.monotonic() - started) * 1000))

    def _take(self, reply: Reply, chunk: dict[str, Any]) -> list[Piece]:
        if chunk.get("error"):
            # An endpoint that fails while it samples says so inside the stream.
            raise self._translator.stream(StreamError(chunk))
        try:
            return reply.take(chunk)
        # Nothing validates chunks: a field of another type than documented fails where it is used.
        except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise DependencyFailed(
                self._name, f"the endpoint sent an unreadable response: {type(error).__name__}: {error}"
            ) from error

    async def _open(self, body: dict[str, Any]) -> Any:
        """Return the response's stream; None where a filter refuses the prompt.

        A request is repeated without, or with other, fields where the endpoint's refusal names one. Raises
        ``FathomError``.
        """
        is_shortened = False
        for _ in range(MAX_CORRECTIONS):
            sent = self.learned.apply(body)
            if is_shortened:
                sent = {name: value for name, value in sent.items() if name not in LENGTH_LIMITS}
            try:
                stream = await self._client.post(
                    "/chat/completions",
                    body=sent,
                    cast_to=object,
                    stream=True,
                    stream_cls=self._library.AsyncStream[object],
                )
            except self._library.APIStatusError as error:
                if read_error(error.body).get("code") == "content_filter":
                    return None
                translated = self._translator.status(error)
                # The prompt may fit, and only prompt and longest completion together do not.
                if isinstance(translated, ContextTooLong) and not is_shortened:
                    is_shortened = True
                else:
                    self._correct(sent, error, translated)
            except self._library.OpenAIError as error:  # timeouts and lost connections
                raise self._translator.connection(error) from error
            else:
                await self._refuse_page(stream)
                return stream
        raise InvalidField("messages", f"{self._name}: the endpoint refused {MAX_CORRECTIONS} forms of the request")

    def _correct(self, sent: dict[str, Any], error: Any, translated: FathomError) -> None:
        """Learn from a refusal what to change; raise the typed error where nothing can be changed."""
        correction = find_correction(sent, error) if isinstance(translated, InvalidField) else None
        # A correction that changed nothing before will not do so now.
        if correction is None or apply(correction, sent) == sent:
            raise translated from error
        # What an operator asked for is never dropped in silence.
        if not correction.of_messages and correction.name in self.profile.set_by_settings:
            raise self._translator.settings(correction.name, error) from error
        if not self.learned.add(correction):
            raise translated from error
        self._log.warning("endpoint refuses a field", model=self._name, correction=str(correction))

    async def _refuse_page(self, stream: Any) -> None:
        """Raise an error for an HTML page with a status of success, as proxies and log-in pages send."""
        if "html" not in stream.response.headers.get("content-type", ""):
            return
        async with stream:
            head = b""
            async for chunk in stream.response.aiter_bytes():
                head += chunk
                if len(head) > 20_000:
                    break
        text = head.decode(errors="replace")
        raise self._translator.page(text if is_page(text) else f"<p>{text}", stream.response.status_code)

    def _completion(self, reply: Reply, body: dict[str, Any], duration_ms: int) -> Completion:
        calls, finish = reply.tool_calls(), reply.finish_reason
        return Completion(
            prompt_token_ids=(),
            sampled_token_ids=(),
            log_probs=(),
            text=reply.text,
            tool_calls=calls,
            finish_reason=FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish,
            version_min=0,
            version_max=0,
            usage=self._usage(reply, body, duration_ms),
            exact=False,
            model=self._name,
            reasoning=reply.reasoning,
            opaque_json=reply.opaque_json(),
        )

    def _usage(self, reply: Reply, body: dict[str, Any], duration_ms: int) -> Usage:
        """Return the reported usage, or an upper estimate, so that budgets bind in any case."""
        usage = reply.usage
        if usage is None:
            written = "".join(f"{call.name}{call.arguments_json}" for call in reply.tool_calls())
            thought = estimate_tokens(reply.reasoning)
            sampled = thought + estimate_tokens(reply.text) + estimate_tokens(written)
            prompt = json.dumps([body["messages"], body.get("tools", [])], ensure_ascii=False)
            turns = TURN_TOKENS * len(body["messages"])
            usage = Usage(estimate_tokens(prompt) + turns, sampled, reasoning_tokens=thought, estimated=True)
        return usage + Usage(duration_ms=duration_ms, cost=compute_cost(usage, self._config.prices))

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Raise ``InvalidField("model")``, because the endpoint exposes no token ids."""
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that returns no token ids")

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that returns no token ids")

    async def encode(self, text: str) -> list[int]:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that returns no token ids")

    async def detokenize(self, ids: Sequence[int]) -> str:
        raise InvalidField("model", f"{self._name!r} is behind an endpoint that returns no token ids")

    async def load_weights(self, folder: Path, version: int) -> None:
        # The endpoint's weights are not ours; the version that serves is always 0.
        raise VersionMismatch(self._name, version, 0)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


class StreamError:
    """An error object inside a stream, in the form of the library's errors."""

    def __init__(self, chunk: dict[str, Any]) -> None:
        self.body, self.message = chunk, str(chunk.get("error"))


def show(pieces: Iterable[Piece], shown: ShownReply) -> Iterable[Item]:
    """Return what is new of the pieces, in the form in which generations yield it."""
    for piece in pieces:
        if text := shown.add_text(piece.text):
            yield text
        if thought := shown.add_thought(piece.thought):
            yield ThoughtDelta(thought)
