"""Passages of files: pages, places in the text, versions by date, and own corpora of tenants."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.parse import ParsedDocument
from fathom.services.retrieval.corpus.passages import PASSAGE_CHARS, cut_passages, measure_text
from fathom.services.retrieval.corpus.rows import list_parsers, make_passages
from fathom.services.retrieval.documents.model import Document, Filter
from fathom.services.retrieval.documents.versions import CURRENT, REPLACED, UNDATED, Version, find_ends
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.server import RetrievalServicer
from fathom.transport.store.memory import MemoryStore
from tests.support.files.office import write_pdf
from tests.unit.retrieval.corpus.ingesting import bring

PDF, TEXT = "application/pdf", "text/plain"


@pytest.fixture
def engine(empty_engine: Engine) -> Engine:
    return empty_engine


async def find(engine: Engine, query: str, as_of: datetime | None = None, corpus: str = "main") -> list[Document]:
    _, (hits,) = await engine.search([query], 10, Filter(as_of=as_of), corpus=corpus)
    assert not isinstance(hits, errors.FathomError)
    return [hit.document for hit in hits]


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@given(st.lists(st.text(st.sampled_from("ab c.。!？\n利率。 "), max_size=400), min_size=1, max_size=6))
def test_passages_are_parts_of_their_page_and_together_the_whole_text(pages: list[str]) -> None:
    starts = [sum(len(page) + 2 for page in pages[:number]) for number in range(len(pages))]
    text = "\n\n".join(pages)
    passages = cut_passages(ParsedDocument(text, "x", "file", page_starts=tuple(starts)))
    assert all(text[one.offset :].lstrip().startswith(one.text) for one in passages)
    assert all(one.text in pages[one.page - 1] for one in passages)
    assert all(measure_text(one.text) <= PASSAGE_CHARS for one in passages)
    assert "".join("".join(one.text for one in passages).split()) == "".join(text.split())


FILLER = "The committee met and discussed the usual matters at some length. "
TABLE = "Item | July | September\nCash at closing | 68.0 | 61.5\nEarn-out | 12.0 | 9.5\n"


def cut(text: str) -> list[str]:
    return [one.text for one in cut_passages(ParsedDocument(text, "x", "file"))]


@pytest.mark.parametrize("sentences", range(8, 17))
def test_a_table_stays_whole_below_its_heading(sentences: int) -> None:
    text = f"{FILLER * sentences}\n3. Price\n{TABLE}\n{FILLER * 4}"
    (holder,) = [one for one in cut(text) if "Earn-out" in one]
    assert f"3. Price\n{TABLE.strip()}" in holder


@pytest.mark.parametrize("sentences", range(8, 17))
def test_a_heading_stands_before_what_it_is_of(sentences: int) -> None:
    text = f"{FILLER * sentences}\nDividend\nPer share\nThe board proposes 62 pence. {FILLER * 4}"
    assert any("Dividend\nPer share\nThe board proposes 62 pence." in one for one in cut(text))


def test_a_table_longer_than_a_passage_is_cut_between_its_rows_and_not_behind_its_names() -> None:
    rows = "".join(f"Row {number} of the table | {number}.5 | {number}.7\n" for number in range(60))
    text = f"{FILLER * 14}\n\nName | 2024 | 2025\n{rows}"
    found = cut(text)
    assert not any(one.endswith("2025") for one in found)
    assert all(line in text.splitlines() for one in found for line in one.splitlines() if "|" in line)


def test_a_list_is_not_taken_for_headings() -> None:
    text = "\n".join(f"- point {number} of a long list of points" for number in range(60))
    first, *_ = cut(text)
    assert measure_text(first) > PASSAGE_CHARS - 50


def test_a_file_that_is_cut_in_another_way_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    item = ParsedDocument(FILLER * 40, "x", "file")
    (first, *_), (again, *_) = make_passages(item, "a.txt"), make_passages(item, "a.txt")
    monkeypatch.setattr("fathom.services.retrieval.corpus.passages.PASSAGE_CHARS", 500)
    other, *_ = make_passages(item, "a.txt")
    assert all(isinstance(one, Document) for one in (first, again, other))
    assert first.id == again.id != other.id  # type: ignore[union-attr]


async def test_a_fact_on_a_late_page_is_found_with_its_page(engine: Engine) -> None:
    filler = "The committee met and discussed the usual matters at some length. " * 12
    pages = [filler] * 28 + [filler + "The hurdle rate for new plants is 11.5 percent. " + filler] + [filler]
    done = await bring(engine, Chunk(write_pdf(pages, "Capital policy"), PDF, "policy.pdf"))
    assert done.added >= 30
    best = (await find(engine, "hurdle rate for new plants"))[0]
    assert "11.5 percent" in best.text
    assert (best.page, best.title, best.source) == (29, "Capital policy", "policy.pdf")
    assert measure_text(best.text) <= PASSAGE_CHARS
    siblings = await find(engine, "committee usual matters")
    assert {one.parent for one in siblings} == {best.parent}


async def test_the_amended_memo_wins_and_the_old_one_stays_for_as_of(engine: Engine) -> None:
    old = Chunk(b"The policy rate target is 3.25 percent.", TEXT, "memo.txt", day("2026-03-01"))
    new = Chunk(b"The policy rate target is 3.75 percent.", TEXT, "memo.txt", day("2026-06-01"))
    # The amended one comes first: its date decides, not its arrival.
    await bring(engine, new)
    await bring(engine, old)
    for as_of, expected in ((None, "3.75"), (day("2026-05-31"), "3.25"), (day("2026-06-01"), "3.75")):
        (found,) = await find(engine, "policy rate target", as_of)
        assert expected in found.text
    assert await find(engine, "policy rate target", day("2026-02-01")) == []


async def test_the_same_file_again_is_nothing_new_and_an_earlier_text_may_come_back(engine: Engine) -> None:
    first, second = Chunk(b"The cap is 90 euros.", TEXT, "cap.txt"), Chunk(b"The cap is 120 euros.", TEXT, "cap.txt")
    await bring(engine, first)
    assert (await bring(engine, first)).duplicates == 1
    for chunk, expected in ((second, "120"), (first, "90"), (second, "120")):
        assert (await bring(engine, chunk)).added == 1
        (found,) = await find(engine, "cap euros")
        assert expected in found.text


async def test_two_files_of_one_text_stay_two_sources(engine: Engine) -> None:
    text = b"Boilerplate that every contract has."
    await bring(engine, Chunk(text, TEXT, "a/contract.txt"), Chunk(text, TEXT, "b/contract.txt"))
    assert {one.source for one in await find(engine, "boilerplate")} == {"a/contract.txt", "b/contract.txt"}
    await bring(engine, Chunk(b"Something else.", TEXT, "a/contract.txt"))
    assert [one.source for one in await find(engine, "boilerplate")] == ["b/contract.txt"]


def test_when_versions_end() -> None:
    dated = [Version("a", "v1", 10), Version("a", "v1", 10), None, Version("a", "v3", 30), Version("a", "v2", 20)]
    assert find_ends(dated) == [20, 20, CURRENT, CURRENT, 30]
    undated = [Version("a", "v1", 10), Version("a", "v2", UNDATED), Version("a", "v3", UNDATED)]
    assert find_ends(undated) == [REPLACED, REPLACED, CURRENT]
    assert find_ends([Version("a", "v1", UNDATED), Version("a", "v2", 10)]) == [REPLACED, CURRENT]


async def test_a_scanned_page_is_told_apart_and_the_others_are_found(engine: Engine) -> None:
    done = await bring(engine, Chunk(write_pdf(["Rent is 4,200 a month.", "", "Term ends in 2031."]), PDF, "lease.pdf"))
    assert [(issue.source, "page 2" in issue.message) for issue in done.issues] == [("lease.pdf", True)]
    assert [one.page for one in await find(engine, "term ends")] == [3]


async def test_a_text_in_windows_1252_is_read_and_reported(engine: Engine) -> None:
    done = await bring(engine, Chunk("Café Müller owes £40 – naïve façade.".encode("cp1252"), TEXT, "cafe.txt"))
    (found,) = await find(engine, "owes")
    assert found.text == "Café Müller owes £40 – naïve façade."
    assert "Windows-1252" in done.issues[0].message
    await bring(engine, Chunk("营业收入同比增长百分之十五。".encode("gbk"), TEXT, "收入.txt"))
    assert (await find(engine, "营业收入"))[0].text == "营业收入同比增长百分之十五。"


def make_config(folder: Path) -> Config:
    return Config(corpus_dir=None, index_dir=folder, refresh_s=0, own_encoder="")


async def test_an_own_corpus_is_deleted_when_its_time_is_over(tmp_path: Path) -> None:
    store = MemoryStore()
    engine = Engine(make_config(tmp_path), store, list_parsers())
    await engine.start()
    file = Chunk(b"The secret word is heron.", TEXT, "secret.txt")
    await engine.import_document("acme=docs_1", file, 60)
    assert "heron" in (await find(engine, "secret word", corpus="acme=docs_1"))[0].text
    assert engine.corpora.list_names() == []
    now = engine._lifetimes.now()
    engine._lifetimes.now = lambda: now + 61
    await engine._lifetimes.sweep()
    with pytest.raises(errors.InvalidField, match="docs_1"):
        await find(engine, "secret word", corpus="acme=docs_1")
    assert await store.keys("") == []
    await engine.close()


class DyingStore(MemoryStore):
    """Store of a process that dies at its n-th write."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> object:  # type: ignore[override]
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return await super().put(key, data, content_type)


