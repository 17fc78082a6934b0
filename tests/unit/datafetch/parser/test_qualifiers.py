"""A qualifier before a name that nothing here knows is named as open, or the question is refused."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import MentionKind, select

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Words for peoples and places, invented names and an adjective, none of which the catalog has.
QUALIFIERS = ["Chilean", "Peruvian", "Kenyan", "Zorbian", "frumious"]
QUALIFIERS_ZH = ["智利", "日本", "中国", "天津", "乌拉圭", "古怪的"]
ANSWERED = [
    "What was the average price of gold in 2012?",
    "the average VIX close in 2016",
    "US unemployment rate in June 2021",
    "What was Apple's return in 2019?",
    "Microsoft's closing price on 3 March 2020 in dollars",
    "How many yen did one euro buy on 4 January 2016?",
    "Maximum drawdown of the S&P 500 in 2008",
]
ANSWERED_ZH = [
    "2012年黄金的平均价格是多少？",
    "2021年6月美国失业率是多少？",
    "苹果2019年涨了多少？",
    "2016年1月4日1欧元能换多少日元？",
    "标普500在2008年的最大回撤",
]


@pytest.mark.parametrize("question", ANSWERED + ANSWERED_ZH)
async def test_a_qualifier_before_a_name_is_never_dropped(engine: Engine, question: str) -> None:
    assert (await engine.ask(question, None)).sheets
    names = select((await engine.read(question, None)).mentions, MentionKind.ENTITY, MentionKind.INDICATOR)
    dropped = []
    for name in names:
        for word in QUALIFIERS if question.isascii() else QUALIFIERS_ZH:
            # Behind an article, which belongs to the whole: "the US".
            start = name.start + 4 * question[name.start : name.end].startswith("the ")
            asked = f"{question[:start]}{word}{' ' * question.isascii()}{question[start:]}"
            result = await engine.ask(asked, None)
            said = " ".join(f"{item.subject} {item.aspect}" for item in result.missing)
            if result.sheets and word.removesuffix("的") not in said:
                dropped.append((asked, said))
    assert names
    assert dropped == []


async def test_a_name_of_characters_that_are_function_words_elsewhere_is_read_as_one(engine: Engine) -> None:
    for question, name in (("中国2020年的GDP增速是多少？", "中国"), ("2019年日本名义GDP", "日本")):
        [unread] = select((await engine.read(question, None)).mentions, MentionKind.UNKNOWN)[:1]
        assert question[unread.start : unread.end] == name


@pytest.mark.parametrize(
    ("question", "columns", "missing"),
    [
        ("Unemployment of Apple and the US in 2019", ["US.unrate"], "Apple"),
        ("unemployment rate of Apple, Microsoft, and the US in 2019", ["US.unrate"], "Microsoft"),
        ("2019年苹果和美国的失业率", ["US.unrate"], "Apple"),
        ("US CPI and gold in 2019", ["US.cpiaucsl", "GOLD.close_adj"], ""),
        ("2019年黄金和美国CPI", ["US.cpiaucsl", "GOLD.close_adj"], ""),
    ],
)
async def test_who_has_no_such_figure_is_missing_and_gets_no_other_one(
    engine: Engine, question: str, columns: list[str], missing: str
) -> None:
    result = await engine.ask(question, None)
    assert [column.name for sheet in result.sheets for column in sheet.columns if column.indicator] == columns
    assert [item.subject for item in result.missing if item.subject == missing] == [missing] * bool(missing)


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("How many dollars was Apple's share price on 3 March 2020?", "USD"),
        ("How many pounds was Apple worth on 3 March 2020?", "GBP"),
    ],
)
async def test_how_many_of_a_currency_asks_for_money_and_for_no_rate(engine: Engine, question: str, unit: str) -> None:
    [sheet] = (await engine.ask(question, None)).sheets
    assert [column.unit for column in sheet.columns if column.indicator] == [unit]
