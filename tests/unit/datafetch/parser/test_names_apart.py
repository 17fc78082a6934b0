"""Names whose words stand apart, words that a guess must not change, and days that are points in time."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.services.datafetch.catalog.name_words import NameWords, list_roots
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


async def test_the_name_that_says_least_beside_the_words_is_meant() -> None:
    names = NameWords([("Miami home prices", "mi"), ("Miami home prices and rents", "more"), ("home prices", "all")])
    assert names.choose(list_roots("home prices in Miami")) == "mi"
    assert [one.id for one in names.find(list_roots("rents in Miami"))] == ["more"]
    assert names.choose(list_roots("Miami"), list_roots("home prices")) == "mi"
    assert names.choose(list_roots("Tampa home")) == ""


async def test_words_that_two_names_hold_alike_choose_none_but_twins_do() -> None:
    names = NameWords(
        [("exports to Mexico", "out"), ("imports from Mexico", "in"), ("M2 (SA)", "sa"), ("M2 (SA)", "nsa")]
    )
    assert names.choose(list_roots("Mexico")) == ""
    assert names.choose(list_roots("M2 SA")) == "sa"


async def test_what_a_total_is_of_says_nothing_more() -> None:
    names = NameWords([("West Coast All Grades Gas Price", "all"), ("West Coast Regular Gas Price", "regular")])
    assert names.choose(list_roots("gas price on the West Coast")) == "all"


@pytest.mark.parametrize(
    ("question", "indicators"),
    [
        ("What was the US pump price for regular in June 2022?", ("gasregm",)),
        ("premium gas price in July 2008", ("gasprmm",)),
        ("Median duration of unemployment in June 2010", ("uempmed",)),
        ("gas price on the West Coast in June 2022", ("gasallwcm",)),
        ("In the potential-output series (chained 2012 dollars), real GDP for Q4 2030", ("gdppot",)),
        ("12-month CPI inflation in June 2022", ("cpi_inflation",)),
    ],
)
async def test_words_of_a_title_beside_a_name_choose_the_series(
    engine: Engine, question: str, indicators: tuple[str, ...]
) -> None:
    assert (await engine.read(question, None)).query.indicators == indicators


async def test_a_length_of_a_year_before_a_price_index_is_its_change(engine: Engine) -> None:
    query = (await engine.read("Twelve-month CPI in June 2022", None)).query
    assert (query.indicators, query.transform, query.start) == (("cpiaucsl",), "yoy", date(2022, 6, 1))


@pytest.mark.parametrize(
    ("question", "entities"),
    [
        ("五只因子ETF（动量、质量、规模、低波、价值）2020年的回报", ("MTUM", "QUAL", "SIZE", "USMV", "VLUE")),
        ("the return of the five factor ETFs in 2020", ("MTUM", "QUAL", "SIZE", "USMV", "VLUE")),
        ("big pharma's return in 2020", ("JNJ", "LLY", "MRK", "PFE")),
        ("two big US banks, JPMorgan and Bank of America, in 2008", ("JPM", "BAC")),
        ("the return of the three factor ETFs in 2020", ()),
    ],
)
async def test_a_group_is_its_members_unless_they_are_named(
    engine: Engine, question: str, entities: tuple[str, ...]
) -> None:
    assert (await engine.read(question, None)).query.entities == entities


async def test_of_two_series_of_oil_one_is_taken_and_the_other_named(engine: Engine) -> None:
    seen = await engine.read("2014年油价", None)
    assert seen.query.entities == ("WTI",)
    assert any("BRENT" in item.detail for item in seen.missing)


async def test_words_that_say_what_the_values_are_anyway_are_understood(engine: Engine) -> None:
    seen = await engine.read("wti spot, 3-Oct-18?", None)
    assert (seen.query.entities, seen.query.start, seen.missing) == (("WTI",), date(2018, 10, 3), [])


async def test_a_word_is_no_name_that_begins_with_another_letter(engine: Engine) -> None:
    assert (await engine.read("is US manufacturing in trouble", None)).query.entities != ("RUB",)


async def test_an_era_without_days_and_a_reversed_range_are_refused_by_name(engine: Engine) -> None:
    for question, words, said in (
        ("the Nasdaq's highest close of the dot-com era", "the dot-com era", "no days"),
        (
            "unemployment rate from June 2014 to February 2011",
            "from June 2014 to February 2011",
            "ends before it begins",
        ),
    ):
        seen = await engine.read(question, None)
        assert not seen.query.indicators
        assert [said in item.detail for item in seen.missing if item.subject == words] == [True]


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