async def test_an_import_killed_at_every_stage_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    old, new = (
        Chunk(text, TEXT, "memo.txt") for text in (b"The target is 3.25 percent.", b"The target is 3.75 percent.")
    )
    stages, name = 0, "docs_1"
    while True:
        store = DyingStore()
        before = Engine(make_config(tmp_path / f"a{stages}"), store, list_parsers())  # type: ignore[arg-type]
        await before.start()
        await before.import_document(name, old, 60)
        store.left = stages
        try:
            await before.import_document(name, new, 60)
            is_whole = True
        except KeyboardInterrupt:
            is_whole = False
        store.left = 10**9
        # Another process, with nothing on its disk.
        after = Engine(make_config(tmp_path / f"b{stages}"), store, list_parsers())  # type: ignore[arg-type]
        await after.start()
        (found,) = await find(after, "target percent", corpus=name)
        assert ("3.75" in found.text) is is_whole
        await after.import_document(name, new, 60)
        (found,) = await find(after, "target percent", corpus=name)
        assert "3.75" in found.text
        await after.close()
        await before.close()
        if is_whole:
            break
        stages += 1
    assert stages >= 4, "its lifetime, its files, its manifest and its state are written one by one"


async def test_names_of_own_corpora_lead_to_those_of_the_caller_alone(engine: Engine) -> None:
    from fathom.services.retrieval.corpus.own import bind_corpus

    await engine.import_document("acme=docs_1", Chunk(b"The secret word is heron.", TEXT, "s.txt"), 60)
    with calling(Call("r", tenant="acme")):
        assert (await find(engine, "secret", corpus=bind_corpus("docs_1")))[0].source == "s.txt"
    for tenant, wanted in (("other", "docs_1"), ("default", "docs_1"), ("other", "acme=docs_1")):
        with calling(Call("r", tenant=tenant)), pytest.raises(errors.InvalidField, match="corpus"):
            await find(engine, "secret", corpus=bind_corpus(wanted))
    with pytest.raises(errors.InvalidField, match="docs_"):
        engine.corpora.open_for_writing("docs_1")


async def test_a_document_of_an_own_corpus_says_that_it_is_one(engine: Engine) -> None:
    servicer = RetrievalServicer(engine, MemoryStore())
    await engine.import_document("acme=docs_1", Chunk(b"The secret word is heron.", TEXT, "s.txt"), 60)
    await bring(engine, Chunk(b"The open word is crane.", TEXT, "o.txt"))
    with calling(Call("r", tenant="acme")) as call:
        for corpus, query, is_own in (("docs_1", "secret", True), ("main", "open", False)):
            found = await servicer.Search(pb.SearchRequest(queries=[query], corpus=corpus), call)
            [hit] = found.results[0].hits
            fetched = await servicer.Fetch(pb.FetchRequest(ids=[hit.id], corpus=corpus), call)
            assert fetched.results[0].document.own is is_own


@pytest.mark.parametrize(
    ("title", "shown"), [("a.html", "report"), ("Annual report 2031", "Annual report 2031"), ("", "report")]
)
def test_a_title_that_is_the_name_of_a_file_is_none(title: str, shown: str) -> None:
    (passage,) = make_passages(ParsedDocument("Rents rose.", "q3/report.pdf", "file", title=title), "q3/report.pdf")
    assert isinstance(passage, Document)
    assert passage.title == shown
