"""Checks of one configured endpoint for ``fathom doctor --model``: the same that the tests run against a fake one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fathom.cli.doctor.findings import Finding
from fathom.core.config import ConfigError, load
from fathom.core.errors import FathomError, NotFound
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolSpec
from fathom.services.policy.backends.openai.backend import OpenAIBackend
from fathom.services.policy.config import Config, OpenAIModel
from fathom.services.policy.model import Request, ThoughtDelta

LOOK_UP = ToolSpec(
    "look_up",
    "Returns the price of one share.",
    json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"capital": {"type": "string"}},
        "required": ["capital"],
        "additionalProperties": False,
    }
)
SYSTEM = Message(Role.SYSTEM, "You are a careful assistant. Use the tools on offer in place of what you remember.")
PLAIN = Message(Role.USER, "What is the capital of France? Answer in one sentence.")
ONE = Message(Role.USER, "What is the price of Apple's share? Call look_up.")
TWO = Message(
    Role.USER, "What are the prices of the shares of Apple and of Microsoft? Call look_up for both at the same time."
)
LONG = Message(Role.USER, "Count from 1 to 500 in words, separated by commas.")
FEW_TOKENS = 16


@dataclass(frozen=True)
class Sampled:
    """A completion with the number of pieces that it came in."""

    completion: Completion
    pieces: int


Check = Callable[["ModelDoctor"], Awaitable[Finding]]


@dataclass
class ModelDoctor:
    """Asks one endpoint. A check that raises is a finding with the error's own words."""

    name: str
    backend: OpenAIBackend
    sampled: list[Sampled] = field(default_factory=list)
    """All replies so far."""
    called: Sampled | None = None
    """The reply with tool calls, which the round trip goes on from."""

    async def examine(self) -> list[Finding]:
        """Run all checks, one after the other; without a plain answer the others say nothing."""
        findings = [await self._check(CHECKS[0])]
        if findings[0].good:
            findings += [await self._check(check) for check in CHECKS[1:]]
        return [*findings, self._describe_corrections()]

    async def _check(self, check: tuple[str, bool, str, Check]) -> Finding:
        subject, needed, remedy, run = check
        try:
            found = await run(self)
        except FathomError as error:
            return Finding(subject, False, error.message, remedy, needed)
        return Finding(subject, found.good, found.detail, remedy, needed)

    async def ask(
        self, *messages: Message, tools: tuple[ToolSpec, ...] = (), tokens: int = 0, schema: str = ""
    ) -> Sampled:
        """Return one reply; raise ``FathomError``."""
        request = Request(
            new_id("doctor"), self.name, (SYSTEM, *messages), tools=tools, sampling=Sampling(max_tokens=tokens),
            response_schema_json=schema,
        )  # fmt: skip
        pieces = 0
        async for item in self.backend.generate(request):
            if isinstance(item, str | ThoughtDelta):
                pieces += 1
            else:
                self.sampled.append(Sampled(item, pieces))
        return self.sampled[-1]

    def _describe_corrections(self) -> Finding:
        """Return what the endpoint has refused, as settings that spare the refusals."""
        family, found = self.backend.profile.family.name, self.backend.learned.corrections
        if not found:
            return Finding("request fields", True, f"family {family}, nothing was refused", needed=False)
        said = "; ".join(map(str, found))
        remedy = f"set models.{self.name}.omit and rename accordingly, or name its family"
        return Finding("request fields", False, f"family {family}, learned: {said}", remedy, needed=False)


async def check_text(doctor: ModelDoctor) -> Finding:
    """Check that a plain question gets a text without tags of thoughts."""
    text = (await doctor.ask(PLAIN)).completion.text
    return report(bool(text.strip()) and "<think" not in text, describe(text) or "an empty reply")


async def check_streaming(doctor: ModelDoctor) -> Finding:
    pieces = doctor.sampled[0].pieces
    return report(pieces > 1, f"{pieces} pieces")


async def check_call(doctor: ModelDoctor) -> Finding:
    """Check that a tool is called by its name, with arguments that fit its schema."""
    doctor.called = await doctor.ask(ONE, tools=(LOOK_UP,))
    calls = doctor.called.completion.tool_calls
    good = bool(calls) and all(is_call(call.name, call.arguments_json) for call in calls)
    return report(good, "; ".join(f"{call.name}({call.arguments_json})" for call in calls) or "no call")


async def check_parallel_calls(doctor: ModelDoctor) -> Finding:
    calls = (await doctor.ask(TWO, tools=(LOOK_UP,))).completion.tool_calls
    return report(len(calls) > 1 and len({call.id for call in calls}) == len(calls), f"{len(calls)} calls in one reply")


