"""Query execution: LRU cache, request coalescing, cross-request batching."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fathom.core.cache import LoadingCache
from fathom.domain.encoders.choose import Encoders
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.snapshot import Snapshot
from fathom.services.retrieval.serving.batching import Batcher

if TYPE_CHECKING:
    from fathom.services.retrieval.index.ranking import Ranked, RankOptions

# Average number of hits per cache entry, and bytes of one: long rankings leave room for fewer entries. Bytes of an
# entry without hits, its query and filter among them, as measured over 20,000 different ones.
HITS_PER_ENTRY, HIT_BYTES, ENTRY_BYTES = 10, 120, 1_100
Key = tuple[str, "RankOptions", str]


@dataclass(frozen=True)
class Job:
    """One query of one request."""

    snapshot: Snapshot
    query: str
    options: RankOptions


class QueryExecutor:
    """Executes queries, on the event loop; equal queries share a result while the snapshot is the same."""

    def __init__(self, config: Config, encoders: Encoders) -> None:
        self._encoders = encoders
        self._results = LoadingCache[Key, "Ranked"](
            max_entries=config.cache,
            max_bytes=(ENTRY_BYTES + HITS_PER_ENTRY * HIT_BYTES) * config.cache,
            size_of=lambda ranked: ENTRY_BYTES + HIT_BYTES * len(ranked),
        )
        self._words = Batcher("words", self._rank_words, config.batch, config.queue, threads=2)
        # One thread: encoder and index use all processors by themselves.
        self._vectors = Batcher("vectors", self._rank_vectors, config.batch, config.queue)

    @property
    def hits(self) -> int:
        """Return the number of queries answered from the cache."""
        return self._results.hits

    @property
    def join_count(self) -> int:
        """Return the number of queries that waited for the result of an equal one."""
        return self._results.joined

    @property
    def batchers(self) -> Mapping[str, Batcher[Job, Ranked]]:
        """Return the batchers by kind of work."""
        return {"words": self._words, "vectors": self._vectors}

    @property
    def batches(self) -> tuple[int, int]:
        """Return the number of batches so far and of the queries in them."""
        return self._words.batches + self._vectors.batches, self._words.jobs + self._vectors.jobs

    async def rank(self, snapshot: Snapshot, query: str, options: RankOptions) -> Ranked:
        """Return positions and scores, best first."""
        batcher = self._words if options.ranking == "lexical" else self._vectors
        return await self._results.get((snapshot.id, options, query), lambda: batcher(Job(snapshot, query, options)))

    @staticmethod
    def _rank_words(jobs: Sequence[Job]) -> list[Ranked]:
        return [job.snapshot.index.rank([job.query], None, job.options)[0] for job in jobs]

    def _rank_vectors(self, jobs: Sequence[Job]) -> list[Ranked]:
        """Encode and rank jobs grouped by snapshot and options, from any requests."""
        results: dict[int, Ranked] = {}
        groups: dict[tuple[str, RankOptions], list[int]] = defaultdict(list)
        for number, job in enumerate(jobs):
            # One encoding and one search for all jobs that differ only in the query.
            groups[job.snapshot.id, job.options].append(number)
        for (_, options), numbers in groups.items():
            snapshot = jobs[numbers[0]].snapshot
            queries = [jobs[number].query for number in numbers]
            vectors = self._encoders(snapshot.encoder).encode(queries, "query")
            results.update(zip(numbers, snapshot.index.rank(queries, vectors, options), strict=True))
        return [results[number] for number in range(len(jobs))]

    async def close(self) -> None:
        """Cancel running queries."""
        await self._results.close()
        await self._words.close()
        await self._vectors.close()
