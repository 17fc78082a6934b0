"""Filters and as_of before ranking, freshness, statuses per query, pages that add up, bundles that are broken."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathom.core import errors
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.documents.model import EVERYTHING, Filter
from fathom.services.retrieval.engine import Engine, Page
from fathom.transport.store.memory import MemoryStore

Write = Callable[[list[dict[str, Any]]], Path]
BANKS = {"old", "new", "note", "undated"}


def day(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


async def ids(
    engine: Engine, query: str, allowed: Filter = EVERYTHING, top_k: int = 10, half_life: float = 0
) -> list[str]:
    _, (result,) = await engine.search([query], top_k, allowed, half_life)
    assert isinstance(result, list), result
    return [hit.document.id for hit in result]


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (EVERYTHING, BANKS),
        (Filter(types=frozenset({"news"})), {"old", "new", "undated"}),
        (Filter(sources=frozenset({"own"})), {"note"}),
        (Filter(entities=frozenset({"bac"})), {"new", "note"}),
        (Filter(entities=frozenset({"JPM", "BAC"}), types=frozenset({"note"})), {"note"}),
        (Filter(after=day(2010)), {"note", "new"}),
        (Filter(before=day(2010)), {"old"}),
        (Filter(after=day(2002), before=day(2020)), {"note"}),
        (Filter(as_of=day(2010)), {"old", "note"}),
        (Filter(as_of=day(2000)), set()),
        (Filter(entities=frozenset({"NONE"})), set()),
    ],
)
async def test_filters(engine: Engine, allowed: Filter, expected: set[str]) -> None:
    assert set(await ids(engine, "bank", allowed)) == expected


async def test_filters_hold_before_ranking(engine: Engine) -> None:
    """The best document that is allowed takes the only place, however many better ones are not."""
    assert await ids(engine, "bank profits 2001", top_k=1) == ["old"]
    assert await ids(engine, "bank profits 2001", Filter(sources=frozenset({"own"})), top_k=1) == ["note"]


async def test_news_fade_and_notes_do_not(engine: Engine) -> None:
    assert (await ids(engine, "bank profits rose"))[0] == "old"
    assert (await ids(engine, "bank profits rose", half_life=365))[0] == "new"
    faded = await ids(engine, "bank profits", half_life=1e-9)
    assert set(faded) == BANKS, "old news rank last, they do not vanish"
    assert faded[-1] == "old"
    at_the_time = Filter(as_of=day(2002))
    assert await ids(engine, "bank profits", at_the_time, half_life=1) == ["old"]


@pytest.mark.parametrize(
    ("query", "expected"), [("银行股 利率", "zh"), ("涨", "zh"), ("JPM 银行", "zh"), ("Line 7", "long")]
)
async def test_chinese_and_english(engine: Engine, query: str, expected: str) -> None:
    assert (await ids(engine, query))[0] == expected


async def test_each_query_has_its_own_outcome(engine: Engine) -> None:
    _, found = await engine.search(["bank", "", " \t", "x" * 2_001, "qqqq", "利率"])
    kinds = [type(result) for result in found]
    assert kinds == [list, errors.InvalidField, errors.InvalidField, errors.InvalidField, list, list]
    assert [error.field for error in found if isinstance(error, errors.InvalidField)] == [
        "queries[1]", "queries[2]", "queries[3]",
    ]  # fmt: skip
    assert found[4] == []


async def test_a_summary_is_short_and_not_the_text(engine: Engine) -> None:
    for query in ("bank", "line", "银行"):
        _, (hits,) = await engine.search([query])
        assert isinstance(hits, list)
        for hit in hits:
            assert 0 < len(hit.summary) <= 60
            assert hit.document.text.strip() not in hit.summary


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"queries": []}, "queries"),
        ({"queries": ["x"] * 257}, "queries"),
        ({"top_k": 101}, "top_k"),
        ({"top_k": -1}, "top_k"),
        ({"half_life_days": -1.0}, "recency_half_life_days"),
        ({"half_life_days": float("nan")}, "recency_half_life_days"),
        ({"half_life_days": float("inf")}, "recency_half_life_days"),
    ],
)
async def test_what_concerns_all_queries_is_refused_by_field(
    engine: Engine, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await engine.search(**({"queries": ["bank"]} | fields))
    assert bad.value.field == field


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(size=st.integers(1, 2_000))
async def test_pages_are_the_text(engine: Engine, size: int) -> None:
    parts, token = [], ""
    while True:
        _, (page,) = await engine.fetch(["long"], size, token)
        assert isinstance(page, Page)
        parts.append(page.text)
        token = page.next_token
        if not token:
            break
    text = page.document.text
    assert "".join(parts) == text
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)


@pytest.mark.parametrize("token", ["%%%", "bm90", "-1", "a" * 10_000, base64.urlsafe_b64encode(b"\xff\xfe").decode()])
async def test_a_strange_token_is_refused(engine: Engine, token: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await engine.fetch(["long"], 100, token)
    assert bad.value.field == "page_token"


async def test_unknown_ids_have_neighbours_but_none_of_the_future(engine: Engine) -> None:
    _, (first, unknown, huge) = await engine.fetch(["note", "notes", "n" * 100_000])
    assert isinstance(first, Page)
    assert isinstance(unknown, errors.NotFound)
    assert "note" in unknown.nearest
    assert isinstance(huge, errors.NotFound)
    assert len(huge.message) < 1_000
    _, (hidden,) = await engine.fetch(["new"], as_of=day(2020))
    assert isinstance(hidden, errors.NotFound)
    assert "new" not in hidden.nearest
    _, (undated,) = await engine.fetch(["undated"], as_of=day(2030))
    assert isinstance(undated, errors.NotFound), "nobody can say that it was there"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ids": []}, "ids"), ({"ids": ["a"] * 33}, "ids"), ({"page_size": -1}, "page_size"),
        ({"page_size": 100_001}, "page_size"), ({"ids": ["old", "new"], "page_token": "x"}, "page_token"),
    ],
)  # fmt: skip
async def test_bad_fetches_are_refused_by_field(engine: Engine, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await engine.fetch(**({"ids": ["old"]} | fields))
    assert bad.value.field == field


async def test_unknown_corpora_and_snapshots(engine: Engine) -> None:
    active = (await engine.corpora.get_snapshot("")).id
    assert (await engine.corpora.get_snapshot("bundled", active)).id == active
    with pytest.raises(errors.InvalidField, match="corpus"):
        await engine.search(["bank"], corpus="other")
    with pytest.raises(errors.NotFound) as unknown:
        await engine.search(["bank"], snapshot="other")
    assert unknown.value.nearest == (active,)


def row(**fields: Any) -> dict[str, Any]:
    whole = {
        "id": "a",
        "title": "t",
        "text": "x y",
        "published": "",
        "source": "s",
        "type": "note",
        "entities": [],
        "language": "en",
    }
    return {key: value for key, value in (whole | fields).items() if value is not None}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no document"),
        ([row(), row()], r":2 is corrupt.*twice"),
        ([row(), row(id="b", title=5)], r":2 is corrupt.*title"),
        ([row(published="soon")], r":1 is corrupt"),
        ([row(entities=[1])], r":1 is corrupt"),
        ([row(id="")], r":1 is corrupt"),
    ],
)
async def test_a_broken_corpus_is_named_by_line(write_bundle: Write, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(errors.CorruptData, match=message):
        await Engine(Config(corpus_dir=write_bundle(rows)), MemoryStore()).start()


async def test_a_changed_or_missing_file_is_named(write_bundle: Write) -> None:
    folder = write_bundle([row()])
    (folder / "documents.jsonl").write_bytes(b"{}\n")
    with pytest.raises(errors.CorruptData, match=r"documents\.jsonl.*checksum"):
        await Engine(Config(corpus_dir=folder), MemoryStore()).start()
    with pytest.raises(errors.CorruptData, match="is not there"):
        await Engine(Config(corpus_dir=folder / "nowhere"), MemoryStore()).start()


async def test_line_separators_inside_a_text_split_no_row(write_bundle: Write) -> None:
    engine = Engine(Config(corpus_dir=write_bundle([row(text="one\u2028two\x85three")])), MemoryStore())
    await engine.start()
    assert (await engine.corpora.get_snapshot("")).table.documents[0].text == "one\u2028two\x85three"
    await engine.close()
