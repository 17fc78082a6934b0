"""Data types shared by policy's engine and its backends, and the ``Backend`` interface."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from fathom.core.call import Lane
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Completion, Message, Sampling, ToolFormat, ToolSpec

# Every stop string is searched for after every token, so number and length are bounded. A temperature above 10 makes
# every distribution practically uniform. Seeds fit a signed 64-bit integer.
MAX_STOPS, MAX_STOP_CHARS, MAX_TEMPERATURE, MAX_SEED = 16, 256, 10.0, 1 << 63


class State(StrEnum):
    """State of a model, named as in ``policy.v1.ModelState``."""

    IDLE = "idle"
    WARMING = "warming"
    READY = "ready"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True)
class Request:
    """A conversation to continue; fields as in ``policy.v1.GenerateRequest``."""

    request_id: str
    model: str
    messages: tuple[Message, ...]
    context_token_ids: tuple[int, ...] = ()
    context_messages: int = 0
    tools: tuple[ToolSpec, ...] = ()
    tool_format: ToolFormat = ToolFormat.HERMES
    sampling: Sampling = field(default_factory=Sampling)
    policy_version: int = 0
    response_schema_json: str = ""
    grammar: str = ""
    """Grammar in llguidance's dialect of Lark that the text follows; set by engines among themselves, by no caller."""


@dataclass(frozen=True)
class ThoughtDelta:
    """A part of the model's thought as it is sampled; no part of the text."""

    text: str


@dataclass(frozen=True)
class WaitChange:
    """The generation waits for a place of its model, or has got it."""

    is_over: bool


Item = str | ThoughtDelta | WaitChange | Completion
"""Events of a generation: a wait that begins and ends, pieces of text and of thoughts, then the completion."""


@dataclass(frozen=True)
class LaneVersion:
    """A version's share of a lane in percent."""

    lane: Lane
    version: int
    percent: int


@dataclass(frozen=True)
class ModelInfo:
    """Public description of a model."""

    name: str
    engine: str
    state: State
    policy_version: int
    window_tokens: int
    exact: bool
    detail: str
    lanes: tuple[LaneVersion, ...] = ()


@dataclass(frozen=True)
class Occupancy:
    """Current load of an engine: ``cache_tokens`` in its key-value cache, ``cache_share`` as a fraction (0 to 1)."""

    running: int = 0
    waiting: int = 0
    cache_tokens: int = 0
    cache_share: float = 0.0


class Backend(Protocol):
    """One model served by one inference engine. All methods raise ``FathomError`` only."""

    engine: str
    exact: bool
    """True when completions carry the token ids and log-probabilities that were sampled."""

    @property
    def version(self) -> int:
        """Return the policy version that samples new generations; 0 for an engine without weight updates."""
        ...

    @property
    def window_tokens(self) -> int: ...

    @property
    def occupancy(self) -> Occupancy:
        """Return the current load; cheap enough to be read on every request."""
        ...

    async def load(self) -> None:
        """Load the model; called once, before any other method."""
        ...

    def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Yield pieces of text and thoughts, then the completion.

        Closing the generator stops the sampling before the next token.
        """
        ...

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Return log-probabilities in nats and the version that scored; each id is conditioned on those before it.

        The first id of a sequence has no predecessor and gets 0.0.
        """
        ...

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        """Return the token ids of a conversation, rendered by the chat template."""
        ...

    async def encode(self, text: str) -> list[int]:
        """Return the token ids of plain text."""
        ...

    async def detokenize(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included."""
        ...

    async def load_weights(self, folder: Path, version: int) -> None:
        """Serve a downloaded version from now on; an error leaves the current version unchanged.

        Running generations finish on their version, except where the engine's settings carry them over.
        """
        ...

    async def close(self) -> None: ...


def validate_request(request: Request) -> Request:
    """Return the request if its fields are valid for every engine; raise ``InvalidField`` otherwise."""
    sampling, count = request.sampling, len(request.messages)
    if not request.messages:
        raise InvalidField("messages", "is empty")
    # An open assistant message would be continued by some engines and closed by others; neither is offered.
    if request.messages[-1].role == "assistant":
        raise InvalidField("messages", "ends with an assistant message; there is nothing to answer")
    if not 0 <= sampling.temperature <= MAX_TEMPERATURE:
        raise InvalidField("sampling.temperature", f"must be between 0 and {MAX_TEMPERATURE:g}")
    # Written so that NaN is refused, too: every comparison with it is false.
    if not 0 < sampling.top_p <= 1:
        raise InvalidField("sampling.top_p", "must be above 0 and at most 1")
    if sampling.top_k < 0:
        raise InvalidField("sampling.top_k", "must not be negative")
    if sampling.max_tokens < 0:
        raise InvalidField("sampling.max_tokens", "must not be negative")
    if not 0 <= sampling.seed < MAX_SEED:
        raise InvalidField("sampling.seed", f"must be 0 to {MAX_SEED - 1}")
    if len(sampling.stop) > MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARS for stop in sampling.stop):
        raise InvalidField("sampling.stop", f"at most {MAX_STOPS} strings of 1 to {MAX_STOP_CHARS} characters")
    # Ids for all messages would leave nothing to render, and the template could not say where the answer begins.
    if not 0 <= request.context_messages < count:
        raise InvalidField("context_messages", f"must leave at least one of the {count} messages to be rendered")
    if bool(request.context_messages) != bool(request.context_token_ids):
        raise InvalidField("context_token_ids", "and context_messages go together: give both or neither")
    for tool in request.tools:
        parse_json_object("tools", f"parameters_json of {tool.name!r}", tool.parameters_json or "{}")
    if request.response_schema_json:
        parse_json_object("response_schema_json", "it", request.response_schema_json)
    return request


def parse_json_object(field: str, what: str, text: str) -> dict[str, Any]:
    """Parse ``text`` as a JSON object; raise ``InvalidField(field)`` when it is not one."""
    try:
        value = json.loads(text)
    # json.loads raises RecursionError for deeply nested text, which any caller can send.
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidField(field, f"{what} is not a JSON object")
    return value
