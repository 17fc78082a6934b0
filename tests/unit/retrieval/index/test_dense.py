"""Vectors: exact search, filters before ranking, kinds of index, wrong dimensions, hybrid ranking, batching."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from fathom.core import errors
from fathom.domain.encoders.base import Kind, check_vectors
from fathom.domain.encoders.transformer import batches, style_of
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.snapshot import open_snapshot
from fathom.services.retrieval.documents.model import Filter, parse_document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.index import dense
from fathom.services.retrieval.index.dense_segments import DenseSegments
from fathom.services.retrieval.metrics import register
from fathom.services.retrieval.serving.batching import Batcher
from fathom.transport.store.memory import MemoryStore
from tests.support.letters import DIM, Letters
from tests.support.waiting import eventually
from tests.unit.retrieval.corpus.test_snapshots import ingest, items


def unit(count: int, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_every_kind_finds_what_is_there(tmp_path: Path, kind: dense.IndexKind) -> None:
    vectors = unit(2_000)
    dense.write_index(vectors, kind, tmp_path / "i")
    index = dense.DenseIndex.load(tmp_path / "i", 2_000, DIM)
    # A vector's nearest is itself; approximate kinds may miss one of fifty.
    found = index.search(vectors[:50], 10)
    assert np.mean([row[0][0] == at for at, row in enumerate(found)]) >= 0.98
    assert all((np.diff(scores) <= 0).all() and (positions >= 0).all() for positions, scores in found)
    np.testing.assert_allclose(index.get_vectors(np.array([7, 3])), vectors[[7, 3]], rtol=1e-6)
    np.testing.assert_allclose(
        np.concatenate(list(DenseSegments([index], DIM).iter_chunks(0, 2_000, 900))), vectors, rtol=1e-6
    )


@pytest.mark.parametrize(("kind", "share", "off"), [("fp16", 0.5, 5e-4), ("sq8", 0.25, 5e-3)])
def test_quantised_kinds_take_less_and_find_the_same(
    tmp_path: Path, kind: dense.IndexKind, share: float, off: float
) -> None:
    vectors, queries = unit(3_000), unit(20, 1)
    for each in ("flat", kind):
        dense.write_index(vectors, each, tmp_path / each)
    flat, index = (dense.DenseIndex.load(tmp_path / each, 3_000, DIM) for each in ("flat", kind))
    assert (tmp_path / kind).stat().st_size < (share + 0.05) * (tmp_path / "flat").stat().st_size
    mask = np.random.default_rng(2).random(3_000) < 0.5
    for wanted in (None, mask):
        pairs = zip(index.search(queries, 10, wanted), flat.search(queries, 10, wanted), strict=True)
        same = [len(set(mine.tolist()) & set(exact.tolist())) for (mine, _), (exact, _) in pairs]
        assert np.mean(same) >= 9
    np.testing.assert_allclose(index.get_vectors(np.array([7, 3])), vectors[[7, 3]], atol=off)


def test_quantised_vectors_stay_what_they_are_when_others_are_added(tmp_path: Path) -> None:
    first, other = unit(500), 3 * unit(500, 1)
    dense.write_index(first, "sq8", tmp_path / "0")
    index = before = dense.DenseIndex.load(tmp_path / "0", 500, DIM)
    for turn in range(1, 6):
        vectors = np.concatenate([index.get_vectors(np.arange(500 * turn)), other])
        dense.write_index(vectors, "sq8", tmp_path / str(turn), index)
        index = dense.DenseIndex.load(tmp_path / str(turn), 500 * (turn + 1), DIM)
    np.testing.assert_array_equal(index.get_vectors(np.arange(500)), before.get_vectors(np.arange(500)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 9), st.booleans())
def test_flat_equals_a_sorted_matrix_product(tmp_path: Path, count: int, top: int, seed: int, masked: bool) -> None:
    vectors, queries = unit(count, seed), unit(17, seed + 1)
    dense.write_index(vectors, "flat", tmp_path / "i")
    index = dense.DenseIndex.load(tmp_path / "i", count, DIM)
    mask = np.random.default_rng(seed).random(count) < 0.5 if masked else None
    scores = queries @ vectors.T
    # The witness: all scores in one product, sorted.
    if mask is not None:
        scores[:, ~mask] = -np.inf
    for row, (positions, found) in enumerate(index.search(queries, top, mask)):
        expected = [at for at in np.argsort(-scores[row], kind="stable")[:top] if np.isfinite(scores[row, at])]
        assert positions.tolist() == expected
        np.testing.assert_allclose(found, scores[row, expected], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_a_large_filter_holds_before_ranking(
    tmp_path: Path, kind: dense.IndexKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten in place of thousands, so that the filter is applied during the search and not by gathering its rows.
    monkeypatch.setattr(dense, "GATHERED_LIMIT", 10)
    vectors = unit(1_000)
    dense.write_index(vectors, kind, tmp_path / "i")
    index = dense.DenseIndex.load(tmp_path / "i", 1_000, DIM)
    # A third of the vectors, all over the index.
    mask = np.arange(1_000) % 3 == 0
    for positions, _ in index.search(vectors[:20], 10, mask):
        assert len(positions) == 10
        assert (positions % 3 == 0).all()


def test_auto_goes_by_size_and_an_unknown_kind_is_refused() -> None:
    # The limit itself is still flat.
    assert [dense.choose_kind("auto", n) for n in (10, dense.FLAT_LIMIT, dense.FLAT_LIMIT + 1)] == [
        "flat",
        "flat",
        "ivf",
    ]
    with pytest.raises(errors.InvalidField, match="index"):
        dense.choose_kind("tree", 1)


def test_wrong_dimensions_and_truncated_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "i"
    dense.write_index(unit(100), "flat", path)
    with pytest.raises(errors.CorruptData, match=r"dimension 32, not 100 of 8"):
        dense.DenseIndex.load(path, 100, 8)
    with pytest.raises(errors.CorruptData, match="not 99"):
        dense.DenseIndex.load(path, 99, DIM)
    with pytest.raises(errors.CorruptData, match=r"dimension 32, queries have 8"):
        dense.DenseIndex.load(path, 100, DIM).search(np.ones((1, 8), np.float32), 3)
    # Cut within the header, within the first vectors and before the last one.
    for cut in (4, 200, path.stat().st_size - 4):
        (tmp_path / "cut").write_bytes(path.read_bytes()[:cut])
        with pytest.raises(errors.CorruptData, match="cut"):
            dense.DenseIndex.load(tmp_path / "cut", 100, DIM)
    for wrong in (np.ones((2, 3), np.float32), np.full((2, DIM), np.nan, np.float32)):
        with pytest.raises(errors.CorruptData, match="letters"):
            check_vectors(wrong, 2, DIM, "letters")


def corpus() -> list[dict[str, object]]:
    words = ["gold", "silver", "copper", "zinc", "nickel"]
    return [
        # "report" and "tonnes" are everywhere, the metals are rare: words and vectors then disagree.
        {"id": f"{word}-{n}", "text": f"{word} report {n} {'tonnes ' * n}", "published": f"20{10 + n}-01-01"}
        for n in range(6)
        for word in words
    ]


async def open_engine(folder: Path, encoder: Letters, cache: int = 0, **recipe: object) -> Engine:
    made = Recipe.model_validate({"encoder": "letters", **recipe})
    config = Config(corpus_dir=None, corpus_name="main", index_dir=folder, recipe=made, cache=cache)
    engine = Engine(config, MemoryStore())
    engine.encoders.add(encoder)
    await engine.start()
    return engine


async def names(engine: Engine, query: str, ranking: str = "", allowed: Filter | None = None) -> list[str]:
    found = await engine.rank([query], 5, allowed or Filter(), ranking=ranking)
    (result,) = found.results
    assert not isinstance(result, errors.FathomError), result
    return [document.id for document, _ in result]


async def test_three_rankings_of_one_corpus(tmp_path: Path) -> None:
    encoder = Letters()
    engine = await open_engine(tmp_path, encoder)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    assert await names(engine, "gold report 1", "lexical") != await names(engine, "gold report 1", "dense")
    assert await names(engine, "gold report 1") == await names(engine, "gold report 1", "hybrid")
    assert (await names(engine, "gold report 1"))[0] == "gold-1"
    assert await names(engine, "qqqq", "lexical") == []
    assert len(await names(engine, "qqqq", "hybrid")) == 5, "vectors always have nearest ones"
    # Both rankings must filter before they rank, or fewer than five would be left.
    early = Filter(as_of=datetime(2011, 6, 1, tzinfo=UTC))
    for ranking in ("lexical", "dense", "hybrid"):
        assert all(name[-1] in "01" for name in await names(engine, "zinc report 5", ranking, early))
        assert await names(engine, "zinc", ranking, Filter(as_of=datetime(2001, 1, 1, tzinfo=UTC))) == []
    await engine.close()


@pytest.mark.parametrize(("alpha", "like"), [(0.0, "lexical"), (1.0, "dense")])
async def test_the_ends_of_alpha_are_the_two_rankings(tmp_path: Path, alpha: float, like: str) -> None:
    engine = await open_engine(tmp_path, Letters(), alpha=alpha)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    for query in ("gold report 1", "silver tonnes", "nickel"):
        assert await names(engine, query, "hybrid") == await names(engine, query, like)
    await engine.close()


async def test_only_new_documents_are_encoded(tmp_path: Path) -> None:
    encoder = Letters()
    engine = await open_engine(tmp_path, encoder)
    rows = [parse_document(row) for row in corpus()]
    await ingest(engine, *rows[:20])
    second = await ingest(engine, *rows)
    # Thirty documents, of which twenty have their vectors already.
    assert [count for kind, count in encoder.encoded if kind == "passage"] == [20, 10]
    await engine.corpora.activate("main", second.snapshot)
    whole = await open_engine(tmp_path / "at once", Letters())
    await ingest(whole, *rows)
    for query in ("gold report 1", "zinc tonnes"):
        assert await names(engine, query) == await names(whole, query)
    await engine.close()
    await whole.close()


async def test_a_truncated_index_is_named(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path, Letters())
    made = await ingest(engine, *(parse_document(row) for row in corpus()))
    (path,) = (tmp_path / "main" / made.snapshot).glob("vectors-*.faiss")
    # Ten bytes less than a whole vector.
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(errors.CorruptData, match=r"vectors-.*truncated"):
        open_snapshot(path.parent)
    await engine.close()


async def test_an_encoder_of_another_dimension_is_refused(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path, Letters())
    await ingest(engine, *(parse_document(row) for row in corpus()))
    engine.encoders.add(Letters(dim=8))
    with pytest.raises(errors.CorruptData, match="dimension 32, queries have 8"):
        await engine.rank(["gold"])
    # The encoder is wrong, the words are not.
    assert await names(engine, "gold", "lexical"), "words still rank"
    await engine.close()


async def test_vectors_that_are_none_are_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    class Broken(Letters):
        def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
            return np.full((len(texts), self.dim), np.nan, dtype=np.float32)

    engine = await open_engine(tmp_path, Broken())
    with pytest.raises(errors.CorruptData, match="not finite"):
        await ingest(engine, parse_document({"text": "x"}))
    assert engine.corpora.list_names() == []
    await engine.close()


async def test_an_unknown_encoder_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    config = Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path, recipe=Recipe(encoder="no such"))
    engine = Engine(config, MemoryStore())
    await engine.start()
    with pytest.raises(errors.InvalidField, match="no such"):
        await engine.ingest("main", items(parse_document({"text": "x"})))
    assert engine.corpora.list_names() == []
    await engine.close()


async def test_queries_of_different_requests_are_encoded_together(tmp_path: Path) -> None:
    encoder = Letters()
    engine = await open_engine(tmp_path, encoder)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    encoder.encoded.clear()
    encoder.gate.clear()
    first = asyncio.create_task(names(engine, "gold"))
    await eventually(lambda: engine.executor.batches[0] > 0)
    rest = [asyncio.create_task(names(engine, f"copper {n}")) for n in range(30)]
    same = [asyncio.create_task(names(engine, "copper 1")) for _ in range(5)]
    await eventually(lambda: engine.executor.join_count >= 5)
    # The first query is being encoded; the others gather behind it.
    encoder.gate.set()
    await first
    answers = await asyncio.gather(*rest, *same)
    # The first alone, then thirty different ones of thirty-five.
    assert encoder.encoded == [("query", 1), ("query", 30)], "35 requests, 30 different queries, one batch"
    assert all(answer == answers[1] for answer in answers[30:])
    await engine.close()


async def test_a_batch_gives_what_single_queries_give(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path, Letters(), cache=100)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    queries = [f"{word} report {n}" for n in range(6) for word in ("gold", "zinc", "tin")]
    together = await engine.rank(queries, 5)
    for query, result in zip(queries, together.results, strict=True):
        assert not isinstance(result, errors.FathomError)
        assert await names(engine, query) == [document.id for document, _ in result]
    assert engine.executor.hits == len(queries)
    await engine.close()


async def test_the_cache_is_bounded_by_entries_and_by_hits(tmp_path: Path) -> None:
    encoder = Letters()
    engine = await open_engine(tmp_path, encoder, cache=3)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    for query in ("a", "b", "c", "d"):
        await engine.rank([query], 2)
    encoder.encoded.clear()
    await engine.rank(["d"], 2)
    assert encoder.encoded == [], "the newest is kept"
    await engine.rank(["a"], 2)
    assert encoder.encoded == [("query", 1)], "the oldest is not"
    for query in ("e", "f"):
        await engine.rank([query], 30)
    encoder.encoded.clear()
    await engine.rank(["e"], 30)
    # The bound is on results held: three rankings of ten.
    assert encoder.encoded == [("query", 1)], "two rankings of 30 are more than 3 of 10"
    await engine.close()


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(tmp_path: Path) -> None:
    encoder = Letters()
    engine = await open_engine(tmp_path, encoder)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    encoder.gate.clear()
    leaving, staying = (asyncio.create_task(names(engine, "gold")) for _ in range(2))
    await eventually(lambda: engine.executor.join_count >= 1)
    leaving.cancel()
    encoder.gate.set()
    assert await staying
    await engine.close()


async def test_queues_and_batches_are_among_the_metrics(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path, Letters(), cache=10)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    registry = CollectorRegistry()
    register(registry, engine.executor, lambda: engine.failed_rounds)
    for ranking in ("lexical", "dense", "dense"):
        await names(engine, "gold", ranking)
    labels = ({"work": "words"}, {"work": "vectors"})
    for name, wanted in (("batched_queries_total", [1, 1]), ("waiting", [0, 0]), ("refused_total", [0, 0])):
        assert [registry.get_sample_value(f"fathom_retrieval_{name}", label) for label in labels] == wanted
    # The second dense query was answered from the cache.
    assert registry.get_sample_value("fathom_retrieval_cached_total") == 1
    assert registry.get_sample_value("fathom_retrieval_failed_rounds_total") == 0
    await engine.close()


async def test_a_full_queue_is_said_and_a_failing_batch_fails_its_own() -> None:
    gate = threading.Event()

    def work(jobs: Sequence[int]) -> list[int]:
        gate.wait(10)
        if 13 in jobs:
            raise errors.DependencyFailed("encoder", "is away")
        return [job * 2 for job in jobs]

    batcher: Batcher[int, int] = Batcher("test", work, size=2, queue=3)
    running = [asyncio.create_task(batcher(job)) for job in (1, 2)]
    await eventually(lambda: batcher.batches > 0)
    waiting = [asyncio.create_task(batcher(job)) for job in (13, 14, 5)]
    # One turn: the three are queued, none has begun.
    await asyncio.sleep(0)
    with pytest.raises(errors.Overloaded) as full:
        # A sixth, where two run and three wait.
        await batcher(6)
    assert full.value.retry_after_s is not None
    gate.set()
    assert await asyncio.gather(*running) == [2, 4]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    # The failing job's batch held two; the third was in another.
    assert [type(outcome) for outcome in outcomes] == [errors.DependencyFailed, errors.DependencyFailed, int]
    await batcher.close()


async def test_nobody_is_forgotten_between_two_batches() -> None:
    """A job that comes in the very step in which the batcher ends must start it again."""
    batcher: Batcher[int, int] = Batcher("test", lambda jobs: list(jobs), size=64, queue=64)
    loop = asyncio.get_running_loop()
    for turns in range(12):
        assert await batcher(turns) == turns
        late: asyncio.Future[asyncio.Task[int]] = loop.create_future()

        def submit(left: int, late: asyncio.Future[asyncio.Task[int]] = late) -> None:
            if left:
                loop.call_soon(submit, left - 1)
            else:
                late.set_result(loop.create_task(batcher(7)))

        submit(turns)
        async with asyncio.timeout(10):
            assert await (await late) == 7
    await batcher.close()


@given(st.lists(st.integers(1, 600), max_size=60))
def test_batches_hold_every_text_once_and_are_bounded(lengths: list[int]) -> None:
    rows = [[0] * length for length in lengths]
    parts = list(batches(rows))
    assert sorted(at for part in parts for at in part) == list(range(len(rows)))
    assert all(len(part) * max(lengths[at] for at in part) <= 8_192 for part in parts)


@pytest.mark.parametrize(
    ("name", "query", "pooling"),
    [
        ("intfloat/e5-base-v2", "query: ", "mean"),
        ("/models/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", "first"),
        ("all-MiniLM-L6-v2", "", "mean"),
    ],
)
def test_prefixes_and_pooling_by_family(name: str, query: str, pooling: str) -> None:
    assert (style_of(name).query, style_of(name).pooling) == (query, pooling)


@pytest.mark.parametrize(("alpha", "like"), [(0.0, "lexical"), (0.5, "hybrid"), (1.0, "dense")])
async def test_a_search_that_names_no_ranking_gets_what_alpha_says(tmp_path: Path, alpha: float, like: str) -> None:
    engine = await open_engine(tmp_path, Letters(), alpha=alpha)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    unnamed, named = await engine.rank(["gold report 1"], 5), await engine.rank(["gold report 1"], 5, ranking=like)
    assert unnamed == named, "scores too: inner products where vectors alone rank"
    await engine.close()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_workers_that_share_a_flat_index_find_what_one_scan_finds(tmp_path: Path, threads: int) -> None:
    random = np.random.default_rng(1)
    vectors = random.standard_normal((40_001, 16), dtype=np.float32)
    # Three equal vectors far apart: each worker's share has one, and all must be found.
    vectors[[7, 20_000, 40_000]] = vectors[7]
    dense.write_index(vectors, "flat", tmp_path / "index")
    index = dense.DenseIndex.load(tmp_path / "index", len(vectors), 16, threads)
    for count in (1, 12):
        for row, (found, scores) in enumerate(index.search(vectors[:count], 5)):
            exact = vectors @ vectors[row]
            # Compared by score: the order among equal ones is nobody's promise.
            np.testing.assert_allclose(scores, np.sort(exact)[::-1][:5], rtol=1e-4)
            np.testing.assert_allclose(exact[found], scores, rtol=1e-4)
    few = dense.DenseIndex.load(tmp_path / "index", len(vectors), 16, threads).search(vectors[:2], 40_001)
    assert [len(set(found.tolist())) for found, _ in few] == [40_001, 40_001]


@pytest.mark.parametrize("queries", [1, 3, 40])
def test_equal_scores_stay_in_corpus_order_over_the_ends_of_what_is_scanned_at_once(queries: int) -> None:
    rows = dense.SCANNED * 2 + 10
    vectors = np.zeros((rows, DIM), np.float32)
    # One likeness around the end of the first block, a better one in the last, and nothing else.
    tied = [dense.SCANNED - 2, dense.SCANNED - 1, dense.SCANNED, dense.SCANNED + 1, rows - 1]
    vectors[tied, 0], vectors[rows - 2, 0] = 0.5, 1.0
    index = faiss.IndexFlatIP(DIM)
    index.add(vectors)
    asked = np.zeros((queries, DIM), np.float32)
    asked[:, 0] = 1.0
    for positions, scores in dense.Scan(index, 1)(asked, 5):
        assert positions.tolist() == [rows - 2, *tied[:4]]
        assert scores.tolist() == [1.0, 0.5, 0.5, 0.5, 0.5]


async def test_vectors_may_rank_alone(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path, Letters(), words=False)
    await ingest(engine, *(parse_document(row) for row in corpus()))
    assert await names(engine, "gold report 1") == await names(engine, "gold report 1", "dense")
    for ranking in ("lexical", "hybrid"):
        with pytest.raises(errors.InvalidField, match="has no words"):
            await names(engine, "gold", ranking)
    snapshot = await engine.corpora.get_snapshot("main")
    assert not (snapshot.folder / "bm25").exists()
    await engine.close()
    with pytest.raises(ValueError, match="encoder"):
        Recipe(words=False)
