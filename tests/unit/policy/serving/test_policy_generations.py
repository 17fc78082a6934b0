"""Generations by request id: run once, watched by many, ended when nobody watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from fathom.core.errors import Cancelled, Conflict, DeadlineExceeded, Internal
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Usage
from fathom.services.policy.model import Request
from fathom.services.policy.serving.deduplication import Generations

ASK = Request("r1", "", (Message(Role.USER, "hello"),))
DONE = Completion((), (), (), "x", (), FinishReason.STOP, 0, 0, Usage(), True, "m")


def forever() -> None:
    return None


# Stands for a backend in the middle of sampling, so that a test decides what happens while it samples.
class Gate:
    """A source that waits for ``open`` between two pieces and tells how it ended."""

    def __init__(self) -> None:
        self.open, self.started = asyncio.Event(), asyncio.Event()
        self.runs, self.closed = 0, 0

    async def __call__(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        self.runs += 1
        try:
            yield "a"
            self.started.set()
            await self.open.wait()
            yield DONE
        finally:
            self.closed += 1


async def collect(source: AsyncGenerator[Any, None]) -> list[Any]:
    return [item async for item in source]


async def test_the_same_id_runs_once_and_gives_the_same() -> None:
    gate = Gate()
    generations = Generations(gate, 8)
    first = asyncio.create_task(collect(generations.join(ASK).watch(forever)))
    await gate.started.wait()
    second = asyncio.create_task(collect(generations.join(ASK).watch(forever)))
    gate.open.set()
    assert await first == await second == ["a", DONE]
    # A third watcher after the end reads what was sampled.
    assert await collect(generations.join(ASK).watch(forever)) == ["a", DONE]
    assert gate.runs == 1


async def test_another_request_under_the_same_id_is_a_conflict() -> None:
    gate = Gate()
    gate.open.set()
    generations = Generations(gate, 8)
    await collect(generations.join(ASK).watch(forever))
    # The same id for another conversation is a mistake in the caller, not a repetition.
    with pytest.raises(Conflict):
        generations.join(replace(ASK, messages=(Message(Role.USER, "other"),)))


async def test_sampling_stops_when_the_last_watcher_leaves() -> None:
    gate = Gate()
    generations = Generations(gate, 8)
    async with aclosing(generations.join(ASK).watch(forever)) as one:
        await anext(one)
        async with aclosing(generations.join(ASK).watch(forever)) as other:
            await anext(other)
            await gate.started.wait()
        # One of two has left: the other still reads.
        assert gate.closed == 0
    # One round for the watcher's end, one for the source's.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gate.closed == 1
    gate.open.set()
    assert await collect(generations.join(ASK).watch(forever)) == ["a", DONE]
    # Nothing of the abandoned generation was kept, so the same request samples again.
    assert gate.runs == 2


async def test_a_deadline_ends_one_watcher_and_not_the_other() -> None:
    gate = Gate()
    generations = Generations(gate, 8)
    patient = asyncio.create_task(collect(generations.join(ASK).watch(forever)))
    await gate.started.wait()
    with pytest.raises(DeadlineExceeded):
        # A watcher without time left; the generation is not its own alone.
        await collect(generations.join(ASK).watch(lambda: 0.0))
    assert gate.closed == 0
    gate.open.set()
    assert await patient == ["a", DONE]


async def test_a_failure_is_told_and_forgotten() -> None:
    async def fail_midway(request: Request) -> AsyncGenerator[str | Completion, None]:
        yield "a"
        raise RuntimeError("bug")

    generations = Generations(fail_midway, 8)
    with pytest.raises(Internal, match="bug"):
        await collect(generations.join(ASK).watch(forever))
    with pytest.raises(Internal, match="bug"):
        # Sampled anew and failing anew: the failure itself was not held.
        await collect(generations.join(ASK).watch(forever))


async def test_what_is_remembered_is_bounded() -> None:
    gate = Gate()
    gate.open.set()
    generations = Generations(gate, 2)
    for index in range(4):
        await collect(generations.join(replace(ASK, request_id=f"r{index}")).watch(forever))
    await collect(generations.join(replace(ASK, request_id="r0")).watch(forever))
    await collect(generations.join(replace(ASK, request_id="r0")).watch(forever))
    # r0 was pushed out by the later ones and ran again once; its repetition was remembered.
    assert gate.runs == 5


async def test_the_end_of_the_service_ends_generations() -> None:
    gate = Gate()
    generations = Generations(gate, 8)
    watching = asyncio.create_task(collect(generations.join(ASK).watch(forever)))
    await gate.started.wait()
    generations.cancel()
    with pytest.raises(Cancelled):
        await watching
