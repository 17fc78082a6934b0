"""Reading one generation to its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, aclosing, nullcontext
from typing import TypeVar

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients.client import STREAM_TIMEOUT_S
from fathom.clients.connect import Clients
from fathom.core.errors import DependencyFailed

R = TypeVar("R")


async def read_completion(
    clients: Clients,
    request: pb.GenerateRequest,
    convert: Callable[[pb.Completion], R],
    hear: Callable[[str], None] | None = None,
    *,
    timeout_s: float = STREAM_TIMEOUT_S,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> R:
    """Return what ``convert`` makes of a generation's completion; pass its text to ``hear`` as it arrives.

    A context of ``waiting`` is open while the generation waits for a place of its model. Raises
    ``DependencyFailed("policy")`` when the stream ends without a completion, and the errors of the policy service.
    """
    # Closed with the stream at the latest: a place that is lost by an error ends the wait too. A caller who gives up
    # closes the stream at once, or the model would write on until the garbage is collected.
    with ExitStack() as wait:
        async with aclosing(clients.policy.generate(request, timeout_s=timeout_s)) as responses:
            async for response in responses:
                # Another attempt may wait anew, or find a place at once.
                wait.close()
                if response.HasField("wait") and not response.wait.is_over:
                    wait.enter_context(waiting())
                # A delta may hold a part of the model's thought in place of text.
                if hear is not None and response.delta.text:
                    hear(response.delta.text)
                if response.HasField("completion"):
                    return convert(response.completion)
    raise DependencyFailed("policy", "the stream ended without a completion")
