"""Values by key, in memory and on a real server: one truth, compare-and-set, watched through restarts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from fathom.core.errors import Conflict, InvalidField, NotFound, PayloadTooLarge
from fathom.transport.bus.base import Entry, KeyValue
from fathom.transport.bus.keys import MAX_VALUE_BYTES
from fathom.transport.bus.streams import AWAITED, SERVING
from tests.integration.bus.conftest import LIMIT_S, Make
from tests.support.waiting import eventually


async def until(keys: KeyValue, key: str, value: bytes | None) -> list[Entry]:
    """Watches until ``key`` has ``value``; all entries seen."""
    seen: list[Entry] = []
    async with asyncio.timeout(LIMIT_S), aclosing(keys.watch()) as entries:
        async for entry in entries:
            seen.append(entry)
            if (entry.key, entry.value) == (key, value):
                return seen
    raise AssertionError("the watch ended")


async def test_a_value_is_set_changed_and_deleted(make: Make) -> None:
    keys = (await make()).bus.bucket(SERVING)
    assert await keys.get("model.tiny") is None
    assert await keys.keys() == []
    first = await keys.put("model.tiny", b"1", revision=0)
    second = await keys.put("model.tiny", b"2", revision=first)
    assert second > first
    assert await keys.get("model.tiny") == Entry("model.tiny", b"2", second)
    third = await keys.put("model.tiny", b"3")
    assert third > second
    await keys.delete("model.tiny", revision=third)
    assert await keys.get("model.tiny") is None
    # Revision 0 means "must not exist", also after a deletion.
    fourth = await keys.put("model.tiny", b"4", revision=0)
    assert await keys.get("model.tiny") == Entry("model.tiny", b"4", fourth)


# Leases are how a rollout's watcher is known to be alive.
async def test_a_lease_ends_by_itself_unless_it_is_renewed(make: Make) -> None:
    keys = (await make(rollout_lease_s=1.0)).bus.bucket(AWAITED)
    await keys.put("held", b"")
    await keys.put("dropped", b"")

    async def has_ended() -> bool:
        # Renewed by each look, as a watcher does.
        await keys.put("held", b"")
        return await keys.get("dropped") is None

    await eventually(has_ended, every_s=0.1)
    assert await keys.get("held") is not None


async def test_of_two_that_change_the_same_revision_one_wins(make: Make) -> None:
    keys = (await make()).bus.bucket(SERVING)
    base = await keys.put("k", b"base")
    results = await asyncio.gather(
        # Eight writers that have all read the same revision.
        *(keys.put("k", str(index).encode(), revision=base) for index in range(8)),
        return_exceptions=True,
    )
    won = [index for index, result in enumerate(results) if isinstance(result, int)]
    assert len(won) == 1
    assert all(isinstance(result, Conflict) for index, result in enumerate(results) if index not in won)
    entry = await keys.get("k")
    assert entry is not None
    assert entry.value == str(won[0]).encode()
    with pytest.raises(Conflict):
        # Revision 0 for a key that exists.
        await keys.put("k", b"new", revision=0)
    with pytest.raises(Conflict):
        # The revision from before the winner's write.
        await keys.delete("k", revision=base)


async def test_watchers_see_what_is_there_and_what_comes(make: Make) -> None:
    lab = await make()
    other = (await lab.open_another()).bucket(SERVING)
    keys = lab.bus.bucket(SERVING)
    await keys.put("a", b"1")
    await keys.put("b", b"1")
    assert await other.keys() == ["a", "b"]
    watching = asyncio.create_task(until(other, "a", None))
    await until(keys, "b", b"1")
    await keys.put("b", b"2")
    await keys.delete("a")
    seen = await watching
    assert {entry.key for entry in seen} == {"a", "b"}
    # In the order of the writes, whatever the watcher missed in between.
    assert [entry.revision for entry in seen] == sorted(entry.revision for entry in seen)


# What a subject of NATS may not contain, beside wildcards.
@pytest.mark.parametrize("key", ["", ".a", "a.", "a b", "a>", "a*", "é", "x" * 300])
async def test_odd_keys_are_refused(make: Make, key: str) -> None:
    keys = (await make()).bus.bucket(SERVING)
    with pytest.raises(InvalidField, match="key"):
        await keys.put(key, b"")
    with pytest.raises(InvalidField, match="key"):
        await keys.get(key)


async def test_odd_values_and_buckets_are_refused(make: Make) -> None:
    lab = await make()
    with pytest.raises(PayloadTooLarge):
        await lab.bus.bucket(SERVING).put("k", b"x" * (MAX_VALUE_BYTES + 1))
    with pytest.raises(InvalidField, match="revision"):
        await lab.bus.bucket(SERVING).put("k", b"", revision=-1)
    with pytest.raises(NotFound, match=SERVING):
        lab.bus.bucket("NONE")


async def test_a_watch_and_its_values_outlive_the_server(make_nats: Make) -> None:
    lab = await make_nats()
    assert lab.server is not None
    keys = lab.bus.bucket(SERVING)
    revision = await keys.put("k", b"before")
    # The watch is open while the server dies, and sees what is written after its return.
    watching = asyncio.create_task(until(keys, "k", b"after"))
    await until(keys, "k", b"before")
    await lab.server.kill()
    writing = asyncio.create_task(keys.put("k", b"after", revision=revision))
    await lab.server.start()
    assert await writing > revision
    assert (await watching)[-1].value == b"after"
    # Declaring again must not empty the bucket.
    await lab.bus.declare()
    assert await keys.get("k") is not None


async def test_a_lost_confirmation_is_no_conflict_with_oneself(
    make_nats: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has stored the value, its answer is lost, and the call is repeated."""
    lab = await make_nats()
    keys = lab.bus.bucket(SERVING)
    first = await keys.put("k", b"1")
    link = getattr(lab.bus, "_link")  # noqa: B009 - the connection of the NATS bus
    # Below the retry: the value is stored, and the answer is lost on its way back.
    original, answers = link.store, []

    async def deaf(*args: Any) -> int:
        answers.append(await original(*args))
        if len(answers) == 1:
            raise TimeoutError
        return int(answers[-1])

    monkeypatch.setattr(link, "store", deaf)
    second = await keys.put("k", b"2", revision=first)
    # The repetition finds its own write, by its bytes, and takes that for the confirmation.
    assert answers == [second]  # it was stored once, and asked for twice
    assert await keys.get("k") == Entry("k", b"2", second)
    # Somebody else's stale revision is still a conflict.
    with pytest.raises(Conflict):
        await keys.put("k", b"3", revision=first)
