"""What policy's engine and its backends say to each other: plain data and one interface."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from fathom.call import Lane
from fathom.errors import InvalidField
from fathom.protocol.messages import Completion, Message, Sampling, ToolFormat, ToolSpec

MAX_STOPS, MAX_STOP_CHARS, MAX_TEMPERATURE, MAX_SEED = 16, 256, 10.0, 1 << 63


class State(StrEnum):
    """State of a model; the names of ``policy.v1.ModelState``."""

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


@dataclass(frozen=True)
class LaneVersion:
    """A version's share of a lane in percent."""

    lane: Lane
    version: int
    percent: int


@dataclass(frozen=True)
class ModelInfo:
    """What is told about a model."""

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
    """What an engine holds right now: ``cache_tokens`` in its key-value cache, and their share of its room (0 to 1)."""

    running: int = 0
    waiting: int = 0
    cache_tokens: int = 0
    cache_share: float = 0.0


class Backend(Protocol):
    """One model behind one engine. All methods raise ``FathomError`` only."""

    engine: str
    exact: bool
    """Gives the ids and log-probabilities that were really used."""

    @property
    def version(self) -> int:
        """Policy version that a new generation would be sampled by; 0 when it takes no weights."""
        ...

    @property
    def window_tokens(self) -> int: ...

    @property
    def occupancy(self) -> Occupancy:
        """Cheap enough to be asked for every request."""
        ...

    async def load(self) -> None:
        """Makes the model ready; called once, before anything else."""
        ...

    def generate(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Pieces of text, then the completion. Closing the generator stops the sampling before its next token."""
        ...

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Log-probability of every id given those before it (0.0 for the first), and the version that scored."""
        ...

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        """Ids of a whole conversation by the chat template."""
        ...

    async def encode(self, text: str) -> list[int]:
        """Ids of plain text."""
        ...

    async def detokenize(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        ...

    async def load_weights(self, folder: Path, version: int) -> None:
        """Serves a fetched version from now on; running generations end on theirs. On an error nothing changes."""
        ...

    async def close(self) -> None: ...


def checked(request: Request) -> Request:
    """The request, when every engine could make sense of it; else ``InvalidField``."""
    sampling, count = request.sampling, len(request.messages)
    if not request.messages:
        raise InvalidField("messages", "is empty")
    if request.messages[-1].role == "assistant":
        raise InvalidField("messages", "ends with an assistant message; there is nothing to answer")
    if not 0 <= sampling.temperature <= MAX_TEMPERATURE:
        raise InvalidField("sampling.temperature", f"must be between 0 and {MAX_TEMPERATURE:g}")
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
    if not 0 <= request.context_messages < count:
        raise InvalidField("context_messages", f"must leave at least one of the {count} messages to be rendered")
    if bool(request.context_messages) != bool(request.context_token_ids):
        raise InvalidField("context_token_ids", "and context_messages go together: give both or neither")
    for tool in request.tools:
        json_object("tools", f"parameters_json of {tool.name!r}", tool.parameters_json or "{}")
    if request.response_schema_json:
        json_object("response_schema_json", "it", request.response_schema_json)
    return request


def json_object(field: str, what: str, text: str) -> dict[str, Any]:
    """The object that ``text`` holds; raises ``InvalidField(field)``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidField(field, f"{what} is no JSON object")
    return value
