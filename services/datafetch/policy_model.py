"""Client for short completions by a model of the policy service."""

from __future__ import annotations

import asyncio
from operator import attrgetter

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.errors import FathomError
from fathom.core.ids import content_hash


class PolicyModel:
    """One model of the policy service, called with a single prompt."""

    def __init__(self, clients: Clients, model: str, timeout_s: float) -> None:
        self._clients, self._model, self._timeout_s = clients, model, timeout_s

    async def __call__(self, prompt: str) -> str:
        """Return the completion of a prompt, or "" on an error or after ``timeout_s`` seconds."""
        message = pb.Message(role=pb.ROLE_USER, content=prompt)
        # The same prompt gives the same id, by which the policy service recognises a repeated call.
        ident = content_hash(["datafetch", self._model, prompt])
        request = pb.GenerateRequest(request_id=ident, model=self._model, messages=[message])
        try:
            async with asyncio.timeout(self._timeout_s):
                return await read_completion(self._clients, request, attrgetter("text"), timeout_s=self._timeout_s)
        # Callers treat the model as optional and go on without it.
        except (FathomError, TimeoutError):
            return ""
