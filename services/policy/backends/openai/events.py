"""Events of a streamed response, decoded within a limit of bytes and of silence."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from fathom.core.deadline import time_limit
from fathom.core.errors import DependencyFailed, PayloadTooLarge

MAX_BYTES = 8 << 20
"""Largest response in bytes, after decompression."""


class BrokenStream(Exception):
    """The connection ended in the middle of a response, without an end that the endpoint meant."""


async def read_events(response: Any, name: str, pause_s: float) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the objects of a server-sent stream, or the one object of a whole response.

    Raises ``PayloadTooLarge``, ``DeadlineExceeded`` after ``pause_s`` seconds without a byte, ``BrokenStream`` for a
    connection that breaks, and ``DependencyFailed`` for what is no JSON.
    """
    other: list[bytes] = []
    has_data = False
    async for line in read_lines(response, name, pause_s):
        field, _, value = line.partition(b":")
        if field == b"data":
            if value.strip() == b"[DONE]":
                return
            has_data = True
            yield parse(name, value)
        elif not has_data and field not in (b"event", b"id", b"retry", b"") and line.strip():
            other.append(line)
    if other and not has_data:
        yield parse(name, b"\n".join(other))


async def read_lines(response: Any, name: str, pause_s: float) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a response without their ends."""
    chunks, size = response.aiter_bytes(), 0
    rest: list[bytes] = []
    while True:
        async with time_limit(pause_s, name, f"{name}: the endpoint sent nothing for {pause_s:g} s (timeout_s)"):
            try:
                chunk = await anext(chunks, None)
            # The client's HTTP library, and with it the class of a broken connection, changes by version.
            except Exception as error:
                raise BrokenStream(f"the connection broke: {type(error).__name__}: {error}") from error
        if chunk is None:
            break
        size += len(chunk)
        if size > MAX_BYTES:
            raise PayloadTooLarge(size, MAX_BYTES)
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield (b"".join([*rest, line]) if rest else line).rstrip(b"\r")
            rest = []
        rest.append(last)
    if last := b"".join(rest).rstrip(b"\r"):
        yield last


def parse(name: str, text: bytes) -> dict[str, Any]:
    """Return the JSON object; raise ``DependencyFailed`` for anything else, or for an error in the stream."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DependencyFailed(name, f"the endpoint sent an unreadable response: {error}") from error
    if not isinstance(found, dict):
        raise DependencyFailed(name, "the endpoint sent an unreadable response: no JSON object")
    return found
