"""The way between a page and its gateway, which can be cut, lose what the gateway answers, or carry nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

PIECE = 64 * 1024


class Cable:
    """Passes on connections to a gateway on this machine; ``url`` is the address on the page's side."""

    def __init__(self, gateway: str) -> None:
        self._port = urlsplit(gateway).port
        self._open: set[asyncio.StreamWriter] = set()
        self._streams: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self.pings = 0
        """Pings that have reached the page's side."""
        self.is_cut = False
        self.loses_answers = False
        self.lost = asyncio.Event()
        """Set once an answer was lost."""
        self.url = ""

    def cut(self) -> None:
        """End all connections, and every further one as it comes."""
        self.is_cut = True
        self._hang_up()

    def silence(self) -> None:
        """Carry nothing more on the event streams that are open, and end none: their gateway's machine is gone."""
        self._silent |= self._streams

    def mend(self) -> None:
        """Pass everything on again."""
        self.is_cut = self.loses_answers = False

    def _hang_up(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until either side ends it."""
        # Accepted and ended at once, as by a proxy whose server is gone; a refused port would need a server that stops.
        if self.is_cut:
            writer.transport.abort()
            return
        from_gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, to_gateway}
        self._open |= ends
        ways = [
            asyncio.ensure_future(self._pass(reader, to_gateway, writer)),
            asyncio.ensure_future(self._back(from_gateway, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= ends
            self._streams.discard(writer)
            self._silent.discard(writer)
            for end in ends:
                end.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, page: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE):
                if b"/events?" in piece:
                    self._streams.add(page)
                writer.write(piece)
                await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE):
                # The gateway has had the request and acts on it: only its answer never comes.
                if self.loses_answers:
                    self.lost.set()
                    return
                if writer in self._silent:
                    continue
                self.pings += piece.count(b"event: ping")
                writer.write(piece)
                await writer.drain()
            # The gateway's end does not arrive either; the page may hang up.
            if writer in self._silent:
                await asyncio.Event().wait()


@asynccontextmanager
async def lay_cable(gateway: str) -> AsyncIterator[Cable]:
    """Serve the page's side on a free port."""
    cable = Cable(gateway)
    server = await asyncio.start_server(cable.connect, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    cable.url = f"http://{host}:{port}"
    try:
        yield cable
    finally:
        server.close()
        cable.cut()
        await server.wait_closed()
