"""Query execution: LRU cache, request coalescing, cross-request batching."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fathom.encoders.choose import Encoders
from services.retrieval.batching import Batcher
from services.retrieval.config import Config
from services.retrieval.snapshot import Snapshot

if TYPE_CHECKING:
    from services.retrieval.ranking import Ask, Ranked

HITS_PER_ENTRY = 10
"""Average number of hits per cache entry; long rankings leave room for fewer entries."""
Key = tuple[str, "Ask", str]


@dataclass(frozen=True)
class Job:
    """One query of one request."""

    snapshot: Snapshot
    query: str
    ask: Ask


class Searching:
    """Executes queries, on the event loop. ``hits`` and ``joined`` count queries that were not computed."""

    def __init__(self, config: Config, encoders: Encoders) -> None:
        self._encoders, self._capacity = encoders, config.cache
        self._cache: OrderedDict[Key, Ranked] = OrderedDict()
        self._running: dict[Key, asyncio.Future[Ranked]] = {}
        self._words = Batcher("words", self._rank_words, config.batch, config.queue, threads=2)
        # One thread: encoder and index use all processors by themselves.
        self._vectors = Batcher("vectors", self._rank_vectors, config.batch, config.queue)
        self._held = 0
        self.hits = self.joined = 0

    @property
    def batchers(self) -> Mapping[str, Batcher[Job, Ranked]]:
        """Batchers by kind of work."""
        return {"words": self._words, "vectors": self._vectors}

    @property
    def batches(self) -> tuple[int, int]:
        """Number of batches so far and of the queries in them."""
        return self._words.batches + self._vectors.batches, self._words.jobs + self._vectors.jobs

    async def rank(self, snapshot: Snapshot, query: str, ask: Ask) -> Ranked:
        """Return positions and scores, best first; equal queries share a result while the snapshot is the same."""
        key = (snapshot.id, ask, query)
        if (known := self._cache.get(key)) is not None:
            self.hits += 1
            self._cache.move_to_end(key)
            return known
        running = self._running.get(key)
        if running is None:
            running = asyncio.ensure_future(self._computed(key, Job(snapshot, query, ask)))
            self._running[key] = running
            running.add_done_callback(lambda done: self._done(key, done))
        else:
            self.joined += 1
        # Shielded: one caller that goes away must not take the result from the others.
        return await asyncio.shield(running)

    async def _computed(self, key: Key, job: Job) -> Ranked:
        batcher = self._words if job.ask.ranking == "lexical" else self._vectors
        ranked = await batcher(job)
        if self._capacity:
            self._cache[key] = ranked
            self._held += len(ranked)
            while len(self._cache) > self._capacity or self._held > HITS_PER_ENTRY * self._capacity:
                self._held -= len(self._cache.popitem(last=False)[1])
        return ranked

    def _done(self, key: Key, done: asyncio.Future[Ranked]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # nobody may be waiting any more

    @staticmethod
    def _rank_words(jobs: Sequence[Job]) -> list[Ranked]:
        return [job.snapshot.arms.rank([job.query], None, job.ask)[0] for job in jobs]

    def _rank_vectors(self, jobs: Sequence[Job]) -> list[Ranked]:
        """Encode and rank jobs grouped by snapshot and options, from any requests."""
        results: dict[int, Ranked] = {}
        groups: dict[tuple[str, Ask], list[int]] = defaultdict(list)
        for number, job in enumerate(jobs):
            groups[job.snapshot.id, job.ask].append(number)
        for (_, ask), numbers in groups.items():
            snapshot = jobs[numbers[0]].snapshot
            queries = [jobs[number].query for number in numbers]
            vectors = self._encoders(snapshot.encoder).encode(queries, "query")
            results.update(zip(numbers, snapshot.arms.rank(queries, vectors, ask), strict=True))
        return [results[number] for number in range(len(jobs))]

    async def close(self) -> None:
        """Cancel running queries."""
        for running in list(self._running.values()):
            running.cancel()
        await self._words.close()
        await self._vectors.close()
