"""Snapshots: known by content, checked on opening, swapped without a gap, added to, gone back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathom.core import errors
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.rows import Issue, list_parsers
from fathom.services.retrieval.corpus.snapshot import open_snapshot
from fathom.services.retrieval.documents.columns import write_columns
from fathom.services.retrieval.documents.model import EVERYTHING, Document, Filter, parse_document
from fathom.services.retrieval.documents.table import Table, find_offsets, write_segment
from fathom.services.retrieval.engine import Engine, Ingested, Page
from fathom.services.retrieval.index.ranking import is_about_past_years
from fathom.transport.store.folder import FolderStore
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually

Items = AsyncGenerator[Document | Chunk | Issue, None]


def document(ident: str, text: str, published: str = "", **fields: Any) -> Document:
    return parse_document({"id": ident, "title": "", "text": text, "published": published, **fields})


async def items(*given: Document | Chunk) -> Items:
    for item in given:
        yield item


async def start_engine(folder: Path | None, store: Any, **fields: Any) -> Engine:
    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=folder, **fields), store)
    await engine.start()
    return engine


async def ingest(engine: Engine, *given: Document | Chunk, corpus: str = "main") -> Ingested:
    return await engine.ingest(corpus, items(*given))


async def ids(engine: Engine, query: str, snapshot: str = "") -> list[str]:
    found = await engine.rank([query], 10, snapshot=snapshot)
    (result,) = found.results
    assert not isinstance(result, errors.FathomError), result
    return [item.id for item, _ in result]


async def test_an_ingest_adds_what_is_new_and_says_what_it_left_out(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    lines = [
        b'{"id": "a", "title": "Gold", "text": "Gold rose."}',
        b"",
        b"no json",
        # The same text but for a blank: a duplicate of the first.
        b'{"id": "b", "title": "Gold", "text": "Gold rose. "}',
        b'{"id": "a", "title": "Oil", "text": "Oil fell."}',
        b"[1]",
        b'{"id": "c"}',
        b'{"id": "d", "text": "Tin.", "published": "soon"}',
        '{"text": "one\u2028two"}'.encode(),
        b"\xff\xfe",
        # Brackets that would overflow a recursive parser.
        b"[" * 100_000,
    ]
    whole = b"\n".join(lines)
    # In pieces of seven bytes, which cut lines and characters.
    done = await ingest(engine, *(Chunk(whole[at : at + 7], source="x.jsonl") for at in range(0, len(whole), 7)))
    # a, d and the line with a separator are new; a blank line is nobody's fault.
    assert (done.added, done.duplicates, done.rejected) == (3, 1, 6)
    assert [issue.line for issue in done.issues] == [3, 5, 6, 7, 8, 10, 11]
    assert {issue.source for issue in done.issues} == {"x.jsonl"}
    again = await ingest(engine, Chunk(whole))
    assert [issue.line for issue in done.issues if not issue.lost] == [8], "its time cannot be read, its text can"
    assert (again.added, again.duplicates, again.snapshot) == (0, 4, done.snapshot)
    assert await ids(engine, "gold") == ["a"]
    await engine.close()


async def test_one_id_in_two_corpora_is_two_documents(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    texts = {"main": "Gold rose.", "other": "Gold fell."}
    for corpus, text in texts.items():
        await ingest(engine, document("a", text), corpus=corpus)
    # The same id with other content is refused where it is there already, whichever came first.
    refused = await ingest(engine, document("a", texts["main"]), corpus="other")
    assert (refused.added, refused.rejected) == (0, 1)
    assert "id 'a' is there already, with other content" in refused.issues[0].message
    for corpus, text in texts.items():
        found = await engine.rank(["gold"], 10, corpus=corpus)
        _, (page,) = await engine.fetch(["a"], corpus=corpus)
        ((hit, _),) = found.results[0]  # type: ignore[misc]
        assert isinstance(page, Page)
        assert (hit.text, page.text) == (text, text)
    await engine.close()


async def test_more_than_allowed_is_refused_and_nothing_is_added(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore(), max_ingest_mb=1)
    with pytest.raises(errors.InvalidField, match="data"):
        # The first chunk is exactly the limit, the second one byte more.
        await ingest(engine, document("a", "x"), Chunk(b"\n" * (1 << 20)), Chunk(b"\n"))
    with pytest.raises(errors.InvalidField, match="media_type"):
        await ingest(engine, Chunk(b"x", "application/x-unheard-of"))
    with pytest.raises(errors.InvalidField, match="corpus"):
        await ingest(engine, document("a", "x"), corpus="../etc")
    assert engine.corpora.list_names() == []
    await engine.close()


@pytest.mark.parametrize(
    ("data", "media_type", "message"),
    [
        (b"\xff\xfe\x00garbage", "", "line 1 of x"),
        (b'{"text": "\\ud800"}', "", "text has half of a character"),
        (b'{"id": "\\udfff", "text": "a"}', "", "id has half of a character"),
        (b'{"text": ' + b"[" * 100_000, "", "line 1 of x"),
        (b"%PDF-1.7 and nothing else", "application/pdf", "nothing that can be read"),
        (b"PAR1 and nothing else", "application/vnd.apache.parquet", "nothing that can be read"),
    ],
)
async def test_bytes_of_which_nothing_can_be_read_are_refused_by_their_field(
    tmp_path: Path, data: bytes, media_type: str, message: str
) -> None:
    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path), MemoryStore(), list_parsers())
    await engine.start()
    with pytest.raises(errors.InvalidField, match=message) as refused:
        await ingest(engine, Chunk(data, media_type, "x"))
    assert refused.value.field == "data"
    done = await ingest(engine, document("a", "gold rose"), Chunk(data, media_type, "x"))
    assert (done.added, bool(done.issues)) == (1, True), "what can be read is added, and the rest is named"
    await engine.close()


async def test_a_corpus_is_there_after_a_restart_on_another_machine(tmp_path: Path) -> None:
    # A store on disk is what two machines share; their local folders are not.
    store = FolderStore(tmp_path / "store")
    engine = await start_engine(tmp_path / "one", store)
    first = await ingest(engine, document("a", "gold rose"))
    second = await ingest(engine, document("b", "gold fell"), corpus="main")
    assert await ids(engine, "gold") == ["a"], "an ingest does not change what is served"
    await engine.corpora.activate("main", second.snapshot)
    await engine.close()
    engine = await start_engine(tmp_path / "two", store)
    assert await ids(engine, "gold") == ["a", "b"]
    assert await ids(engine, "gold", snapshot=first.snapshot) == ["a"]
    await engine.corpora.activate("main", first.snapshot)
    assert await ids(engine, "gold") == ["a"]
    third = await ingest(engine, document("c", "gold held"))
    await engine.corpora.activate("main", third.snapshot)
    assert await ids(engine, "gold") == ["a", "b", "c"], "going back loses nothing"
    await engine.close()


async def test_other_processes_follow_a_switch(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    writer = await start_engine(tmp_path / "writer", store)
    first = (await ingest(writer, document("a", "gold rose"))).snapshot
    reader = await start_engine(tmp_path / "reader", store, refresh_s=0.01)
    second = (await ingest(writer, document("b", "gold fell"))).snapshot

    async def follows(wanted: str) -> bool:
        return (await reader.corpora.get_snapshot("main")).id == wanted

    for wanted in (second, first):
        await writer.corpora.activate("main", wanted)
        await eventually(partial(follows, wanted))
    await ingest(writer, document("c", "tin"), corpus="new")
    await eventually(
        lambda: "new" in reader.corpora.list_names() and reader.corpora.get_state("new").active is not None
    )
    assert (await reader.corpora.get_snapshot("new")).manifest.documents == 1
    await reader.close()
    await writer.close()


async def test_a_process_follows_a_switch_after_a_defect_of_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reported = FolderStore(tmp_path / "store"), list[errors.FathomError]()
    writer = await start_engine(tmp_path / "writer", store)
    await ingest(writer, document("a", "gold rose"))
    config = Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path / "reader", refresh_s=0.01)
    reader = Engine(config, store, report=reported.append)
    await reader.start()
    refresh = reader.corpora.refresh

    async def fail_once() -> None:
        monkeypatch.setattr(reader.corpora, "refresh", refresh)
        raise ValueError("a defect")

    monkeypatch.setattr(reader.corpora, "refresh", fail_once)
    await eventually(lambda: reader.failed_rounds)
    second = (await ingest(writer, document("b", "gold fell"))).snapshot
    await writer.corpora.activate("main", second)

    async def follows() -> bool:
        return (await reader.corpora.get_snapshot("main")).id == second

    await eventually(partial(follows))
    assert [(type(error), error.message) for error in reported] == [(errors.Internal, "ValueError: a defect")]
    assert reader.failed_rounds == 1
    await reader.close()
    await writer.close()


async def test_equal_content_has_one_id(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        engine = await start_engine(tmp_path / name, MemoryStore())
        made.append((await ingest(engine, document("a", "gold"), document("b", "tin"))).snapshot)
        assert (await engine.corpora.freeze("main")).id == made[-1]
        await engine.close()
    # By content: neither the machine nor the time of making counts.
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["columns.npz", "words-*.bin", "segment-*.jsonl", "snapshot.json"])
async def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    snapshot = (await ingest(engine, document("a", "gold"))).snapshot
    (path,) = (tmp_path / "main" / snapshot).glob(name)
    whole = path.read_bytes()
    # Half a file, and a file with one bit turned.
    for damaged in (whole[: len(whole) // 2], bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(errors.CorruptData, match=path.name.replace(".", r"\.")):
            open_snapshot(path.parent)
    path.unlink()
    with pytest.raises(errors.CorruptData, match="is not there"):
        open_snapshot(path.parent)
    await engine.close()


async def test_a_lost_local_file_comes_from_the_store_and_a_lost_stored_one_breaks_one_corpus(tmp_path: Path) -> None:
    store = MemoryStore()
    engine = await start_engine(tmp_path / "a", store)
    await ingest(engine, document("a", "gold"))
    await ingest(engine, document("a", "gold and tin"), corpus="other")
    await engine.close()
    for path in (tmp_path / "a").rglob("columns.npz"):
        # Local copies are short, stored ones whole: the start mends itself.
        path.write_bytes(b"short")
    engine = await start_engine(tmp_path / "a", store)
    assert await ids(engine, "gold") == ["a"]
    manifest = (await engine.corpora.get_snapshot("other")).manifest
    await engine.close()
    # Gone from the store and from this machine.
    await store.delete(f"retrieval/blobs/{manifest.files[0].sha256}")
    engine = await start_engine(tmp_path / "b", store)
    assert await ids(engine, "gold") == ["a"]
    with pytest.raises(errors.CorruptData, match="blobs"):
        await engine.rank(["gold"], corpus="other")
    with pytest.raises(errors.Conflict):
        await ingest(engine, document("z", "zinc"), corpus="other")
    await engine.close()


async def test_local_copies_do_not_pile_up_and_old_snapshots_can_still_be_read(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    made = []
    for number in range(6):
        made.append((await ingest(engine, document(f"d{number}", f"gold {number}"))).snapshot)
        await engine.corpora.activate("main", made[-1])
    assert made[0] not in {path.name for path in (tmp_path / "main").iterdir()}
    # The active one, the one before, and room for two that were asked for.
    assert len(list((tmp_path / "main").iterdir())) <= 4
    assert await ids(engine, "gold", made[0]) == ["d0"]
    assert len(await ids(engine, "gold", made[3])) == 4
    await engine.close()


async def test_an_unknown_snapshot_changes_nothing(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    active = (await ingest(engine, document("a", "gold"))).snapshot
    for wrong in ("f" * 64, "no such"):
        with pytest.raises((errors.NotFound, errors.InvalidField)):
            await engine.corpora.activate("main", wrong)
    assert (await engine.corpora.get_snapshot("main")).id == active
    await engine.close()


async def test_requests_go_on_while_snapshots_change(tmp_path: Path) -> None:
    # Without a cache, or requests would not reach the index.
    engine = await start_engine(tmp_path, MemoryStore(), cache=0)
    first = (await ingest(engine, *(document(f"d{n}", f"gold {n}") for n in range(50)))).snapshot
    second = (await ingest(engine, *(document(f"e{n}", f"gold coin {n}") for n in range(50)))).snapshot
    stop, answers = asyncio.Event(), []

    async def reader() -> None:
        while not stop.is_set():
            found = await engine.rank(["gold"], 3)
            (result,) = found.results
            assert not isinstance(result, errors.FathomError)
            answers.append((found.snapshot, len(result)))

    def is_answered_from(wanted: str) -> bool:
        return bool(answers) and answers[-1][0] == wanted

    readers = [asyncio.create_task(reader()) for _ in range(8)]
    for number in range(12):
        wanted = (first, second)[number % 2]
        await engine.corpora.activate("main", wanted)
        await eventually(partial(is_answered_from, wanted))
    stop.set()
    await asyncio.gather(*readers)
    assert {ident for ident, _ in answers} == {first, second}
    # Every answer is of one snapshot, whole.
    assert {count for _, count in answers} == {3}
    await engine.close()


async def test_a_text_is_read_on_across_a_change(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    text = "".join(f"line {n}\n" for n in range(100))
    await ingest(engine, document("a", text))
    _, (page,) = await engine.fetch(["a"], 100)
    assert isinstance(page, Page)
    # The token names the snapshot that it was cut from.
    await engine.corpora.activate("main", (await ingest(engine, document("b", "other"))).snapshot)
    _, (rest,) = await engine.fetch(["a"], 100_000, page.next_token)
    assert isinstance(rest, Page)
    assert page.text + rest.text == text
    await engine.close()


async def test_another_recipe_makes_another_snapshot_of_the_same_documents(tmp_path: Path) -> None:
    store = MemoryStore()
    engine = await start_engine(tmp_path, store)
    before = (await ingest(engine, document("a", "gold", title="Tin"))).snapshot
    await engine.close()
    engine = await start_engine(tmp_path, store, recipe=Recipe(title_weight=5))
    after = await engine.corpora.freeze("main")
    assert (after.documents, after.id != before) == (1, True)
    await engine.close()


WHEN = st.one_of(st.none(), st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))
NAMES = st.sets(st.sampled_from("abc"), max_size=2).map(frozenset)
DOCUMENTS = st.lists(
    st.builds(
        Document, st.just("x"), st.just(""), st.sampled_from(["gold", "gold tin", "tin"]), WHEN,
        st.sampled_from("abc"), st.sampled_from(["news", "b"]), st.lists(st.sampled_from("abcABC"), max_size=2).map(tuple),
    ), min_size=1, max_size=12,
)  # fmt: skip
FILTERS = st.builds(Filter, NAMES, NAMES, NAMES, WHEN, WHEN, WHEN)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(DOCUMENTS, FILTERS)
def test_masks_say_what_filters_say(tmp_path: Path, given_documents: list[Document], allowed: Filter) -> None:
    segment, columns = tmp_path / "segment.jsonl", tmp_path / "columns.npz"
    count = write_segment(given_documents, segment)
    write_columns(given_documents, find_offsets(segment), columns)
    table = Table([segment], [count], columns)
    mask = table.get_mask(allowed)
    expected = [allowed.allows(item) for item in given_documents]
    assert ([True] * count if mask is None else mask.tolist()) == expected
    assert list(table.documents) == given_documents


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(DOCUMENTS, WHEN.filter(bool), st.sampled_from([0.0, 30.0]))
# Whatever Hypothesis draws as documents, filters and dates.
def test_nothing_from_after_as_of_is_ever_found(
    tmp_path_factory: pytest.TempPathFactory, given_documents: list[Document], as_of: datetime, half_life: float
) -> None:
    """The look-ahead test: whatever is asked, by whatever ranking, and whatever is then read."""

    async def check() -> None:
        engine = await start_engine(tmp_path_factory.mktemp("ahead"), MemoryStore())
        numbered = [
            Document(**{**item.__dict__, "id": f"d{at}", "text": f"{item.text} {at}"})
            for at, item in enumerate(given_documents)
        ]
        await ingest(engine, *numbered)
        found = await engine.rank(["gold", "tin", "gold tin 1"], 100, Filter(as_of=as_of), half_life)
        # Nothing without a date is known to have been there.
        known = {item.id for item in numbered if item.published is not None and item.published <= as_of}
        for result in found.results:
            assert not isinstance(result, errors.FathomError)
            assert {item.id for item, _ in result} <= known
        _, pages = await engine.fetch([item.id for item in numbered], as_of=as_of)
        assert {page.document.id for page in pages if isinstance(page, Page)} == known
        await engine.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("query", "past"),
    [
        ("annual report 2021", True), ("2021年报", True), ("贵州茅台2019年营业收入", True), ("2020 to 2022", True),
        ("outlook 2026", False), ("latest news", False), ("2024 and 2026", False), ("price 2,021.50", False),
        # Digits that are no year: an amount, a code, a decimal.
        ("code 20210701", False), ("3.2019", False), ("2021Q3 earnings", True),
    ],
)  # fmt: skip
def test_a_year_that_is_over_is_noticed(query: str, past: bool) -> None:
    assert is_about_past_years(query, 2026) is past


async def test_news_do_not_fade_when_the_past_is_asked_for(tmp_path: Path) -> None:
    engine = await start_engine(tmp_path, MemoryStore())
    await ingest(
        engine,
        document("old", "bank profits profits", "2021-05-01", type="news"),
        document("new", "bank profits fell a little this week", "2026-05-01", type="news"),
    )

    async def first(query: str, allowed: Filter = EVERYTHING) -> str:
        found = await engine.rank([query], 2, allowed, 30.0)
        (result,) = found.results
        assert not isinstance(result, errors.FathomError)
        return result[0][0].id

    assert await first("bank profits") == "new"
    assert await first("bank profits 2021") == "old"
    # By the question's own words, by a filter, and by a date of knowledge.
    assert await first("bank profits", Filter(before=datetime(2022, 1, 1, tzinfo=UTC))) == "old"
    assert await first("bank profits", Filter(as_of=datetime(2022, 1, 1, tzinfo=UTC))) == "old"
    await engine.close()
