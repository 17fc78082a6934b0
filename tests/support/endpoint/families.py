"""Model families as an endpoint shows them: what they refuse, in which words, and how they write replies.

Each refusal has the shape and the words of the real one; the sources are the reports and pages named beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tests.support.endpoint.replies import Wire, sign

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """An error before anything is sampled."""

    status: int
    body: Any

    @property
    def text(self) -> str:
        return json.dumps(self.body)


@dataclass
class Sent:
    """Record what an endpoint has sent so far, by which the echo of it is checked."""

    thoughts: dict[str, str] = field(default_factory=dict)
    """Thought by the id of the first call of its reply."""


Rule = Callable[[Body, Sent], Refusal | None]


@dataclass(frozen=True)
class Family:
    """The rules of a family and its way of writing."""

    model: str
    """Name under which a client knows the model."""
    rules: tuple[Rule, ...] = ()
    wire: Wire = Wire()  # noqa: RUF009 - frozen
    error: Callable[[str, int], Any] = lambda message, status: openai_error(message)
    """Build the body of an error from its message and status."""


def openai_error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI writes it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def google_error(message: str, status: int = 400) -> list[dict[str, Any]]:
    """Return an error as Google's compatible endpoint writes it: a list (securo-finance/securo#884)."""
    return [{"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}]


def refuse_field(name: str, instead: str = "") -> Rule:
    """Return a rule against a field of the request (microsoft/clarity-agent#59: words, param and code)."""

    def check(body: Body, sent: Sent) -> Refusal | None:
        if name not in body:
            return None
        hint = f" Use '{instead}' instead." if instead else ""
        message = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
        return Refusal(400, openai_error(message, name, "unsupported_parameter"))

    return check


def refuse_unknown(*known: str) -> Rule:
    """Return a rule against fields that OpenAI's API does not have."""

    def check(body: Body, sent: Sent) -> Refusal | None:
        strange = next((name for name in body if name not in known), "")
        return Refusal(400, openai_error(f"Unrecognized request argument supplied: {strange}")) if strange else None

    return check


def temperature_is_one(body: Body, sent: Sent) -> Refusal | None:
    """Refuse every temperature but 1 (johny-b/llmcomp#69)."""
    value = body.get("temperature", 1)
    message = (
        f"Unsupported value: 'temperature' does not support {value} with this model. "
        "Only the default (1) value is supported."
    )
    return None if value == 1 else Refusal(400, openai_error(message, "temperature", "unsupported_value"))


def calls_are_answered(body: Body, sent: Sent) -> Refusal | None:
    """Refuse a conversation in which calls and results do not belong together, as OpenAI does."""
    messages: Sequence[Body] = body["messages"]
    for place, message in enumerate(messages):
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
        following = [one.get("tool_call_id") for one in messages[place + 1 : place + 1 + len(wanted)]]
        if sorted(map(str, following)) != sorted(wanted):
            missing = [one for one in wanted if one not in following]
            return Refusal(400, openai_error(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
                f"messages.[{place}].role",
            ))  # fmt: skip
    return None


def thoughts_come_back(body: Body, sent: Sent) -> Refusal | None:
    """Refuse a call's message without exactly its thought (mnfst/modelparams.dev#29, api-docs.deepseek.com).

    A message whose thought was never sent, e.g. by another model, may have any that is not empty
    (ardeyouxipianyi/workbuddy2api-intl#36).
    """
    for message in body["messages"]:
        calls = message.get("tool_calls") or ()
        given = message.get("reasoning_content")
        if calls and (not given or given != sent.thoughts.get(calls[0]["id"], given)):
            text = "The `reasoning_content` in the thinking mode must be passed back to the API."
            return Refusal(400, openai_error(text, None, "invalid_request_error"))
    return None


def kimi_thoughts_come_back(body: Body, sent: Sent) -> Refusal | None:
    """Refuse a call's message without its thought (JohnnyZ93/oai-compatible-copilot#140)."""
    for index, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            text = (
                f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
            )
            return Refusal(400, {"error": {"message": text, "type": "invalid_request_error"}})
    return None


def kimi_sampling(body: Body, sent: Sent) -> Refusal | None:
    """Refuse other temperatures than 1 and other top_p than 0.95 (iOfficeAI/gemini-cli-pro#30)."""
    for name, allowed in (("temperature", 1), ("top_p", 0.95)):
        if body.get(name, allowed) != allowed:
            text = f"invalid {name}: only {allowed} is allowed for this model"
            return Refusal(400, {"error": {"message": text, "type": "invalid_request_error"}})
    return None


def signatures_come_back(body: Body, sent: Sent) -> Refusal | None:
    """Refuse the first call of a message without its signature (lbjlaq/Antigravity-Manager#938)."""
    for position, message in enumerate(body["messages"]):
        for call in list(message.get("tool_calls") or ())[:1]:
            given = (call.get("extra_content") or {}).get("google", {}).get("thought_signature", "")
            if given not in (sign(call["id"]), "skip_thought_signature_validator"):
                name = call["function"]["name"]
                return Refusal(400, google_error(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                    "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                    f"data, function call `default_api:{name}` , position {position}. Please refer to "
                    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                ))  # fmt: skip
    return None


def google_knows(*known: str) -> Rule:
    """Return a rule against fields that Google's compatible endpoint does not have."""

    def check(body: Body, sent: Sent) -> Refusal | None:
        strange = next((name for name in body if name not in known), "")
        text = f'Invalid JSON payload received. Unknown name "{strange}": Cannot find field.'
        return Refusal(400, google_error(text)) if strange else None

    return check


def mistral_knows(*known: str) -> Rule:
    """Return a rule against extra fields, of messages too (editor-code-assistant/eca#231, charmbracelet/crush#1590)."""

    def check(body: Body, sent: Sent) -> Refusal | None:
        strange: list[tuple[str | int, ...]] = [("body", name) for name in body if name not in known]
        for index, message in enumerate(body["messages"]):
            strange += [
                ("body", "messages", index, message["role"], name)
                for name in message
                if name not in ("role", "content", "tool_calls", "tool_call_id", "name", "prefix")
            ]
        if not strange:
            return None
        detail = [{"type": "extra_forbidden", "loc": loc, "msg": "Extra inputs are not permitted"} for loc in strange]
        error = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": None}
        return Refusal(422, {**error, "code": None})

    return check


def mistral_ids(body: Body, sent: Sent) -> Refusal | None:
    """Refuse ids of calls that are not nine letters and digits (jackmpcollins/magentic#276)."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            if not (call["id"].isalnum() and len(call["id"]) == 9):
                text = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
                error = {"object": "error", "message": text, "type": "invalid_request_error", "param": None}
                return Refusal(400, {**error, "code": None})
    return None


def one_of_temperature_and_top_p(body: Body, sent: Sent) -> Refusal | None:
    """Refuse temperature together with top_p, as Claude does from 4.5 on."""
    if "temperature" in body and "top_p" in body:
        text = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        return Refusal(400, openai_error(text))
    return None


def no_schema(body: Body, sent: Sent) -> Refusal | None:
    """Refuse schema output, as DeepSeek does."""
    if (body.get("response_format") or {}).get("type") == "json_schema":
        return Refusal(400, openai_error("This response_format type is unavailable now", None, "invalid_request_error"))
    return None


COMMON = (
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "response_format",
    "max_tokens", "temperature", "top_p", "stop", "seed",
)  # fmt: skip
OPENAI = (*COMMON, "max_completion_tokens", "reasoning_effort", "verbosity", "store", "metadata", "user")
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt-5": Family(
            "gpt-5.4",
            (
                refuse_unknown(*OPENAI),
                refuse_field("max_tokens", "max_completion_tokens"),
                temperature_is_one,
                refuse_field("top_p"),
                refuse_field("stop"),
                calls_are_answered,
            ),
            Wire(thoughts="hidden"),
        ),
        "gpt-4": Family("gpt-4.1", (refuse_unknown(*OPENAI), calls_are_answered), Wire(thoughts="hidden")),
        "deepseek": Family(
            "deepseek-v4-pro", (calls_are_answered, thoughts_come_back, no_schema), Wire(usage="deepseek")
        ),
        "kimi": Family("kimi-k2.5", (calls_are_answered, kimi_sampling, kimi_thoughts_come_back)),
        "gemini": Family(
            "gemini-3.6-flash",
            (google_knows(*COMMON, "max_completion_tokens", "reasoning_effort", "extra_body"), signatures_come_back),
            # Google sends each call whole, and in parallel ones all with index 0.
            Wire(thoughts="hidden", signatures=True, whole_calls=True, indices="zero"),
            google_error,
        ),
        "claude": Family(
            "claude-sonnet-4-6", (one_of_temperature_and_top_p, calls_are_answered), Wire(thoughts="hidden")
        ),
        "mistral": Family(
            "magistral-medium-latest",
            (
                mistral_knows(*(name for name in COMMON if name != "seed"), "random_seed"),
                mistral_ids,
                calls_are_answered,
            ),
            Wire(thoughts="parts", whole_calls=True),
        ),
        "minimax": Family("MiniMax-M2.1", (calls_are_answered,), Wire(thoughts="think", names_repeated=True)),
        "glm": Family("glm-4.7", (calls_are_answered,), Wire(whole_calls=True)),
        "qwen": Family("qwen3-max", (calls_are_answered,), Wire()),
        "vllm": Family("Qwen/Qwen3-8B", (), Wire(thoughts="unopened")),
        "openrouter": Family("vendor/some-model", (), Wire(thoughts="reasoning_details")),
        "ollama": Family("gpt-oss:20b", (), Wire(thoughts="reasoning", whole_calls=True, indices="zero")),
        "bare": Family("unheard-of-1", (), Wire(indices="missing", whole_calls=True, usage="none")),
    }
)
