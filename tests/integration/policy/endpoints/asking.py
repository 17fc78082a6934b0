"""One model behind a fake endpoint, asked as the planner asks it: conversations with calls that go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.services.policy.backends.openai.backend import OpenAIBackend
from fathom.services.policy.config import OpenAIModel
from fathom.services.policy.model import Request, ThoughtDelta
from tests.support.endpoint import Call, FakeEndpoint, Family, Reply, fake_endpoint

DATA = ToolSpec("data", "Looks up series.", '{"type": "object", "properties": {"query": {"type": "string"}}}')
QUESTION = (Message(Role.SYSTEM, "You answer."), Message(Role.USER, "How did Apple do?"))
# Two calls in one reply: families differ most in how they number parallel calls and want their results back.
CALLS = Reply(reasoning="Prices first.", calls=(Call("data", {"query": "Apple"}), Call("data", {"query": "gold"})))
ANSWER = Reply(reasoning="Now I know.", text="Apple rose.")


@dataclass(frozen=True)
class Answered:
    """A completion with the pieces that came before it."""

    texts: list[str]
    thoughts: list[str]
    completion: Completion


@dataclass
class Model:
    """A backend and the endpoint behind it."""

    backend: OpenAIBackend
    far: FakeEndpoint

    async def ask(self, messages: tuple[Message, ...] = QUESTION, **fields: Any) -> Answered:
        """Return one reply."""
        sampling = fields.pop("sampling", Sampling())
        request = Request(new_id("t"), "m", messages, tools=(DATA,), sampling=sampling)
        texts, thoughts = [], []
        async for item in self.backend.generate(replace(request, **fields)):
            if isinstance(item, str):
                texts.append(item)
            elif isinstance(item, ThoughtDelta):
                thoughts.append(item.text)
            else:
                return Answered(texts, thoughts, item)
        raise AssertionError("no completion came")

    async def research(self, **fields: Any) -> tuple[Answered, Answered]:
        """Return the reply with calls and the one after their results."""
        first = await self.ask(**fields)
        second = await self.ask((*QUESTION, *continue_with(first.completion)), **fields)
        return first, second


def continue_with(completion: Completion) -> tuple[Message, ...]:
    """Return a completion and the results of its calls as messages, as the planner's episode keeps them."""
    said = Message(Role.ASSISTANT, completion.text, completion.tool_calls, opaque_json=completion.opaque_json)
    return (said, *(Message(Role.TOOL, "42", tool_call_id=call.id) for call in completion.tool_calls))


@asynccontextmanager
async def model(kind: str | Family, *script: Any, **settings: Any) -> AsyncIterator[Model]:
    """Open a model of this family, whose endpoint follows the script."""
    async with fake_endpoint(kind, script) as far:
        backend = await open_model(far, **settings)
        try:
            yield Model(backend, far)
        finally:
            await backend.close()


async def open_model(far: FakeEndpoint, **settings: Any) -> OpenAIBackend:
    backend = OpenAIBackend("m", OpenAIModel(**far.settings(**settings)))
    await backend.load()
    return backend
