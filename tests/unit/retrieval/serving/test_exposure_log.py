"""Test what a run has seen: shared by replicas, kept over restarts, bounded, and never forgotten in a race."""

from __future__ import annotations

import asyncio

import pytest

from fathom.core.errors import CorruptData, NotFound, NotReady
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.documents.model import hash64
from fathom.services.retrieval.engine import Engine, Page
from fathom.services.retrieval.serving import exposure_log as seen
from fathom.services.retrieval.serving.exposure_log import MAX_SEEN, ExposureLog
from fathom.transport.bus.keys import MAX_VALUE_BYTES, MemoryKeyValue
from fathom.transport.bus.streams import SEEN, Bucket, topology
from fathom.transport.store.memory import MemoryStore
from tests.unit.retrieval.conftest import ROWS, Write


class Counted(MemoryKeyValue):
    """A bucket that counts what is written, and may be away."""

    puts, away = 0, False

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        if self.away:
            raise NotReady("the bus does not confirm")
        await asyncio.sleep(0)  # others come in between, as over a network
        self.puts += 1
        return await super().put(key, value, revision=revision)


def bucket() -> Counted:
    return Counted(topology().bucket(SEEN))


async def has(seen: ExposureLog, run: str, ident: str) -> bool:
    return hash64(ident) in await seen.list_seen(run, [ident])


async def test_replicas_share_it_and_a_restart_keeps_it() -> None:
    keys = bucket()
    first, second = ExposureLog(keys), ExposureLog(keys)
    await first.record("run_1", ["a", "b"])
    assert await has(second, "run_1", "a")
    await second.record("run_1", ["c"])
    assert await has(first, "run_1", "c"), "what is not known here is asked for anew"
    restarted = ExposureLog(keys)
    # A run knows its own three and nothing more.
    assert [await has(restarted, "run_1", ident) for ident in "abcd"] == [True, True, True, False]
    assert not await has(restarted, "run_2", "a")


async def test_replicas_that_write_at_once_lose_nothing() -> None:
    keys = bucket()
    replicas = [ExposureLog(keys) for _ in range(4)]
    ids = [f"d{number}" for number in range(80)]
    # Twenty ids each by four replicas, of which every write meets another's.
    await asyncio.gather(*(replicas[at % 4].record("run", [ident]) for at, ident in enumerate(ids)))
    fresh = ExposureLog(keys)
    assert all([await has(fresh, "run", ident) for ident in ids])


async def test_what_is_known_costs_no_write() -> None:
    keys = bucket()
    one = ExposureLog(keys)
    for _ in range(5):
        await one.record("run", ["a", "b"])
        await one.record("run", [])
    # Written once; then everything is known.
    assert keys.puts == 1


async def test_a_run_and_the_bucket_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = bucket()
    one = ExposureLog(keys)
    await one.record("run", [f"d{number}" for number in range(MAX_SEEN + 10)])
    # The first ten were dropped, the eleventh is the oldest that is left.
    assert [await has(one, "run", ident) for ident in ("d9", "d10", f"d{MAX_SEEN + 9}")] == [False, True, True]
    (entry,) = [await keys.get(key) for key in await keys.keys()]
    assert entry is not None
    assert len(entry.value or b"") <= MAX_VALUE_BYTES
    for bound, value in (("MAX_RUNS", 2), ("MAX_BYTES", 2 * (seen.BYTES_PER_RUN + seen.BYTES_PER_KEY))):
        monkeypatch.undo()
        monkeypatch.setattr(seen, bound, value)
        held = ExposureLog(keys)
        for number in range(4):
            await held.record(f"run_{number}", ["a"])
        assert len(held._runs) == 2, bound
        assert await has(held, "run_0", "a"), "what the process forgets, the bucket knows"
    few = ExposureLog(MemoryKeyValue(Bucket("FEW", history=1, max_values=2)))
    for number in range(4):
        await few.record(f"run_{number}", ["a"])
    # The last two of four.
    assert [await has(few, f"run_{number}", "a") for number in range(4)] == [False, False, True, True]


async def test_values_end_when_they_are_old() -> None:
    now = 0.0
    keys = MemoryKeyValue(Bucket("SHORT", history=1, max_age_s=60), lambda: now)
    one = ExposureLog(keys)
    await one.record("run", ["a"])
    assert await has(ExposureLog(keys), "run", "a")
    now = 61.0
    assert not await has(ExposureLog(keys), "run", "a")
    await one.record("run", ["b"])
    assert [await has(ExposureLog(keys), "run", ident) for ident in "ab"] == [True, True], (
        # The log had the old ids in memory and writes them again with the new one.
        "a run that goes on loses nothing"
    )


async def test_a_search_that_cannot_be_noted_is_not_answered() -> None:
    keys = bucket()
    keys.away = True
    with pytest.raises(NotReady):
        await ExposureLog(keys).record("run", ["a"])
    keys.away = False
    # Three bytes where keys of eight belong.
    await keys.put(seen.make_key("run"), b"odd")
    with pytest.raises(CorruptData):
        await has(ExposureLog(keys), "run", "a")


async def test_two_engines_and_a_third_after_them(write_bundle: Write) -> None:
    config, keys = Config(corpus_dir=write_bundle(ROWS)), bucket()
    engines = [Engine(config, MemoryStore(), seen=keys) for _ in range(3)]
    for engine in engines[:2]:
        await engine.start()
    await engines[0].search(["利率"], run="run_1")
    for at in (0, 1, 2):
        if at == 2:
            await engines[0].close()
            await engines[1].close()
            await engines[2].start()
        # Shown by the first engine, read from the second, and from a third when both are gone.
        _, (mine, unseen) = await engines[at].fetch(["zh", "old"], seen_by="run_1")
        assert isinstance(mine, Page)
        assert isinstance(unseen, NotFound)
        assert set(unseen.nearest) <= {"zh"}
    await engines[2].close()
