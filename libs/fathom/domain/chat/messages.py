"""Messages, tools, sampling settings and completions as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolFormat(StrEnum):
    """Format of tool calls in the text: JSON in ``<tool_call>`` tags, or protocol tags that are not parsed here."""

    HERMES = "hermes"
    TAGS = "tags"


class FinishReason(StrEnum):
    """Reason why sampling ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    ABORT = "abort"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it; ``arguments_json`` may be malformed."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Message:
    """One message of a conversation. ``opaque_json`` is that of the completion which the message was, or empty."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    opaque_json: str = ""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it; ``parameters_json`` is a JSON schema."""

    name: str
    description: str
    parameters_json: str


@dataclass(frozen=True)
class Sampling:
    """Sampling settings. Temperature 0 is greedy; ``top_k`` 0 means all; ``max_tokens`` 0 the model's default.

    ``reasoning_effort`` says how much a thinking model thinks, e.g. "low"; "" leaves it to the model.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    seed: int = 0
    reasoning_effort: str = ""


@dataclass(frozen=True)
class Usage:
    """Token counts, duration in milliseconds, and cost in the currency of the model's prices.

    ``reasoning_tokens`` are part of ``completion_tokens``. ``estimated`` marks counts that no endpoint has reported;
    they are upper estimates. A ``cost`` of 0 means that the model's settings name no prices.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    duration_ms: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.duration_ms + other.duration_ms,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
            self.cost + other.cost,
        )


@dataclass(frozen=True)
class Completion:
    """A sampled completion.

    ``prompt_token_ids`` are those rendered for the new messages (mask 0), ``sampled_token_ids`` the sampled ones
    verbatim (mask 1), ``log_probs`` one per sampled id, in nats. The first ``boundary_tokens`` of the prompt end the
    previous turn, where the model did not end it itself. ``reasoning`` is the model's thought where its endpoint sends
    it apart from the text; ``opaque_json`` goes back to the policy service with the message.
    """

    prompt_token_ids: tuple[int, ...]
    sampled_token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    version_min: int
    version_max: int
    usage: Usage
    exact: bool
    model: str
    boundary_tokens: int = 0
    reasoning: str = ""
    opaque_json: str = ""
