"""Both ends of a request, the same for every bus: claim checks and failures passed on as typed errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from fathom.core.errors import CorruptData, FathomError, Internal
from fathom.transport.bus.base import Handler, Message
from fathom.transport.bus.claim import FAILURE_HEADER, ClaimCheck
from fathom.transport.status import from_status, to_status

# As long as a unary call may take by default: what was begun is answered.
DRAIN_S = 30.0
LOGGER = "fathom.transport.bus"


async def answer(
    handler: Handler, claims: ClaimCheck, subject: str, payload: bytes, headers: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """Run the handler on a request as received; return the reply, or the failure, as it is sent."""
    try:
        payload, headers = await claims.open(payload, headers)
        reply = await handler(Message(subject, payload, headers))
        return await claims.seal(reply.payload, reply.headers)
    except FathomError as error:
        return failure(error)
    except Exception:
        # The caller must not wait for its whole deadline, and must not learn our insides.
        logging.getLogger(LOGGER).exception("the handler of %s raised", subject)
        return failure(Internal(f"the handler of {subject} failed"))


async def read_reply(claims: ClaimCheck, subject: str, payload: bytes, headers: Mapping[str, str]) -> Message:
    """Return the reply with its claim opened; raise the error that it carries."""
    if FAILURE_HEADER in headers:
        try:
            raise from_status(Status.FromString(payload))
        except DecodeError as error:
            raise CorruptData(subject, "its failure cannot be read") from error
    payload, headers = await claims.open(payload, headers)
    return Message(subject, payload, headers)


def failure(error: FathomError) -> tuple[bytes, dict[str, str]]:
    """Encode an error as payload and headers."""
    return to_status(error).SerializeToString(), {FAILURE_HEADER: error.reason}


async def drain(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait for running handlers, at most ``DRAIN_S`` seconds; cancel those that take longer."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
