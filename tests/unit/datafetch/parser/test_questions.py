"""Names beside other words, and days that are points in time."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import MentionKind
from fathom.services.datafetch.parser.question import Understanding

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_length_of_a_year_before_a_price_index_is_its_change(engine: Engine) -> None:
    query = (await engine.read("Twelve-month CPI in June 2022", None)).query
    assert (query.indicators, query.transform, query.start) == (("cpiaucsl",), "yoy", date(2022, 6, 1))


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


async def test_after_a_period_excludes_it(engine: Engine) -> None:
    assert [
        (await engine.read(text, None)).query.start
        for text in ("Apple since 2018", "Apple after 2018", "苹果2018年之后")
    ] == [
        date(2018, 1, 1),
        date(2019, 1, 1),
        date(2019, 1, 1),
    ]


async def test_two_open_periods_are_refused_by_name(engine: Engine) -> None:
    result = await engine.ask("Housing starts: average before 2008 versus after 2010", None)
    assert not result.sheets
    assert {"before 2008", "after 2010"} <= {item.subject for item in result.missing}


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("30-year mortgage rate against thirty-year Treasury from 2005 to 2010", date(2005, 1, 1), date(2010, 12, 31)),
        ("Apple between the start and end of 2021", date(2021, 1, 1), date(2021, 12, 31)),
        ("Walmart close on Christmas Eve 2020", date(2020, 12, 24), date(2020, 12, 24)),
        ("2019年哪一天苹果跌得最惨", date(2019, 1, 1), date(2019, 12, 31)),
    ],
)
async def test_a_period_is_the_one_that_is_named(engine: Engine, question: str, start: date, end: date) -> None:
    query = (await engine.read(question, None)).query
    assert (query.start, query.end) == (start, end)


async def test_a_verb_behind_a_name_is_no_part_of_it(engine: Engine) -> None:
    seen = await engine.read("how did unemployment and inflation move in 2019", None)
    assert (seen.query.indicators, seen.missing) == (("unrate", "yoy(cpiaucsl)"), [])


async def test_a_time_named_by_an_event_gives_no_figures_of_all_times(engine: Engine) -> None:
    assert not (await engine.ask("Trough in payrolls during the savings and loan crisis", None)).sheets


async def test_a_time_named_by_a_known_event_says_its_days(engine: Engine) -> None:
    (sheet,) = (await engine.ask("Trough in payrolls during the covid recession", None)).sheets
    assert "2020-02-01 to 2020-04-30" in sheet.title


async def test_inflation_beside_price_indices_is_their_growth(engine: Engine) -> None:
    query = (await engine.read("PPI vs CPI, annual inflation, 1973 to 1975", None)).query
    assert query.indicators == ("yoy(ppiaco)", "yoy(cpiaucsl)")


async def test_a_text_is_read_once_for_all_who_ask(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    question, reader, texts = "unemployment rate in May 2016, zorbly", engine.reader.read, list[str]()

    def read_and_count(question: str, as_of: date | None) -> Understanding:
        texts.append(question)
        return reader(question, as_of)

    monkeypatch.setattr(engine.reader, "read", read_and_count)
    first, *others = await asyncio.gather(*(engine.read(question, None) for _ in range(12)))
    missing = list(first.missing)
    await engine.ask(question, None)
    assert texts == [question]
    assert all(other is first for other in others)
    assert first.missing == missing


@pytest.mark.parametrize(
    ("question", "ranges"),
    [
        ("Apple return in 2019 and 2021", ["2019-01-01/2019-12-31", "2021-01-01/2021-12-31"]),
        ("Housing starts: average in 2008 versus 2009", ["2008-01-01/2008-12-31", "2009-01-01/2009-12-31"]),
        ("the unemployment rate in 2019 and 2020", []),
        ("How big was JPMorgan's maximum drawdown during 2008 and 2009?", []),
        ("CPI yoy in June 2021 and June 2022", ["2021-06-01/2021-06-30", "2022-06-01/2022-06-30"]),
        ("2021年6月和2022年6月CPI同比", ["2021-06-01/2021-06-30", "2022-06-01/2022-06-30"]),
    ],
)
async def test_several_periods_have_their_values_each(engine: Engine, question: str, ranges: list[str]) -> None:
    query = (await engine.read(question, None)).query
    assert query.indicators
    assert [f"{start}/{end}" for start, end in query.periods] == ranges


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("MTUM and value in 2016", "value"),
        # The learned reader reads names that share their end; without it none is dropped.
        ("value and momentum ETFs in 2016", "value"),
        ("value, quality or momentum ETFs in 2016", "quality"),
        ("价值、规模和动量因子2016年涨幅", "规模"),
        ("values and MTUM in 2016", "values"),
        ("Apple or Zorbly return in 2016", "Zorbly"),
        ("价值和黄金2016年", "价值"),
        ("苹果和茅台2016年的涨幅", "茅台"),
    ],
)
async def test_a_word_that_is_joined_to_a_name_is_named_if_it_is_none(
    engine: Engine, question: str, words: str
) -> None:
    seen = await engine.read(question, None)
    assert words in [item.subject for item in seen.missing]


async def test_words_of_the_names_that_were_taken_are_no_figures(engine: Engine) -> None:
    seen = await engine.read("MTUM, SIZE, VLUE - which factor ETF lost least in the first quarter of 2020?", None)
    assert (seen.query.entities, seen.query.statistics, seen.missing) == (("MTUM", "SIZE", "VLUE"), ("return",), [])


async def test_the_base_year_of_an_index_is_no_period(engine: Engine) -> None:
    for year, missing in (("2017", []), ("2012", ["(2012 = 100)"])):
        seen = await engine.read(f"Industrial production index for Feb 2009 ({year} = 100)", None)
        assert (seen.query.start, seen.query.end) == (date(2009, 2, 1), date(2009, 2, 28))
        assert [item.subject for item in seen.missing] == missing
