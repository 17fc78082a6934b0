"""Relay between the planner and a stdio MCP server: limits message size, and ends the server when the planner ends.

Run by path with ``LIMIT PROGRAM [ARGUMENT …]``; uses only the standard library. It is needed because the SDK reads a
program's output without limit, and a program would outlive a killed planner.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

# Seconds for the program to end by itself when its input closes, before it is killed.
GRACE_S = 2.0


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
    replies = asyncio.create_task(copy(program.stdout, outgoing))
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


async def discard(source: asyncio.StreamReader) -> None:
    while await source.read(65_536):
        pass


if __name__ == "__main__":
    sys.exit(asyncio.run(relay(int(sys.argv[1]), sys.argv[2:])))
