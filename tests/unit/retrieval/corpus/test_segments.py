"""Corpora that grow by segments: what they answer is what the corpus built at once answers, and little is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.core.errors import CorruptData
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import (
    JOINED_ROWS,
    build_indexed_text,
    build_snapshot,
    choose_first_joined,
)
from fathom.services.retrieval.corpus.ingest import Deletion
from fathom.services.retrieval.corpus.snapshot import MANIFEST, Snapshot, describe_part, open_snapshot
from fathom.services.retrieval.documents.model import EVERYTHING, Document, Filter, parse_document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.index.arrays import map_arrays, write_arrays
from fathom.services.retrieval.index.lexical import K1, B, LexicalIndex, select_best
from fathom.services.retrieval.index.postings import build_postings, load_postings, merge_postings
from fathom.services.retrieval.index.ranking import Ranking, RankOptions
from fathom.services.retrieval.index.text import tokenise
from fathom.transport.store.memory import MemoryStore
from tests.support.letters import Letters

THINGS = ("gold", "silver", "tin", "zinc", "黄金价格", "白银下跌", "nickel")
QUERIES = ("gold price", "zinc tin", "黄金", "金", "report 7", "silver silver gold")
# Few words, so that they repeat within and across documents.
TERMS = st.lists(st.sampled_from(["a1", "b2", "c3", "金价", "价格", "金"]), max_size=9)


def make_documents(count: int, first: int = 0) -> list[Document]:
    return [
        parse_document(
            {
                "id": f"d{at}",
                "title": f"Report {at}",
                "text": f"{THINGS[at % 7]} price of {THINGS[at % 5]}, {THINGS[at % 3]}. " * (1 + at % 4),
                "published": "" if at % 4 == 0 else f"20{10 + at % 9}-03-01",
                "entities": [THINGS[at % 2]],
                "source": f"s{at % 3}",
                "type": "news" if at % 2 else "note",
            }
        )
        for at in range(first, first + count)
    ]


def encoder_of(_: str) -> Any:
    return Letters()


def build(folder: Path, documents: Sequence[Document], recipe: Recipe, base: Snapshot | None = None) -> Snapshot:
    folder.mkdir(parents=True)
    build_snapshot("main", documents, recipe, folder, encoder_of, base)
    return open_snapshot(folder)


def rank(snapshot: Snapshot, ranking: Ranking, allowed: Filter = EVERYTHING) -> list[list[tuple[int, float]]]:
    vectors = Letters().encode(QUERIES, "query")
    return snapshot.index.rank(QUERIES, vectors, RankOptions(20, allowed, ranking=ranking))


@settings(max_examples=60, deadline=None)
@given(st.lists(TERMS, min_size=1, max_size=9), TERMS, st.sets(st.integers(0, 8), max_size=3))
def test_scores_are_the_same_bit_for_bit_however_a_corpus_is_divided(
    corpus: list[list[str]], query: list[str], cuts: set[int]
) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(corpus)), len(corpus)]
    segments = [build_postings(corpus[first:last]) for first, last in pairwise(bounds)]
    # Files of two passages, and one of what is in no file.
    sources = np.arange(len(corpus), dtype=np.uint64) // 2
    whole, parts = LexicalIndex([build_postings(corpus)], sources), LexicalIndex(segments, sources)
    joined = LexicalIndex([merge_postings(segments)], sources)
    for other in (parts, joined):
        wanted, found = whole.compute_scores(query), other.compute_scores(query)
        assert (wanted is None) == (found is None)
        if wanted is not None and found is not None:
            np.testing.assert_array_equal(wanted, found)
    for name in ("keys", "starts", "documents", "counts", "lengths", "character_keys", "characters"):
        np.testing.assert_array_equal(getattr(joined.segments[0], name), getattr(whole.segments[0], name))


def test_segments_rank_as_the_index_of_a_whole_corpus_by_a_library_does() -> None:
    random = np.random.default_rng(3)
    # Frequent and rare terms, as in a language: the n-th comes about 1/n as often as the first.
    corpus = [[f"t{min(int(at), 999)}" for at in random.zipf(1.3, 40)] for _ in range(700)]
    oracle: Any = bm25s.BM25(k1=K1, b=B)
    oracle.index(corpus, show_progress=False)
    segments = LexicalIndex([build_postings(corpus[at : at + 150]) for at in range(0, 700, 150)])
    for _ in range(20):
        query = [f"t{min(int(at), 999)}" for at in random.zipf(1.3, 6)]
        wanted, found = oracle.get_scores(query), segments.compute_scores(query)
        assert found is not None
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        # Rounded as 32 bits tell sums of six apart: what is equal there has no order.
        best = [select_best(np.round(scores, 4).astype(np.float32), 10).tolist() for scores in (wanted, found)]
        assert best[0] == best[1]


@pytest.mark.parametrize("index", ["flat", "fp16", "ivf"])
def test_a_corpus_that_grew_answers_as_one_built_at_once(tmp_path: Path, index: str) -> None:
    recipe = Recipe(encoder="letters", index=index)  # type: ignore[arg-type]
    documents = make_documents(90)
    whole, grown = build(tmp_path / "whole", documents, recipe), None
    # Of many sizes, so that some are joined and some stay.
    for number, (first, last) in enumerate([(0, 50), (50, 60), (60, 63), (63, 64), (64, 80), (80, 90)]):
        grown = build(tmp_path / str(number), documents[first:last], recipe, grown)
    assert grown is not None
    assert 1 < len(grown.manifest.segments) < 6
    assert list(grown.table.documents) == list(whole.table.documents) == documents
    narrow = Filter(sources=frozenset({"s1"}), as_of=datetime(2016, 1, 1, tzinfo=UTC))
    for ranking in Ranking:
        for allowed in (EVERYTHING, narrow):
            expected, found = rank(whole, ranking, allowed), rank(grown, ranking, allowed)
            assert [[at for at, _ in row] for row in found] == [[at for at, _ in row] for row in expected]
            for some, others in zip(found, expected, strict=True):
                np.testing.assert_allclose([score for _, score in some], [score for _, score in others], rtol=1e-5)


async def test_versions_and_deletions_are_those_of_a_corpus_built_at_once(tmp_path: Path) -> None:
    """Sources get versions and end over many ingests; the columns are those that all documents together have."""

    async def bring(*items: Any) -> Any:
        for item in items:
            yield item

    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path / "index"), MemoryStore())
    await engine.start()
    one = make_documents(1)[0]
    for number in range(14):
        source = f"memo-{number % 4}"
        version = replace(
            one, id=f"v{number}", key=source, text=f"gold {number}",
            published=None if number % 5 == 0 else datetime(2020, 1 + number % 3, 1 + number, tzinfo=UTC),
        )  # fmt: skip
        items = [version, *make_documents(2, 100 + 2 * number)]
        await engine.ingest("main", bring(*items, *([Deletion(source)] if number % 6 == 5 else [])))
    head = await engine.corpora.open_head("main")
    assert head is not None
    again = build(tmp_path / "again", list(head.table.documents), Recipe())
    assert len(head.manifest.segments) < 6
    names = {*again.table.columns} - {"offsets"}  # type: ignore[attr-defined]
    assert names == {*head.table.columns} - {"offsets"}  # type: ignore[attr-defined]
    for name in names:
        np.testing.assert_array_equal(head.table.columns[name], again.table.columns[name], name)  # type: ignore[attr-defined]
    assert (head.table.columns["until"] != np.iinfo(np.int64).max).any()  # type: ignore[attr-defined]
    assert head.table.columns["deleted"].any()  # type: ignore[attr-defined]
    await engine.close()


def test_an_ingest_writes_what_it_brings_and_links_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(encoder="letters")
    base = build(tmp_path / "base", make_documents(400), recipe)
    read: list[int] = []

    def count(text: str) -> list[str]:
        read.append(len(text))
        return tokenise(text)

    monkeypatch.setattr("fathom.services.retrieval.corpus.building.tokenise", count)
    grown = build(tmp_path / "grown", make_documents(5, 400), recipe, base)
    assert len(read) == 5, "the words of what is there are not counted again"
    known = {path.stat().st_ino for path in base.folder.iterdir()}
    fresh = {path.name for path in grown.folder.iterdir() if path.stat().st_ino not in known}
    added = grown.manifest.segments[-1]
    assert fresh == {added.path, added.words, added.vectors, "columns.npz", MANIFEST}


def test_what_many_ingests_write_grows_as_what_they_bring(tmp_path: Path) -> None:
    """A thousandth of a large corpus: were each ingest to write all, 48 of them would write 24 times what there is."""
    recipe, ingests, brought = Recipe(encoder="letters", index="sq8"), 48, 5
    grown, known, written = None, set(), 0
    for number in range(ingests):
        grown = build(tmp_path / str(number), make_documents(brought, number * brought), recipe, grown)
        # Columns are written anew, a few bytes per document.
        files = {path for path in grown.folder.iterdir() if path.name not in ("columns.npz", MANIFEST)}
        written += sum(path.stat().st_size for path in files if path.stat().st_ino not in known)
        known |= {path.stat().st_ino for path in files}
    assert grown is not None
    held = sum(path.stat().st_size for path in files)
    # A document is joined with others once for each time that their number doubles.
    assert written <= held * (1 + ingests.bit_length())
    assert len(grown.manifest.segments) <= ingests.bit_length()


def test_another_recipe_counts_words_anew(tmp_path: Path) -> None:
    documents = make_documents(40)
    base = build(tmp_path / "base", documents[:30], Recipe(title_weight=1))
    grown = build(tmp_path / "grown", documents[30:], Recipe(title_weight=5), base)
    whole = build(tmp_path / "whole", documents, Recipe(title_weight=5))
    assert rank(grown, Ranking.LEXICAL) == rank(whole, Ranking.LEXICAL)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=300))
def test_segments_stay_few_and_no_ingest_rewrites_a_large_one(sizes: list[int]) -> None:
    rows: list[int] = []
    for fresh in sizes:
        first = choose_first_joined(rows, fresh)
        joined = sum(rows[first:]) + fresh
        assert first == len(rows) or joined <= JOINED_ROWS
        rows[first:] = [joined]
    small = [count for count in rows if count <= JOINED_ROWS // 4]
    # Each small one was at least twice as long as the next when that came.
    assert len(small) <= len(rows) - len(small) + JOINED_ROWS.bit_length()
    assert len(rows) <= 2 * sum(rows) // (JOINED_ROWS // 4) + JOINED_ROWS.bit_length()


def make_earlier(folder: Path, documents: Sequence[Document], recipe: Recipe) -> Snapshot:
    """Write a snapshot as earlier releases did, with one word index by bm25s."""
    snapshot = build(folder, documents, recipe)
    for segment in snapshot.manifest.segments:
        (folder / segment.words).unlink()
    index: Any = bm25s.BM25(k1=K1, b=B)
    index.index([tokenise(build_indexed_text(one, recipe)) for one in documents], show_progress=False)
    index.save(folder / "bm25", show_progress=False)
    files = [describe_part(folder / "columns.npz", folder)]
    files += [describe_part(path, folder) for path in sorted((folder / "bm25").iterdir())]
    (folder / MANIFEST).write_bytes(replace(snapshot.manifest, files=tuple(files)).to_json())
    return open_snapshot(folder)


def test_a_snapshot_of_an_earlier_release_is_read_and_grows(tmp_path: Path) -> None:
    documents, recipe = make_documents(40), Recipe()
    earlier = make_earlier(tmp_path / "earlier", documents[:30], recipe)
    expected = build(tmp_path / "now", documents[:30], recipe)
    for found, wanted in zip(rank(earlier, Ranking.LEXICAL), rank(expected, Ranking.LEXICAL), strict=True):
        assert [at for at, _ in found] == [at for at, _ in wanted]
    grown = build(tmp_path / "grown", documents[30:], recipe, earlier)
    whole = build(tmp_path / "whole", documents, recipe)
    assert rank(grown, Ranking.LEXICAL) == rank(whole, Ranking.LEXICAL)
    assert not (grown.folder / "bm25").exists()


def test_files_of_words_that_are_not_those_are_named(tmp_path: Path) -> None:
    path = tmp_path / "words.bin"
    build_postings([["a"], ["b", "a"]]).save(path)
    with pytest.raises(CorruptData, match=r"words\.bin.*2 documents, not of 3"):
        load_postings(path, 3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptData, match=r"words\.bin"):
        load_postings(path, 2)
    write_arrays(path, [np.arange(3), np.arange(5, dtype=np.uint8)])
    assert [array.tolist() for array in map_arrays(path, 2)] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    with pytest.raises(CorruptData, match=r"words\.bin"):
        map_arrays(path, 3)
    # A header that claims what the file does not have.
    claim = json.dumps({"descr": "<i8", "fortran_order": False, "shape": [1 << 50]}).encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(claim).to_bytes(2, "little") + claim)
    with pytest.raises(CorruptData, match=r"words\.bin"):
        map_arrays(path, 1)


async def test_an_ingest_after_another_opens_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ingest adds to what the last one has made; files of the whole corpus are not read for that."""

    async def bring(documents: Sequence[Document]) -> Any:
        for document in documents:
            yield document

    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path / "index"), MemoryStore())
    await engine.start()
    for turn in range(2):
        await engine.ingest("main", bring(make_documents(50, 50 * turn)))
    checked: list[str] = []
    monkeypatch.setattr(
        "fathom.services.retrieval.corpus.store.check_part", lambda path, part: checked.append(part.path)
    )
    await engine.ingest("main", bring(make_documents(3, 100)))
    assert checked == []
    await engine.close()
