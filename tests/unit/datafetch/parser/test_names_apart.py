"""Names whose words stand apart, words that a guess must not change, and days that are points in time."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.services.datafetch.catalog.name_words import NameWords
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.parser.question import trim
from fathom.services.datafetch.parser.rewording import is_clear, prefer_specific

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "indicators"),
    [
        ("home prices in 2012 in Miami, Denver and Seattle", ("mixrsa", "dnxrsa", "sexrsa")),
        ("2012年迈阿密、丹佛、西雅图三个城市的房价指数", ("mixrsa", "dnxrsa", "sexrsa")),
        ("the 2-, 10- and 30-year Treasury yields in 2020", ("gs2", "gs10", "gs30")),
    ],
)
async def test_a_list_that_shares_a_name_is_all_of_its_series(
    engine: Engine, question: str, indicators: tuple[str, ...]
) -> None:
    assert (await engine.read(question, None)).query.indicators == indicators


async def test_a_name_is_found_by_its_words_without_others() -> None:
    names = NameWords([("Miami home prices", "mi"), ("Miami home prices and rents", "more"), ("home prices", "all")])
    assert names.find({"miami", "home", "pric"}, ()) == ["mi"]
    assert names.find({"miami", "home", "pric"}, ("rent", "and")) == ["mi", "more"]
    assert names.find({"tampa", "home"}, ()) == []


@pytest.mark.parametrize(
    "question",
    [
        "Apple total return from the last close of 2011 to the last close of 2016",
        "Apple's return from the last trading day of 2011 to the last trading day of 2016",
        "苹果从2011年最后一个交易日持有到2016年最后一个交易日的收益率",
    ],
)
async def test_the_last_close_of_a_year_is_its_end(engine: Engine, question: str) -> None:
    query = (await engine.read(question, None)).query
    assert (query.start, query.end, query.periods) == (date(2012, 1, 1), date(2016, 12, 31), ())


async def test_a_day_with_dots_has_its_month_second(engine: Engine) -> None:
    assert (await engine.read("yen per euro on 03.10.2022", None)).query.start == date(2022, 10, 3)


@pytest.mark.parametrize("question", ["里拉和2020年底比贬值了多少", "How much did gold gain by the end of 2015?"])
async def test_one_point_in_time_is_no_period_of_a_return(engine: Engine, question: str) -> None:
    assert (await engine.read(question, None)).query.indicators == ()


@pytest.mark.parametrize(
    "question", ["Write a report on gold in 2015", "Sketch the gold price in 2015", "写一份2015年黄金的报告"]
)
async def test_an_imperative_is_no_name(engine: Engine, question: str) -> None:
    seen = await engine.read(question, None)
    assert seen.query.entities == ("GOLD",)
    assert not [item for item in seen.missing if item.reason == "UNKNOWN_ENTITY"]


async def test_a_code_of_a_share_is_read_in_small_letters(engine: Engine) -> None:
    assert (await engine.read("how much did nvda return in 2020", None)).query.entities == ("NVDA",)


async def test_a_numeral_that_begins_a_word_without_content_is_no_number(engine: Engine) -> None:
    found = (await engine.read("2010年失业率一共是多少", None)).mentions
    assert not [item for item in found if item.kind == MentionKind.PARAMETER]


async def test_a_phrase_that_is_reworded_leaves_its_measure() -> None:
    yoy = Mention(MentionKind.MEASURE, 7, 9, "yoy")
    assert trim((0, 9), [Mention(MentionKind.INDICATOR, 4, 7, "cpi"), yoy]) == (0, 7)


async def test_a_clear_lead_makes_up_for_a_lower_likeness() -> None:
    assert is_clear(0.7, 0.65)
    assert is_clear(0.55, 0.4)
    assert not is_clear(0.55, 0.5)
    assert not is_clear(0.45, 0.1)


async def test_the_more_specific_of_two_names_is_meant() -> None:
    found = [("gasoline price", 0.8), ("regular gasoline price", 0.7), ("diesel price", 0.6)]
    assert prefer_specific("price for regular", found)[0][0] == "regular gasoline price"
    assert prefer_specific("pump price", found)[0][0] == "gasoline price"
