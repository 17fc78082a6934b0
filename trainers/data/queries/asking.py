"""Questions to a model whose replies are JSON objects of a schema: a wrong reply is sent back once, then dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.ids import new_id
from fathom.domain.chat.tolerant import read_reply

Reply = TypeVar("Reply", bound=BaseModel)
ATTEMPTS = 2
REPLY_S = 120.0
MAX_TOKENS = 2_048


@dataclass
class Asker:
    """Asks one model; ``version`` is its name with the version that answered last."""

    clients: Clients
    model: str
    temperature: float = 0.0
    version: str = field(default="", init=False)

    async def ask(
        self, system: str, user: str, schema: type[Reply], seed: int, earlier: Sequence[tuple[str, str]] = ()
    ) -> Reply | None:
        """Return the reply; None when no attempt could be read. Raises ``FathomError`` when the model is away.

        ``earlier`` are turns of the same conversation, what was asked and what the model replied.
        """
        messages = [policy.Message(role=policy.ROLE_SYSTEM, content=system)]
        for asked, replied in earlier:
            messages.append(policy.Message(role=policy.ROLE_USER, content=asked))
            messages.append(policy.Message(role=policy.ROLE_ASSISTANT, content=replied))
        messages.append(policy.Message(role=policy.ROLE_USER, content=user))
        for attempt in range(ATTEMPTS):
            completion = await self._complete(messages, schema, seed * ATTEMPTS + attempt)
            self.version = f"{completion.model or self.model}@{completion.version_max}"
            # Models wrap objects in prose and code fences; what cannot be read even so is a fault.
            found = read_reply(completion.text, schema)
            if not isinstance(found, str):
                return found
            # The model sees its reply and the fault, as it repeats the mistake otherwise.
            messages += [
                policy.Message(role=policy.ROLE_ASSISTANT, content=completion.text),
                policy.Message(
                    role=policy.ROLE_USER, content=f"That cannot be read: {found}. Reply with the JSON object alone."
                ),
            ]
        return None

    async def write(self, messages: Sequence[policy.Message], seed: int) -> str:
        """Return the model's text, whatever its form; raise ``FathomError`` when the model is away."""
        completion = await self._complete(messages, None, seed)
        self.version = f"{completion.model or self.model}@{completion.version_max}"
        return completion.text.strip()

    async def _complete(
        self, messages: Sequence[policy.Message], schema: type[BaseModel] | None, seed: int
    ) -> policy.Completion:
        request = policy.GenerateRequest(
            request_id=new_id("query"),
            model=self.model,
            messages=messages,
            sampling=policy.Sampling(temperature=self.temperature, max_tokens=MAX_TOKENS, seed=1 + seed),
            # Sorted: engines may cache the compiled grammar by the text of the schema.
            response_schema_json=json.dumps(schema.model_json_schema(), sort_keys=True) if schema else "",
        )
        return await read_completion(self.clients, request, lambda completion: completion, timeout_s=REPLY_S)
