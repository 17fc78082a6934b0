"""Reading the output of workers: one that floods its pipe waits, and others do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from fathom.services.sandbox.supervisor.worker import pipe as pipe_module
from fathom.services.sandbox.supervisor.worker.pipe import READ_SIZE, OutputPipe
from tests.support.waiting import eventually


@contextmanager
def open_pipe() -> Iterator[tuple[OutputPipe, bytearray]]:
    """Provide a pipe and the bytes that have been read from it."""
    seen = bytearray()
    with closing(OutputPipe("stdout")) as pipe:
        pipe.sink = lambda _, data: seen.extend(data)
        os.set_blocking(pipe.fileno(), False)
        yield pipe, seen


async def until_read(seen: bytearray, size: int) -> None:
    await eventually(lambda: len(seen) == size)


async def test_after_a_full_read_others_are_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "FLOOD_PAUSE_S", 3_600.0)
    with open_pipe() as (flooding, flood), open_pipe() as (quiet, words):
        os.write(flooding.fileno(), b"x" * READ_SIZE)
        await eventually(lambda: len(flood) == READ_SIZE)
        os.write(flooding.fileno(), b"y" * READ_SIZE)
        for number in range(1, 4):
            os.write(quiet.fileno(), b"word")
            await until_read(words, 4 * number)
        assert len(flood) == READ_SIZE
        # The end of a cell waits for nothing.
        flooding.drain()
        assert len(flood) == 2 * READ_SIZE


async def test_all_of_a_flood_is_read_in_the_end() -> None:
    with open_pipe() as (pipe, seen):
        for number in range(1, 6):
            os.write(pipe.fileno(), b"x" * READ_SIZE)
            await until_read(seen, number * READ_SIZE)
            assert bytes(seen) == b"x" * (number * READ_SIZE)


async def test_a_pipe_that_ends_while_it_waits_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "FLOOD_PAUSE_S", 0.0)
    with open_pipe() as (pipe, seen):
        os.write(pipe.fileno(), b"x" * READ_SIZE)
        pipe.close_write_end()
        await eventually(lambda: len(seen) == READ_SIZE)
        pipe.drain()
    loop = asyncio.get_running_loop()
    # Whatever was to happen later has happened, with the pipe closed.
    for _ in range(3):
        done = loop.create_future()
        loop.call_later(0.0, done.set_result, None)
        await done
    assert len(seen) == READ_SIZE
