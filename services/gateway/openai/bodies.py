"""Requests of the chat completions API: what is read of them, and what is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import InvalidField
from fathom.services.gateway.bodies import MAX_INT32, MAX_INT64, check_characters

ROLES = {
    "system": policy.ROLE_SYSTEM,
    "developer": policy.ROLE_SYSTEM,
    "user": policy.ROLE_USER,
    "assistant": policy.ROLE_ASSISTANT,
    "tool": policy.ROLE_TOOL,
}


class Part(BaseModel):
    """A part of a message's content; other types than text are refused."""

    model_config = ConfigDict(extra="allow")
    type: str
    text: str = ""


class Function(BaseModel):
    """A call's function: its name, and its arguments as JSON text."""

    name: str
    arguments: str = "{}"


class Call(BaseModel):
    """A tool call of an earlier assistant message."""

    model_config = ConfigDict(extra="allow")
    id: str
    function: Function


class ChatMessage(BaseModel):
    """A message of the conversation. Clients send answers back with fields of ours that are not read again."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str = ""

    def text(self, field: str) -> str:
        """Return the content as text; raise ``InvalidField`` for a picture, sound or file."""
        if not isinstance(self.content, list):
            return self.content or ""
        for place, part in enumerate(self.content):
            if part.type != "text":
                raise InvalidField(f"{field}.content[{place}].type", f"{part.type!r} is not read here: text alone is")
        return "\n".join(part.text for part in self.content)


class StreamOptions(BaseModel):
    """Options of the end of a streamed answer."""

    model_config = ConfigDict(extra="allow")
    include_usage: bool = False


class ChatRequest(BaseModel):
    """Body that both doors take. Fields that only label a request are accepted and not read."""

    # An unknown field may change what the caller wants sampled: it is refused by name instead of being passed over.
    model_config = ConfigDict(extra="forbid")
    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1, max_length=2_000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-MAX_INT64, le=MAX_INT64)
    max_tokens: int | None = Field(None, ge=1, le=MAX_INT32)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_INT32)
    n: int | None = Field(None, ge=1, le=1, description="One choice per request.")
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: Mapping[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    parallel_tool_calls: bool | None = None
    # What only repeats OpenAI's defaults asks for nothing: programs that always send it are not refused for it.
    logprobs: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None
    frequency_penalty: float | None = Field(None, ge=0, le=0, description="Not supported: 0 alone.")
    presence_penalty: float | None = Field(None, ge=0, le=0, description="Not supported: 0 alone.")

    @model_validator(mode="before")
    @classmethod
    def check_text(cls, value: Any) -> Any:
        """Raise ``ValueError`` for text anywhere with half of a character."""
        return check_characters(value)

    @property
    def token_limit(self) -> int:
        """Return the limit of sampled tokens, 0 for none; the newer of its two names goes first."""
        return self.max_completion_tokens or self.max_tokens or 0

    @property
    def has_usage_at_end(self) -> bool:
        """Return whether a stream ends with a chunk that has the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self) -> policy.Sampling | None:
        """Return the sampling that was asked for; None leaves it to the server."""
        if self.temperature is None and self.top_p is None and self.seed is None:
            return None
        # In the contract a temperature of 0 is greedy: one that was not given must become OpenAI's default.
        temperature = 1.0 if self.temperature is None else self.temperature
        return policy.Sampling(temperature=temperature, top_p=self.top_p or 0.0, seed=self.seed or 0)


class AgentFormat(BaseModel):
    """Form of the agent's answer, which is text."""

    type: Literal["text"]


class AgentRequest(ChatRequest):
    """A chat completion of the agent, which has its own tools and its own form of answer."""

    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    response_format: AgentFormat | None = None
    tool_choice: Literal["auto", "none"] | None = None


class ResponseFormat(BaseModel):
    """Form of a model's text."""

    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema"]
    json_schema: Mapping[str, Any] | None = None


class ToolFunction(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(extra="allow")
    name: str
    description: str = ""
    parameters: Mapping[str, Any] = Field(default_factory=dict)


class Tool(BaseModel):
    """A tool on offer."""

    type: Literal["function"]
    function: ToolFunction


class ModelRequest(ChatRequest):
    """A chat completion of one model, without tools of ours."""

    stop: str | list[str] | None = None
    tools: list[Tool] | None = Field(None, max_length=128)
    tool_choice: Literal["auto", "none"] | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    top_k: int | None = Field(None, ge=0, le=MAX_INT32)
    return_token_ids: bool = False
    """True adds the ids of prompt and completion, as vLLM does, for harnesses that train."""
