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


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it; ``arguments_json`` may be malformed."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it; ``parameters_json`` is a JSON schema."""

    name: str
    description: str
    parameters_json: str


@dataclass(frozen=True)
class Sampling:
    """Sampling settings. Temperature 0 is greedy; ``top_k`` 0 means all; ``max_tokens`` 0 the model's default."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Usage:
    """Token counts and duration in milliseconds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    duration_ms: int = 0


@dataclass(frozen=True)
class Completion:
    """A sampled completion.

    ``prompt_token_ids`` are those rendered for the new messages (mask 0), ``sampled_token_ids`` the sampled ones
    verbatim (mask 1), ``log_probs`` one per sampled id, in nats. The first ``boundary_tokens`` of the prompt end the
    previous turn, where the model did not end it itself.
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
