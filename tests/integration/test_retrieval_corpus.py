"""Retrieval on the bundled corpus: questions find their notes; filters hold before ranking; pages add up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from fathom import errors
from services.retrieval.config import Config
from services.retrieval.engine import Engine, Filter

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(corpus_dir: Path) -> AsyncIterator[Engine]:
    engine = Engine(Config(corpus_dir=corpus_dir))
    await engine.start()
    yield engine


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("maximum drawdown", "note-method-maximum-drawdown"),
        ("how is CAGR computed", "note-method-cagr"),
        ("annualised volatility of daily returns", "note-method-volatility"),
        ("look-ahead in moving average rules", "note-method-moving-average-rule"),
        ("inverted yield curve before recessions", "note-macro-yield-curve"),
        ("Apple iPhone company", "note-company-aapl"),
        ("which company makes Azure", "note-company-msft"),
        ("Lehman Brothers bankruptcy", "note-episode-financial-crisis"),
        ("stock market crash in the pandemic", "note-episode-covid-crash"),
        ("ECB euro reference rates", "note-fx-ecb-reference-rates"),
        ("最大回撤怎么计算", "note-zh-最大回撤"),
        ("失业率的定义", "note-zh-失业率"),
        ("收益率曲线倒挂", "note-zh-收益率曲线"),
        ("复权价格", "note-zh-复权价格"),
    ],
)
async def test_queries_find_their_note_in_the_first_three(engine: Engine, query: str, expected: str) -> None:
    assert expected in [hit.document.id for hit in engine.search(query, 3, Filter(), 0)]


async def test_filters_hold_before_ranking(engine: Engine) -> None:
    assert {hit.document.type for hit in engine.search("bank", 50, Filter(types=frozenset({"news"})), 0)} == {"news"}
    only = engine.search("drawdown company shares", 10, Filter(entities=frozenset({"AAPL"})), 0)
    assert only
    assert all("AAPL" in hit.document.entities for hit in only)
    assert engine.search("drawdown", 5, Filter(as_of=datetime(2020, 1, 1, tzinfo=UTC)), 0) == []
    assert engine.search("qqqqq", 5, Filter(), 0) == []


async def test_a_search_never_returns_the_text(engine: Engine) -> None:
    for hit in engine.search("government", 20, Filter(), 0):
        assert len(hit.summary) <= 240
        assert hit.summary != hit.document.text


async def test_pages_are_the_text(engine: Engine) -> None:
    document = max(engine.documents, key=lambda item: len(item.text))
    text, token = "", ""
    while True:
        page = engine.fetch(document.id, 100, token, None)
        text, token = text + page.text, page.next_token
        if not token:
            break
    assert text == document.text


async def test_bad_input_is_named(engine: Engine) -> None:
    with pytest.raises(errors.NotFound) as unknown:
        engine.fetch("note-method-cagrr", 0, "", None)
    assert "note-method-cagr" in unknown.value.nearest
    token = engine.fetch("news-001", 10, "", None).next_token
    for ident, bad in (("news-002", token), ("news-001", "%%%"), ("news-001", "bm90")):
        with pytest.raises(errors.InvalidField, match="page_token"):
            engine.fetch(ident, 10, bad, None)
    for query in ("", " ", "x" * 2001):
        with pytest.raises(errors.InvalidField, match="queries"):
            engine.search(query, 3, Filter(), 0)
    with pytest.raises(errors.InvalidField, match="top_k"):
        engine.top_k(101)
    with pytest.raises(errors.InvalidField, match="corpus"):
        engine.corpus("other")
