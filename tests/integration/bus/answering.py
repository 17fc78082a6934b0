"""A service on the bus that says its process and then works for long: run by ``test_killed_servers``."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from fathom.transport.bus import Message, open_bus
from fathom.transport.store import open_store


async def serve(url: str, subject: str, seconds: float) -> None:
    """Answer with this process's number after some seconds, and print it when a request has arrived."""
    bus = await open_bus(url, open_store("memory://"))

    async def handle(message: Message) -> Message:
        print("taken", flush=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        return Message(message.subject, str(os.getpid()).encode(), {})

    await bus.serve(subject, "workers", handle)
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], float(sys.argv[3])))
