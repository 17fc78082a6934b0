"""First part of the chain: a language model names the indicators that a text calls for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.errors import DeadlineExceeded, FathomError
from fathom.ids import content_hash

MAX_NAMES = 12
MAX_CHARS = 80
PROMPT = (
    "Name up to 12 financial or economic indicators that answer the request below, one per line, by their usual names"
    " in the language of the request. Write nothing else.\n\nRequest: {text}"
)
BULLET = re.compile(r"^[\s\-*•\d.)、]+")


class Association:
    """Asks the policy. What it says is only ever looked up in the library, never used as it is."""

    def __init__(self, clients: Clients, model: str, timeout_s: float) -> None:
        self._clients, self._model, self._timeout_s = clients, model, timeout_s

    async def __call__(self, text: str) -> Sequence[str]:
        """Names, none when the policy does not answer in time: the other parts go on without it."""
        message = pb.Message(role=pb.ROLE_USER, content=PROMPT.format(text=text))
        request = pb.GenerateRequest(
            request_id=content_hash(["association", self._model, text]), model=self._model, messages=[message]
        )
        said = []
        try:
            async with asyncio.timeout(self._timeout_s):
                async for response in self._clients.policy.generate(request, timeout_s=self._timeout_s):
                    if response.HasField("completion"):
                        said.append(response.completion.text)
        except (FathomError, DeadlineExceeded, TimeoutError):
            return []
        return names_in("\n".join(said))


def names_in(text: str) -> list[str]:
    """One name per line, without bullets, at most twelve."""
    lines = (BULLET.sub("", line).strip() for line in text.splitlines())
    return [line for line in dict.fromkeys(lines) if 0 < len(line) <= MAX_CHARS][:MAX_NAMES]
