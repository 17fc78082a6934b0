"""NATS server: a dispatcher's unary methods on subjects, shared by a queue group of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fathom.core.errors import FathomError
from fathom.transport.bus.base import Bus, Closable, Message
from fathom.transport.bus.streams import rpc_subject
from fathom.transport.rpc.contract import Method
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.requests import decode
from fathom.transport.status import STATUS_HEADER, to_status


async def mount(dispatcher: Dispatcher, bus: Bus) -> list[Closable]:
    """Serve every unary method on its subject; close the returned subscriptions to drain."""
    # Together: each waits until the server has seen its subscription, and a service has up to thirty of them.
    return await asyncio.gather(
        *(
            bus.serve(rpc_subject(method.service, method.name), method.service, reply(dispatcher, method))
            for method in dispatcher.contract.methods.values()
            if method.unary
        )
    )


def reply(dispatcher: Dispatcher, method: Method) -> Callable[[Message], Awaitable[Message]]:
    """Return a handler that replies with the response, or with a status under the header ``fathom-status``."""

    async def handler(message: Message) -> Message:
        try:
            call = dispatcher.admit(message.headers)
            response = await dispatcher.answer(method, decode(method, message.payload), call, "nats")
            return Message(message.subject, response.SerializeToString(), {})
        except FathomError as error:
            # The code is in the header for tools that look at the traffic; callers read the status.
            return Message(message.subject, to_status(error).SerializeToString(), {STATUS_HEADER: error.code})

    return handler
