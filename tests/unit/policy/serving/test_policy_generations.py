"""Generations by request id: run once, watched by many, ended when nobody watches."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
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
ROOM = 1 << 20
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
    generations = Generations(gate, 8, ROOM)
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
    generations = Generations(gate, 8, ROOM)
    await collect(generations.join(ASK).watch(forever))
    # The same id for another conversation is a mistake in the caller, not a repetition.
    with pytest.raises(Conflict):
        generations.join(replace(ASK, messages=(Message(Role.USER, "other"),)))


async def test_sampling_stops_when_the_last_watcher_leaves() -> None:
    gate = Gate()
    generations = Generations(gate, 8, ROOM)
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
    generations = Generations(gate, 8, ROOM)
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

    generations = Generations(fail_midway, 8, ROOM)
    with pytest.raises(Internal, match="bug"):
        await collect(generations.join(ASK).watch(forever))
    with pytest.raises(Internal, match="bug"):
        # Sampled anew and failing anew: the failure itself was not held.
        await collect(generations.join(ASK).watch(forever))


async def test_what_is_remembered_is_bounded() -> None:
    gate = Gate()
    gate.open.set()
    generations = Generations(gate, 2, ROOM)
    for index in range(4):
        await collect(generations.join(replace(ASK, request_id=f"r{index}")).watch(forever))
    await collect(generations.join(replace(ASK, request_id="r0")).watch(forever))
    await collect(generations.join(replace(ASK, request_id="r0")).watch(forever))
    # r0 was pushed out by the later ones and ran again once; its repetition was remembered.
    assert gate.runs == 5


async def stream_much(request: Request) -> AsyncGenerator[str | Completion, None]:
    """Yield pieces and a completion whose numbers are objects of their own, as those of a real tokenizer are."""
    first = 1_000 + int(request.request_id.removeprefix("r")) * 100
    for number in range(200):
        yield f"piece {number} of {request.request_id}"
    ids, log_probs = tuple(range(first, first + 2_000)), tuple(-float(number) - 0.5 for number in range(1_000))
    yield replace(DONE, prompt_token_ids=ids, sampled_token_ids=ids[:1_000], log_probs=log_probs, text="t" * 4_000)


async def test_the_memory_of_completed_generations_is_reached_and_stays() -> None:
    bound = 2 << 20
    generations = Generations(stream_much, 100_000, bound)

    async def ask(numbers: range) -> int:
        for number in numbers:
            # A long conversation of its own, which must not be held with the result.
            messages = (Message(Role.USER, f"{number}" * 5_000),)
            asked = replace(ASK, request_id=f"r{number}", messages=messages, context_token_ids=tuple(range(9_000)))
            await collect(generations.join(asked).watch(forever))
        await asyncio.sleep(0)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        empty = tracemalloc.get_traced_memory()[0]
        once = await ask(range(40)) - empty
        twice = await ask(range(40, 80)) - empty
    finally:
        tracemalloc.stop()
    # Reached: what is counted is what is there, to a fifth.
    assert 0.8 * bound < once < 1.2 * bound
    assert abs(twice - once) < 0.02 * bound


async def test_a_completed_generation_is_told_from_another_request_by_its_digest() -> None:
    gate = Gate()
    gate.open.set()
    generations = Generations(gate, 8, ROOM)
    await collect(generations.join(ASK).watch(forever))
    await asyncio.sleep(0)
    assert await collect(generations.join(replace(ASK)).watch(forever)) == ["a", DONE]
    with pytest.raises(Conflict, match="another request"):
        generations.join(replace(ASK, context_token_ids=(1,), context_messages=1))


async def test_the_end_of_the_service_ends_generations() -> None:
    gate = Gate()
    generations = Generations(gate, 8, ROOM)
    watching = asyncio.create_task(collect(generations.join(ASK).watch(forever)))
    await gate.started.wait()
    generations.cancel()
    with pytest.raises(Cancelled):
        await watching
