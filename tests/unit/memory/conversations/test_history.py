"""Search of conversations by the words of their titles, questions and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.services.memory.engine import Engine, Turn


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """Return an engine with three conversations, the newest last."""
    engine = Engine(tmp_path / "memory.db")
    await engine.start()
    said = [
        ("prices", "How did Apple do in 2020?", "It **rose** by 82 % [2][3].\n\n{{table:sheet_1}}\n\nMargins fell."),
        ("rates", "Which way did rates go?", "The yield fell to 0.93 %_a year."),
        ("zh", "贵州茅台的毛利率？", "2020年毛利率为91.4%，较上年略有上升。"),
    ]
    for number, (name, question, answer) in enumerate(said):
        await engine.append(f"r{number}", name, Turn(question, "", answer, f"run_{number}"))
    yield engine
    await engine.close()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("apple", ["prices"]),
        ("APPLE margins", ["prices"]),
        ("毛利率 上升", ["zh"]),
        ("fell", ["rates", "prices"]),
        ("apple yield", []),
        # Signs that SQL's patterns know stand for themselves.
        ("%_a", ["rates"]),
        ("9_.4", []),
        ("", ["zh", "rates", "prices"]),
    ],
)
async def test_conversations_are_found_by_words_of_titles_and_turns(
    engine: Engine, query: str, names: list[str]
) -> None:
    found, token = await engine.list_conversations(searched=query)
    assert ([item.id for item in found], token) == (names, "")


async def test_a_renamed_title_is_found_and_needs_no_passage(engine: Engine) -> None:
    await engine.update("rates", "Zinsen im Überblick", None)
    (found,), _ = await engine.list_conversations(searched="zinsen")
    assert (found.id, found.passage) == ("rates", "")


async def test_the_passage_shows_the_word_without_markup(engine: Engine) -> None:
    (found,), _ = await engine.list_conversations(searched="margins")
    assert found.passage == "It rose by 82 % . Margins fell. How did Apple do in 2020?"
    assert (await engine.list_conversations())[0][0].passage == ""


async def test_a_search_is_paged_and_its_token_fits_no_other(engine: Engine) -> None:
    first, token = await engine.list_conversations(1, searched="fell")
    second, end = await engine.list_conversations(1, token, "fell")
    assert ([item.id for item in first + second], end) == (["rates", "prices"], "")
    with pytest.raises(errors.InvalidField, match="page_token"):
        await engine.list_conversations(1, token, "apple")


async def test_another_tenant_finds_nothing(engine: Engine) -> None:
    with calling(replace(Call.new(), tenant="other")):
        assert await engine.list_conversations(searched="apple") == ([], "")


@pytest.mark.parametrize("query", ["x" * 201, "a b c d e f g h i", "x\0"])
async def test_a_query_that_costs_too_much_is_named(engine: Engine, query: str) -> None:
    with pytest.raises(errors.InvalidField) as refused:
        await engine.list_conversations(searched=query)
    assert refused.value.metadata["field"] == "query"
