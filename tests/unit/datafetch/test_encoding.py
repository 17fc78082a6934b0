"""Vectors of callers' texts: requests take turns, and what a caller gave up costs nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.domain.encoders.base import Kind
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.encoding import PART_CHARS, PART_TEXTS, TextEncoder, split_texts

LONG = "x" * PART_CHARS


class SlowEncoder:
    """Encodes a part when the test opens its gate, and notes what it was given."""

    name, dim = "slow", 2

    def __init__(self) -> None:
        self.parts: list[list[str]] = []
        self.gate = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        self.parts.append(list(texts))
        self.begun.release()
        assert self.gate.acquire(timeout=60)
        return np.array([[len(text), ord(text[-1])] for text in texts], dtype=np.float32)


@pytest.fixture
def slow() -> SlowEncoder:
    return SlowEncoder()


@pytest.fixture
async def texts(slow: SlowEncoder, tmp_path: Path) -> AsyncIterator[TextEncoder]:
    encoders = Encoders(tmp_path)
    encoders.add(slow)
    yield TextEncoder(Config(encoder="slow", embedding="on"), encoders)
    # No thread outlives its test.
    slow.gate.release(100)


def test_parts_are_bounded_in_texts_and_letters() -> None:
    assert [len(part) for part in split_texts(["a"] * (2 * PART_TEXTS + 1))] == [PART_TEXTS, PART_TEXTS, 1]
    assert list(split_texts([LONG + "1", "a", LONG + "2"])) == [[LONG + "1"], ["a"], [LONG + "2"]]
    assert not list(split_texts([]))


async def test_vectors_come_in_the_order_of_the_texts_also_of_repeated_and_held_ones(
    texts: TextEncoder, slow: SlowEncoder
) -> None:
    slow.gate.release(10)
    name, first = await texts.encode(["b", LONG + "a", "b"])
    _, second = await texts.encode(["c", "b"])
    assert name == "slow"
    assert first.tolist() == [[1, ord("b")], [PART_CHARS + 1, ord("a")], [1, ord("b")]]
    assert second.tolist() == [[1, ord("c")], [1, ord("b")]]
    assert slow.parts == [["b"], [LONG + "a"], ["c"]]


async def test_a_short_request_waits_for_one_part_of_a_long_one(texts: TextEncoder, slow: SlowEncoder) -> None:
    long = asyncio.create_task(texts.encode([LONG + str(place) for place in range(4)]))
    await asyncio.to_thread(slow.begun.acquire)
    short = asyncio.create_task(texts.encode(["short"]))
    await asyncio.sleep(0)  # it stands in line before the first part ends
    slow.gate.release(2)
    await short
    assert ["short"] in slow.parts[:2]
    assert not long.done()
    slow.gate.release(10)
    assert len((await long)[1]) == 4


async def test_a_caller_that_gives_up_leaves_one_part_and_goes_on_where_it_ended(
    texts: TextEncoder, slow: SlowEncoder
) -> None:
    wanted = [LONG + str(place) for place in range(4)]
    first = asyncio.create_task(texts.encode(wanted))
    await asyncio.to_thread(slow.begun.acquire)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    slow.gate.release(10)
    _, found = await texts.encode(wanted)
    # The part whose thread could not be interrupted is not encoded again.
    assert slow.parts == [[text] for text in wanted]
    assert found.shape == (4, 2)


async def test_an_encoder_that_fails_keeps_nobody_waiting(texts: TextEncoder, slow: SlowEncoder) -> None:
    slow.gate.release(10)
    with pytest.raises(IndexError):
        await texts._encode_in_parts(slow, [""])  # the fake has no last letter to read
    assert (await texts.encode(["after"]))[1].tolist() == [[5, ord("r")]]