async def check_round_trip(doctor: ModelDoctor) -> Finding:
    """Check that the conversation goes on after a call, with the thoughts and signatures that came with it."""
    if doctor.called is None or not doctor.called.completion.tool_calls:
        return report(False, "there was no call to go on from")
    said = doctor.called.completion
    message = Message(Role.ASSISTANT, said.text, said.tool_calls, opaque_json=said.opaque_json)
    results = [Message(Role.TOOL, '{"price": 187.5}', tool_call_id=call.id) for call in said.tool_calls]
    then = (await doctor.ask(ONE, message, *results, tools=(LOOK_UP,))).completion
    kept = f"thoughts of {len(said.reasoning)} characters, opaque parts of {len(said.opaque_json.encode())} bytes"
    return report(bool(then.text.strip() or then.tool_calls), f"{kept}; then: {describe(then.text) or 'further calls'}")


async def check_truncation(doctor: ModelDoctor) -> Finding:
    """Check that the limit of new tokens binds and is told apart from an end of the model's own."""
    completion = (await doctor.ask(LONG, tokens=FEW_TOKENS)).completion
    reason = completion.finish_reason
    return report(reason is FinishReason.LENGTH, f"{FEW_TOKENS} tokens allowed, ended by {reason.value!r}")


async def check_schema(doctor: ModelDoctor) -> Finding:
    text = (await doctor.ask(PLAIN, schema=SCHEMA)).completion.text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return report(isinstance(value, dict) and isinstance(value.get("capital"), str), describe(text) or "an empty reply")


async def check_usage(doctor: ModelDoctor) -> Finding:
    usage = doctor.sampled[0].completion.usage
    counts = f"{usage.prompt_tokens} prompt, {usage.completion_tokens} sampled, {usage.reasoning_tokens} of thoughts"
    return report(not usage.estimated, f"{counts}{', estimated' if usage.estimated else ''}")


CHECKS: tuple[tuple[str, bool, str, Check], ...] = (
    ("text", True, "see the message: base_url, model, api_key_env of the model", check_text),
    ("streaming", False, "turn off buffering in proxies; answers appear at once instead of growing", check_streaming),
    ("tool call", True, "take a model that calls tools; servers may need a parser (vLLM: --enable-auto-tool-choice)",
     check_call),
    ("parallel calls", False, 'add: {"parallel_tool_calls": true}; without it research takes more rounds',
     check_parallel_calls),
    ("round trip", True, "name the model's family, or add what the message asks for", check_round_trip),
    ("truncation", True, 'rename: {"max_tokens": "max_completion_tokens"}', check_truncation),
    ("schema output", False, 'schema_output: "json" or "prompt"', check_schema),
    ("usage", False, "none: budgets and costs go by upper estimates", check_usage),
)  # fmt: skip


def report(good: bool, detail: str) -> Finding:
    return Finding("", good, detail)


def describe(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:80]}…"


def is_call(name: str, arguments_json: str) -> bool:
    try:
        arguments = json.loads(arguments_json)
    except ValueError:
        return False
    return name == LOOK_UP.name and isinstance(arguments, dict) and isinstance(arguments.get("name"), str)


def find_model(name: str, base_url: str, key_env: str) -> OpenAIModel:
    """Return the settings of a model by its name, or those that the URL of an endpoint makes up.

    Raises ``NotFound`` for a name that the settings of policy do not have or that is no endpoint, and ``ConfigError``.
    """
    if base_url:
        return OpenAIModel(engine="openai", model=name, base_url=base_url, api_key_env=key_env)
    models = load(Config, "policy").models
    model = models.get(name)
    if not isinstance(model, OpenAIModel):
        endpoints = sorted(key for key, value in models.items() if isinstance(value, OpenAIModel))
        raise NotFound("endpoint in FATHOM_POLICY_MODELS", name, endpoints)
    return model


@asynccontextmanager
async def opening(name: str, config: OpenAIModel) -> AsyncIterator[OpenAIBackend]:
    """Open the model; raise ``ConfigError`` for a key that is not set, or ``MissingExtra``."""
    backend = OpenAIBackend(name, config)
    await backend.load()
    try:
        yield backend
    finally:
        await backend.close()


async def examine_endpoint(name: str, base_url: str = "", key_env: str = "") -> list[Finding]:
    """Run the checks against a model of policy's settings, or of the endpoint at ``base_url``; raise no error."""
    try:
        async with opening(name, find_model(name, base_url, key_env)) as backend:
            return await ModelDoctor(name, backend).examine()
    except (NotFound, ConfigError) as error:
        return [Finding("settings", False, error.message, "set FATHOM_POLICY_MODELS, or give --base-url")]
