"""One limit over processes on a real bus: an upstream never has more calls than it allows, whoever comes and goes."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store import open_store
from tests.support.waiting import eventually

LIMIT, CALL_S = 4, 0.02


class Upstream:
    """A server that counts how many calls it has at once, and of whom."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.done: Counter[str] = Counter()
        self.by_most: Counter[int] = Counter()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.by_most[self.running] += 1
        try:
            name = (await reader.readline()).decode().strip()
            over = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(CALL_S, over.set_result, None)
            await over
            self.done[name] += 1
        finally:
            # Before the caller knows that its call is over, and gives its place to the next one.
            self.running -= 1
            writer.close()


async def test_two_and_three_processes_never_exceed_the_limit_of_their_upstream(tmp_path: Path) -> None:
    upstream = Upstream()
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(tmp_path / "nats"))
        bus = await open_bus(nats.url, open_store("memory://"))
        await bus.declare()
        await bus.close()
        server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]

        async def start(name: str) -> asyncio.subprocess.Process:
            arguments = (nats.url, str(port), str(LIMIT), name, "12")
            made = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.integration.bus.flooding", *arguments, stdout=asyncio.subprocess.DEVNULL
            )
            stack.push_async_callback(end, made)
            return made

        first = await start("first")
        await eventually(lambda: upstream.done["first"] > 100)
        assert upstream.by_most[LIMIT] > 0, "one process alone uses the whole limit"
        await start("second")
        await eventually(lambda: upstream.done["second"] > 100)
        await start("third")
        await eventually(lambda: upstream.done["third"] > 100)
        before = upstream.done.copy()
        await eventually(lambda: min((upstream.done - before)[name] for name in ("first", "second", "third")) > 100)
        gained = upstream.done - before
        assert min(gained.values()) >= 0.4 * max(gained.values()), gained
        await end(first)
        await eventually(lambda: upstream.done["second"] > before["second"] + 300)
        assert upstream.most == LIMIT, upstream.by_most


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
