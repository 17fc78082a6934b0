"""Relay between the planner and a stdio MCP server: limits message size, and ends the server when the planner ends.

Run by path with ``LIMIT PROGRAM [ARGUMENT …]``; uses only the standard library. It is needed because the SDK reads a
program's output without limit, and a program would outlive a killed planner. A response over the limit becomes an error
of its request alone: all runs of a planner share the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from typing import Any

# Seconds for the program to end by itself when its input closes, before it is killed.
GRACE_S = 2.0
# Objects, lists and members of one message: each may cost the reader a hundred times its bytes.
MAX_VALUES = 300_000
# Limits after which a line is no response any more, but a program that writes without end.
MAX_LIMITS = 16
# Bytes of a message beside its result: version and id.
MAX_OUTLINE = 65_536
INTERNAL_ERROR = -32603
TOKEN = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)


async def relay(limit: int, command: list[str]) -> int:
    """Copy lines in both directions until either side ends.

    Return the program's exit status, or 1 when it was killed.
    """
    program = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=limit
    )
    assert program.stdin is not None
    assert program.stdout is not None
    loop = asyncio.get_running_loop()
    incoming = asyncio.StreamReader(limit=limit)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(incoming), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    outgoing = asyncio.StreamWriter(transport, protocol, None, loop)
    requests = asyncio.create_task(copy(incoming, program.stdin))
    replies = asyncio.create_task(copy_replies(program.stdout, outgoing, limit))
    await asyncio.wait({requests, replies}, return_when=asyncio.FIRST_COMPLETED)
    # The polite end: a server ends when its input does.
    program.stdin.close()
    # Read the output to its end, or the exit of the program is never seen.
    last = asyncio.create_task(discard(program.stdout)) if replies.done() else replies
    try:
        async with asyncio.timeout(GRACE_S):
            return await program.wait()
    except TimeoutError:
        program.kill()
        await program.wait()
        return 1
    finally:
        await asyncio.wait({last}, timeout=GRACE_S)


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy lines until the source ends, the target closes, or a line exceeds the limit."""
    with contextlib.suppress(ValueError, ConnectionError):
        while line := await source.readline():
            target.write(line)
            await target.drain()


async def copy_replies(source: asyncio.StreamReader, target: asyncio.StreamWriter, limit: int) -> None:
    """Copy lines until the source ends or the target closes; a line over the limit becomes an error of its request."""
    with contextlib.suppress(ValueError, ConnectionError, EOFError):
        while True:
            try:
                line = await source.readuntil(b"\n")
                if count_values(line) > MAX_VALUES:
                    outline = Outline()
                    outline.feed(line)
                    line = make_refusal(outline, f"more than {MAX_VALUES:,} values")
            except asyncio.LimitOverrunError:
                outline, size = await skip_line(source, limit)
                line = make_refusal(outline, f"{size:,} bytes; at most {limit:,} are read")
            target.write(line)
            await target.drain()


async def skip_line(source: asyncio.StreamReader, limit: int) -> tuple[Outline, int]:
    """Read a line without keeping it and return its outline and size in bytes; raise ``ValueError`` without an end."""
    outline, size = Outline(), 0
    while size <= MAX_LIMITS * limit:
        try:
            part = await source.readuntil(b"\n")
            outline.feed(part)
            return outline, size + len(part)
        except asyncio.LimitOverrunError as error:
            part = await source.readexactly(max(1, error.consumed))
            outline.feed(part)
            size += len(part)
    raise ValueError("the line has no end")


class Outline:
    """A JSON object without the contents of its members that are objects or lists, read piece by piece."""

    def __init__(self) -> None:
        self._text, self._depth, self._is_in_string, self._held = bytearray(), 0, False, b""

    def feed(self, piece: bytes) -> None:
        """Add a piece."""
        data = self._held + piece
        # Half of an escape waits for its other half.
        is_half = (len(data) - len(data.rstrip(b"\\"))) % 2 == 1
        self._held, data = (b"\\", data[:-1]) if is_half else (b"", data)
        start = 0
        for match in TOKEN.finditer(data):
            token = match.group()
            if token == b'"':
                self._is_in_string = not self._is_in_string
            elif self._is_in_string or token[:1] == b"\\":
                continue
            elif token in b"{[":
                if self._depth == 1:
                    self._text += data[start : match.start()] + b"null"
                self._depth += 1
                start = match.start() if self._depth == 1 else start
            else:
                self._depth -= 1
                start = match.end() if self._depth == 1 else start
                if self._depth == 0:
                    self._text += data[start : match.end()]
        if self._depth == 1:
            self._text += data[start:]
        if len(self._text) > MAX_OUTLINE:
            raise ValueError("is no message of JSON-RPC")

    def read(self) -> dict[str, Any]:
        """Return the object with null in the place of each object or list; raise ``ValueError`` when it is none."""
        found = json.loads(self._text)
        if not isinstance(found, dict):
            raise ValueError("is no object")
        return found


def count_values(message: bytes | bytearray) -> int:
    """Return how many values the JSON of a message has at most."""
    return message.count(b"[") + message.count(b"{") + message.count(b",")


def make_refusal(outline: Outline, what: str) -> bytes:
    """Return the line that takes the place of a message that has too much: an error, or nothing for a notification."""
    ident = outline.read().get("id")
    if ident is None:
        return b""
    said = f"the result has {what}: ask for less"
    error = {"jsonrpc": "2.0", "id": ident, "error": {"code": INTERNAL_ERROR, "message": said}}
    return json.dumps(error).encode() + b"\n"


async def discard(source: asyncio.StreamReader) -> None:
    while await source.read(65_536):
        pass


if __name__ == "__main__":
    sys.exit(asyncio.run(relay(int(sys.argv[1]), sys.argv[2:])))
