"""A real PostgreSQL behind the port of engines: the same ids and order as the embedded engine, and its snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fathom.core import errors
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.ingest import Chunk, Deletion
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import EVERYTHING, PLACE_FIELD, Filter, parse_document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.postgres.schema import SCHEMA
from fathom.transport.store.memory import MemoryStore
from tests.support.letters import Letters
from tests.support.postgres import serve_postgres
from tests.unit.retrieval.corpus.ingesting import bring

pytestmark = pytest.mark.slow

WORDS = ("bank", "profit", "rate", "gold", "oil", "bond", "yield", "rose", "fell", "quarter", "银行股上涨", "利率下调")
RANKINGS = ("lexical", "dense", "hybrid")
HOUSES = ("North Harbour", "东湖证券", "Weiß & Söhne")
YEAR_2012 = datetime(2012, 6, 1, tzinfo=UTC)
TEXT = "text/plain"


def make_rows() -> list[dict[str, Any]]:
    """Return 90 documents of different lengths, with dates, sources and entities; two have the same text."""
    rows: list[dict[str, Any]] = []
    for number in range(90):
        words = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 4 + number % 9)]
        rows.append({
            "id": f"d{number}", "title": f"{words[0]} {number % 5}", "text": f"{' '.join(words)}. It is item {number}.",
            "published": f"{2000 + number % 25}-0{1 + number % 9}-15" if number % 7 else "",
            "source": ("wire", "own")[number % 2], "type": ("news", "note")[number % 3 == 0],
            "entities": ["JPM"] if number % 4 == 0 else ["BAC", "jpm"] if number % 9 == 0 else [],
            **({PLACE_FIELD: {"house": HOUSES[number // 10 % 3], "rating": ("Buy", "中性")[number % 2]}} if number % 5 else {}),
        })  # fmt: skip
    rows.append({**rows[5], "id": "twin", "text": rows[5]["text"] + " Again."})
    return rows


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_postgres() as found:
        yield found


class Stage:
    """Engines on one object store: replicas, each with a folder of its own."""

    def __init__(self, url: str, folder: Path, stack: AsyncExitStack) -> None:
        self._url, self._folder, self._stack, self._started = url, folder, stack, 0
        self.store = MemoryStore()

    async def open_replica(self, engine: str = "postgres", url: str = "", **recipe: object) -> Engine:
        self._started += 1
        made = Recipe.model_validate({"encoder": "letters", "engine": engine, **recipe})
        config = Config(
            corpus_dir=None, corpus_name="main", index_dir=self._folder / str(self._started), recipe=made, cache=0,
            database_url=url or self._url, refresh_s=0, database_timeout_s=60,  # type: ignore[arg-type]
        )  # fmt: skip
        opened = Engine(config, self.store, list_parsers())
        opened.encoders.add(Letters())
        await opened.start()
        self._stack.push_async_callback(opened.close)
        return opened


@pytest.fixture
async def stage(url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(url, tmp_path, stack)


async def rank(
    engine: Engine, query: str, ranking: str, allowed: Filter = EVERYTHING, half_life: float = 0.0, snapshot: str = ""
) -> list[tuple[str, float]]:
    found = await engine.rank([query], 10, allowed, half_life, ranking=ranking, snapshot=snapshot)
    (result,) = found.results
    assert not isinstance(result, errors.FathomError), result
    return [(document.id, score) for document, score in result]


QUESTIONS = (
    "bank profit",
    "the yield of a bond fell",
    "gold gold oil",
    "利率",
    "银",
    "item 7",
    "nothing of it xyzzy",
    "2012",
)
FILTERS = (
    EVERYTHING,
    Filter(sources=frozenset({"own"}), types=frozenset({"note", "news"})),
    Filter(entities=frozenset({"Jpm"})),
    Filter(after=datetime(2005, 1, 1, tzinfo=UTC), before=datetime(2015, 1, 1, tzinfo=UTC)),
    Filter(as_of=YEAR_2012),
    Filter(sources=frozenset({"nowhere"})),
    Filter(houses=frozenset({"north harbour", "WEISS & SÖHNE"})),
    Filter(houses=frozenset({"东湖证券"}), ratings=frozenset({"中性"}), after=datetime(2005, 1, 1, tzinfo=UTC)),
    Filter(ratings=frozenset({"sell"})),
)


async def test_both_engines_rank_alike(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several rows of postings per term, as a segment of many passages has.
    monkeypatch.setattr("fathom.services.retrieval.postgres.writing.BLOCK", 16)
    rows = [parse_document(row) for row in make_rows()]
    remote = await stage.open_replica()
    other = Stage("", tmp_path / "embedded", stage._stack)
    local = await other.open_replica("embedded")
    for engine in (remote, local):
        # In three segments, one of which is a single document.
        for part in (rows[:50], rows[50:51], rows[51:]):
            assert (await bring(engine, *part)).added == len(part)
        assert (await bring(engine, rows[3])).duplicates == 1
    for question in QUESTIONS:
        for allowed in FILTERS:
            for ranking in RANKINGS:
                half_life = 400.0 if allowed is EVERYTHING or allowed.as_of else 0.0
                for days in {0.0, half_life}:
                    there = await rank(remote, question, ranking, allowed, days)
                    here = await rank(local, question, ranking, allowed, days)
                    assert [ident for ident, _ in there] == [ident for ident, _ in here], (question, allowed, ranking)
                    assert [score for _, score in there] == pytest.approx(
                        [score for _, score in here], rel=2e-4, abs=2e-5
                    )


async def test_an_approximate_index_finds_the_same_behind_filters(stage: Stage) -> None:
    rows = [parse_document(row) for row in make_rows()]
    exact, walked = await stage.open_replica(), None
    await bring(exact, *rows)
    walked = await Stage(stage._url, stage._folder / "hnsw", stage._stack).open_replica(index="hnsw")
    await bring(walked, *rows)
    for allowed in FILTERS:
        expected = await rank(exact, "bank profit rose", "dense", allowed)
        found = await rank(walked, "bank profit rose", "dense", allowed)
        # Sixteen bits choose the candidates: the last of ten may be another of equal distance.
        assert {ident for ident, _ in found[:5]} == {ident for ident, _ in expected[:5]}
        assert len(found) == len(expected)


async def test_versions_and_deletions_hold_as_of_a_day_and_in_earlier_snapshots(stage: Stage) -> None:
    engine = await stage.open_replica()
    march, june, july = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6, 7))
    new = Chunk(b"The policy rate target is 3.75 percent.", TEXT, "memo.txt", june)
    old = Chunk(b"The policy rate target is 3.25 percent.", TEXT, "memo.txt", march)
    first = await bring(engine, new)
    second = await bring(engine, old)
    third = await bring(engine, Deletion("memo.txt", july))
    assert third.deleted == 1

    async def read(as_of: datetime | None, snapshot: str = "") -> list[str]:
        _, (hits,) = await engine.search(["policy rate target"], 5, Filter(as_of=as_of), snapshot=snapshot)
        assert not isinstance(hits, errors.FathomError)
        return [hit.document.text[-13:-9] for hit in hits]

    assert [await read(as_of) for as_of in (None, july, june, march)] == [[], [], ["3.75"], ["3.25"]]
    assert await read(None, second.snapshot) == ["3.75"]
    assert await read(march, first.snapshot) == []
    (found,) = (await engine.rank(["policy rate"], 5, Filter(as_of=june))).results
    assert not isinstance(found, errors.FathomError)
    ident = found[0][0].id
    (gone,), (there,) = [(await engine.fetch([ident], as_of=as_of))[1] for as_of in (None, june)]
    assert isinstance(gone, errors.NotFound)
    assert not isinstance(there, errors.FathomError)
    assert (await bring(engine, old)).added == 1
    assert await read(None) == ["3.25"]


async def test_another_replica_serves_the_same_and_an_empty_database_is_filled_again(stage: Stage, url: str) -> None:
    import psycopg

    rows = [parse_document(row) for row in make_rows()]
    first = await stage.open_replica()
    await bring(first, *rows[:40])
    await bring(first, *rows[40:])
    expected = await rank(first, "bank profit rose", "hybrid")
    second = await stage.open_replica()
    assert await rank(second, "bank profit rose", "hybrid") == expected
    assert not any((stage._folder / "2").rglob("*.faiss")), "a replica keeps no index of its own"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    third = await stage.open_replica()
    assert dict(await rank(third, "bank profit rose", "hybrid")) == pytest.approx(dict(expected))


async def test_a_corpus_moves_between_engines(stage: Stage) -> None:
    rows = [parse_document(row) for row in make_rows()]
    await bring(await stage.open_replica("embedded"), *rows[:60])
    remote = await stage.open_replica("postgres")
    await bring(remote, *rows[60:])
    expected = await rank(remote, "bond yield", "hybrid")
    assert len(expected) == 10
    back = await stage.open_replica("embedded")
    frozen = await back.corpora.freeze("main")
    assert (frozen.index, frozen.documents) == ("flat", len(rows))
    moved = await rank(back, "bond yield", "hybrid", snapshot=frozen.id)
    assert [ident for ident, _ in moved] == [ident for ident, _ in expected]


async def test_tables_of_an_earlier_release_take_reports(stage: Stage, url: str) -> None:
    import psycopg

    rows = [parse_document(row) for row in make_rows()]
    await bring(await stage.open_replica(), rows[0])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {SCHEMA}.passages DROP COLUMN house, DROP COLUMN rating")
    engine = await stage.open_replica()
    await bring(engine, *rows[1:])
    found = await rank(engine, "bank profit", "lexical", Filter(houses=frozenset({"North Harbour"})))
    assert found
    assert {int(ident.removeprefix("d")) // 10 % 3 for ident, _ in found} == {0}


async def test_documents_of_ones_own_stay_in_files(stage: Stage) -> None:
    engine = await stage.open_replica(encoder="")
    done = await engine.import_document("docs_1", Chunk(b"The secret word is heron.", TEXT, "s.txt"), 60)
    manifest = await engine.corpora.get_snapshot("docs_1", done.snapshot)
    assert manifest.manifest.index != "postgres"


async def test_a_database_that_is_away_or_not_named_is_told(stage: Stage, tmp_path: Path) -> None:
    row = parse_document(make_rows()[0])
    away = await stage.open_replica(url=f"postgresql://nobody@/none?host={tmp_path}&port=1")
    with pytest.raises(errors.DependencyFailed, match="cannot be reached"):
        await bring(away, row)
    nameless = Engine(
        Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path, recipe=Recipe(engine="postgres")),
        MemoryStore(),
    )
    await nameless.start()
    with pytest.raises(errors.FathomError, match="database_url"):
        await bring(nameless, row)
    await nameless.close()
