"""Exact and approximate search over unit vectors with FAISS; one code path with and without a GPU.

faiss and numpy are an extra: imported when a corpus has vectors. A corpus has one index or, once it has grown, several
(``dense_segments``).
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

import faiss
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fathom.core.errors import CorruptData, InvalidField

# Maximum size at which ``auto`` is exact: a flat scan of 200,000 vectors takes tens of milliseconds per batch.
FLAT_LIMIT = 200_000
# A filter that leaves fewer documents is searched exactly, by gathering their vectors.
GATHERED_LIMIT = 20_000
# Batches of at least this size are matrix products. Measured for 100,000 vectors of 384 on two cores: 8 queries cost
# the same either way, 32 a quarter; FAISS' own threshold would scan up to 333 one by one.
BLAS_FROM_QUERIES = 8
# Vectors whose scores are held at once (8 MB for 256 queries), and those multiplied at once, which stay in a cache.
SCANNED, COPIED = 8_192, 512
# Minimum number of vectors per worker; with fewer, fewer workers are used.
LEAST_ROWS = 8_192
# Above FAISS' defaults for building and searching (40 and 16): here recall counts more than time.
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 32, 80, 128
# k-means in FAISS warns below 39 vectors per list.
TRAINING_PER_LIST = 40
# Least number of vectors, evenly over the corpus, by which the spread of inner products is estimated.
SAMPLED = 1_000
# Vectors copied at once from a memory map: 100 MB at 384 dimensions.
CHUNK = 65_536

IndexKind = Literal["flat", "ivf", "hnsw", "fp16", "sq8"]
# Vectors scanned one by one, in half or in a quarter of the memory of "flat".
QUANTISED = {"fp16": faiss.ScalarQuantizer.QT_fp16, "sq8": faiss.ScalarQuantizer.QT_8bit}
Vectors = NDArray[np.float32]


def choose_kind(kind: str, count: int) -> IndexKind:
    """Resolve ``auto`` by the number of vectors; raise ``InvalidField("index")`` for an unknown kind."""
    if kind == "auto":
        return "flat" if count <= FLAT_LIMIT else "ivf"
    if kind in get_args(IndexKind):
        return kind  # type: ignore[return-value]
    raise InvalidField("index", f"no index {kind!r}; known: auto, {', '.join(get_args(IndexKind))}")


def write_index(vectors: Vectors, kind: IndexKind, path: Path, base: DenseIndex | None = None) -> None:
    """Write the index of ``vectors`` [documents, dim]; they are read in chunks, so they may be memory-mapped.

    ``base`` is the index that some of them come from: they are quantised as there, so that they stay what they are.
    """
    count, dim = vectors.shape
    index = make_empty(kind, count, dim)
    if base is not None and base.copy_ranges(index):
        pass
    elif kind in ("ivf", "sq8"):
        wanted = min(count, index.nlist * TRAINING_PER_LIST if kind == "ivf" else CHUNK)
        # A fixed seed, so that equal vectors give the same index; sorted, so that a memory map is read forwards.
        sample = np.sort(np.random.default_rng(0).choice(count, wanted, replace=False))
        index.train(np.ascontiguousarray(vectors[sample]))
    for start in range(0, count, CHUNK):
        index.add(np.ascontiguousarray(vectors[start : start + CHUNK]))
    faiss.write_index(index, str(path))


def make_empty(kind: IndexKind, count: int, dim: int) -> Any:
    """Return an index without vectors. IVF has 4·√count lists, as FAISS' guidelines recommend."""
    if kind == "flat":
        return faiss.IndexFlatIP(dim)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = HNSW_BUILD
        return index
    if kind in QUANTISED:
        return faiss.IndexScalarQuantizer(dim, QUANTISED[kind], faiss.METRIC_INNER_PRODUCT)
    lists = max(1, min(4 * int(math.sqrt(count)), count // TRAINING_PER_LIST or 1))
    return faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)


class DenseIndex:
    """Search over one index; read-only after construction, so thread-safe."""

    def __init__(self, index: Any, key: str, threads: int = 0) -> None:
        self._index, self._key = index, key
        self.dim, self.count = int(index.d), int(index.ntotal)
        self._lists = int(getattr(index, "nlist", 0))
        self._hnsw = hasattr(index, "hnsw")
        if self._lists:
            # IVF stores vectors by list; reconstructing one by position needs the map.
            index.make_direct_map()
        self._gpu = copy_to_gpu(index)
        threads = threads or len(os.sched_getaffinity(0))
        faiss.omp_set_num_threads(threads)
        self._is_quantised = isinstance(index, faiss.IndexScalarQuantizer)
        self._scan = None if self._lists or self._hnsw or self._is_quantised else Scan(index, threads)
        # A global of the library: it holds for all indexes of this process.
        faiss.cvar.distance_compute_blas_threshold = BLAS_FROM_QUERIES * self.dim

    def copy_ranges(self, index: Any) -> bool:
        """Give an empty index the ranges of this one's quantiser; return whether both are quantised alike."""
        if not self._is_quantised or getattr(getattr(index, "sq", None), "qtype", None) != self._index.sq.qtype:
            return False
        index.sq, index.is_trained = self._index.sq, True
        return True

    @classmethod
    def load(cls, path: Path, count: int, dim: int, threads: int = 0) -> DenseIndex:
        """Open an index memory-mapped; ``threads`` 0 uses all processors, for all indexes of the process.

        Raises ``CorruptData`` naming the file when it is not the expected one.
        """
        try:
            # Memory-mapped: replicas on one machine share the pages, and opening takes no time.
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise CorruptData(str(path), str(error).splitlines()[-1]) from error
        if index.d != dim or index.ntotal != count:
            raise CorruptData(
                str(path), f"holds {index.ntotal:,} vectors of dimension {index.d}, not {count:,} of {dim}"
            )
        return cls(index, str(path), threads)

    def search(
        self, queries: Vectors, count: int, mask: NDArray[np.bool_] | None = None
    ) -> list[tuple[NDArray[np.int64], Vectors]]:
        """Return per query [queries, dim] positions and inner products of at most ``count`` documents, best first.

        ``mask`` [documents] restricts the candidates before ranking. Ties keep corpus order. Raises ``CorruptData``
        when the queries have another dimension than the index.
        """
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise CorruptData(self._key, f"has dimension {self.dim}, queries have {queries.shape[-1]}")
        count = min(count, self.count)
        # IVF and HNSW skip what the mask forbids while they walk, and find too little behind a narrow filter.
        if mask is not None and (allowed := int(mask.sum())) <= GATHERED_LIMIT:
            return self._search_gathered(queries, count, np.flatnonzero(mask), allowed)
        if mask is None and self._gpu is None and self._scan is not None:
            return self._scan(queries, count)
        index = self._gpu if self._gpu is not None and mask is None else self._index
        scores, found = index.search(queries, count, params=self._make_parameters(mask, count))
        # FAISS fills missing results with -1.
        return [sort_best_first(ids[ids >= 0], row[ids >= 0]) for ids, row in zip(found, scores, strict=True)]

    def _search_gathered(
        self, queries: Vectors, count: int, positions: NDArray[np.intp], allowed: int
    ) -> list[tuple[NDArray[np.int64], Vectors]]:
        """Search exactly among a few documents."""
        if not allowed:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        scores = queries @ self.get_vectors(positions).T
        return [tuple(part[:count] for part in sort_best_first(positions, row)) for row in scores]  # type: ignore[misc]

    def _make_parameters(self, mask: NDArray[np.bool_] | None, count: int) -> Any:
        options: dict[str, Any] = {}
        if mask is not None:
            # FAISS reads the bits of a byte from the lowest on.
            options["sel"] = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if self._lists:
            # A thirty-second of the lists, at least eight: near the exact result at a fraction of a full scan.
            return faiss.SearchParametersIVF(nprobe=max(8, self._lists // 32), **options)
        if self._hnsw:
            # The search list must be longer than the result, or its end is random.
            return faiss.SearchParametersHNSW(efSearch=max(HNSW_SEARCH, 2 * count), **options)
        return faiss.SearchParameters(**options) if options else None

    def get_vectors(self, positions: NDArray[Any]) -> Vectors:
        """Return the vectors of documents [positions, dim]."""
        found: Vectors = self._index.reconstruct_batch(np.ascontiguousarray(positions, dtype=np.int64))
        return found


class Scan:
    """Flat index scanned by several workers, each its own part of the vectors with one thread.

    FAISS divides queries, not vectors, among its threads, so that a single query would leave all processors but one
    idle; and the linear algebra that its package brings does not know processors of the last years. NumPy's does: 32
    queries at once cost a third of the processor time.
    """

    def __init__(self, index: Any, threads: int) -> None:
        """Scan the vectors of ``index``; sets NumPy's BLAS to one thread for the whole process."""
        rows, self._index = int(index.ntotal), index  # the vectors live as long as the index does
        self._vectors = faiss.rev_swig_ptr(index.get_xb(), rows * index.d).reshape(rows, index.d)
        parts = max(1, min(threads, rows // LEAST_ROWS))
        self._bounds = [rows * at // parts for at in range(parts + 1)]
        # One OpenMP thread per worker: each would otherwise open a pool of its own, and so would NumPy's BLAS.
        self._pool = ThreadPoolExecutor(
            parts, thread_name_prefix="scan", initializer=faiss.omp_set_num_threads, initargs=(1,)
        )
        threadpool_limits(1, user_api="blas")

    def __call__(self, queries: Vectors, count: int) -> list[tuple[NDArray[np.int64], Vectors]]:
        """Return per query the ``count`` best of all vectors, best first, ties in corpus order."""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        scan = self._scan_for_one if len(queries) == 1 else self._scan_for_many
        best = Best(len(queries), count)
        for part in self._pool.map(lambda at: scan(queries, count, *self._bounds[at : at + 2]), range(self._parts)):
            best.take(part.queries, part.positions, part.scores)
        ends = np.searchsorted(best.queries, np.arange(1, len(queries)))
        return list(zip(np.split(best.positions, ends), np.split(best.scores, ends), strict=True))

    @property
    def _parts(self) -> int:
        return len(self._bounds) - 1

    def _scan_for_one(self, queries: Vectors, count: int, first: int, last: int) -> Best:
        # FAISS reads the vectors where they are: for a lone query that counts more than how fast it multiplies.
        best, wanted = Best(1, count), min(count, last - first)
        scores, found = faiss.knn(queries, self._vectors[first:last], wanted, faiss.METRIC_INNER_PRODUCT)
        best.take(np.zeros(wanted, np.int64), found[0] + first, scores[0])
        return best

    def _scan_for_many(self, queries: Vectors, count: int, first: int, last: int) -> Best:
        # A column per query: with the vectors as the left side of the product, few queries cost little.
        columns = np.ascontiguousarray(queries.T)
        # In the file the vectors stand at no multiple of four bytes; NumPy would copy them into new memory each time.
        copied = np.empty((COPIED, queries.shape[1]), np.float32)
        scores = np.empty((min(SCANNED, last - first), len(queries)), np.float32)
        best = Best(len(queries), count)
        for start in range(first, last, SCANNED):
            held = scores[: min(SCANNED, last - start)]
            for at in range(0, len(held), COPIED):
                rows = copied[: min(COPIED, len(held) - at)]
                np.copyto(rows, self._vectors[start + at : start + at + len(rows)])
                np.matmul(rows, columns, out=held[at : at + len(rows)])
            best.add(held, start)
        return best


class Best:
    """The best of what was scanned so far: per query in order, best first, ties in corpus order."""

    def __init__(self, queries: int, count: int) -> None:
        self._number, self._count = queries, count
        self.queries, self.positions = np.empty(0, np.int64), np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)
        self._floor: Vectors | None = None  # the score of the last one of each query, once there are enough

    def add(self, scores: Vectors, start: int) -> None:
        """Take the scores [documents, queries] of documents that follow those so far, the first one at ``start``."""
        if self._floor is None and len(scores) > self._count:
            # Most are out at once: sorting all of them would take longer than their product.
            least = len(scores) - self._count
            rows, queries = np.nonzero(scores >= np.partition(scores.T, least, axis=1)[:, least])
        elif self._floor is None:
            rows, queries = (at.ravel() for at in np.indices(scores.shape))
        else:
            # Not those that are equal: the earlier documents win.
            rows, queries = np.nonzero(scores > self._floor)
        if len(rows):
            self.take(queries, rows + start, scores[rows, queries])

    def take(self, queries: NDArray[np.int64], positions: NDArray[np.int64], scores: Vectors) -> None:
        """Keep the best of those so far and of these, given as columns."""
        queries = np.concatenate((self.queries, queries))
        positions, scores = np.concatenate((self.positions, positions)), np.concatenate((self.scores, scores))
        order = np.lexsort((positions, -scores, queries))
        queries = queries[order]
        places = np.arange(len(order)) - np.searchsorted(queries, np.arange(self._number))[queries]
        within = places < self._count
        self.queries, self.positions, self.scores = queries[within], positions[order][within], scores[order][within]
        if len(self.queries) == self._number * self._count:
            self._floor = self.scores[self._count - 1 :: self._count]


def sort_best_first(positions: NDArray[Any], scores: Vectors) -> tuple[NDArray[np.int64], Vectors]:
    """Sort best first, ties in corpus order."""
    order = np.lexsort((positions, -scores))
    return positions[order].astype(np.int64), scores[order]


def copy_to_gpu(index: Any) -> Any:
    """Return a copy on the first GPU if this FAISS supports it for the index, else None."""
    # The package for processors lacks GPU classes; HNSW and quantised scans have no GPU version.
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        return None
    if hasattr(index, "hnsw") or isinstance(index, faiss.IndexScalarQuantizer):
        return None
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
