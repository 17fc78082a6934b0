"""Programs completed by words of their questions, as the learned reader leaves them and the words are read by rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
import pytest_asyncio

from fathom.domain.programs.language import Call, parse
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.programs.catalogue import list_entries
from fathom.services.datafetch.programs.completing import Completer
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Catalogue, Resolved, resolve

TODAY = date(2026, 11, 30)
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Completing:
    """Completes given programs over the bundled series."""

    def __init__(self, engine: Engine) -> None:
        entries = list_entries(engine.layer, engine.warehouse)
        places = {one.id: (one.entity, one.indicator) for one in entries}
        days = {(one.entity, one.indicator): one.facts.last for one in entries}

        def find_last_day(series: Sequence[tuple[str, str]]) -> date | None:
            return min((days[one] for one in series), default=None)

        self._engine = engine
        self._catalogue = Catalogue(
            places.get, lambda group: (), lambda *one: one in days, find_last_day, lambda one, is_zh: one
        )
        self._completer = Completer(entries, self.resolve, engine.layer)

    def resolve(self, program: Sequence[Call], today: date | None) -> Resolved:
        """Return the steps of a program."""
        return resolve(program, self._catalogue, today)

    async def complete(self, program: str, *texts: str) -> str:
        """Return the text of a completed program of the last of some questions."""
        found = self.resolve(parse(program), TODAY)
        reading = ProgramReading(program, found.kind, 0.9, 1.0, found.steps, found.series, found.missing, found.words)
        seen = await self._engine.read(texts[-1], TODAY)
        return self._completer.complete(reading, texts, seen.mentions, TODAY).text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def completing(engine: Engine) -> Completing:
    """Complete over the bundled tables."""
    return Completing(engine)


@pytest.mark.parametrize(
    ("question", "program", "wanted"),
    [
        (
            "60-day volatility of Apple in 2020: when was it highest?",
            'maximum(within(series("Apple", AAPL), "2020"))',
            'maximum(within(rolling_vol(series("Apple", AAPL), "60", day), "2020"))',
        ),
        (
            "看2020年内的英伟达：用30个交易日滚动窗口算年化波动率，最高到过多少？",
            'vol(within(series("英伟达", NVDA), "2020年内"))\nmaximum(within(moves(series("英伟达", NVDA), day), "2020年"))',
            'maximum(within(rolling_vol(series("英伟达", NVDA), "30", day), "2020年"))',
        ),
        (
            "highest 90-day volatility of Exxon in 2020",
            'vol(within(series("Exxon", XOM), "2020"))',
            'maximum(within(rolling_vol(series("Exxon", XOM), "90", day), "2020"))',
        ),
        (
            "苹果2020年3月23日的20日均线",
            'at(series("苹果", AAPL), "2020年3月23日")',
            'at(average(series("苹果", AAPL), "20"), "2020年3月23日")',
        ),
        (
            "3-month return of Apple at the end of each month of 2019",
            'within(every(series("Apple", AAPL), month, last), "2019")',
            'within(every(rolling_ret(series("Apple", AAPL), "3", month), month, last), "2019")',
        ),
        # Of three weeks a daily series has no three values.
        (
            "3-week average of the VIX: its low in 2017",
            'minimum(within(series("VIX", VIX), "2017"))',
            'minimum(within(series("VIX", VIX), "2017"))',
        ),
        # A beta has a window of its own, which nothing here computes.
        (
            "60-day volatility and beta of Apple against the S&P 500 in 2020",
            'beta(within(series("Apple", AAPL), "2020"), series("S&P 500", SP500))',
            'beta(within(series("Apple", AAPL), "2020"), series("S&P 500", SP500))',
        ),
    ],
)
async def test_a_length_is_the_window_of_the_measure_behind_it(
    completing: Completing, question: str, program: str, wanted: str
) -> None:
    assert await completing.complete(program, question) == wanted


async def test_a_denied_comparison_goes_the_other_way(completing: Completing) -> None:
    program = 'count_if(within(yoy(series("consumer prices", cpiaucsl)), "From 2011 to 2019"), above, "2 percent")'
    question = (
        "From 2011 to 2019, in how many months was the year-on-year change in consumer prices not above 2 percent?"
    )
    assert await completing.complete(program, question) == program.replace("above", "at_most")
    # As the question has it, it stays.
    plain = question.replace("not above", "above")
    assert await completing.complete(program, plain) == program


async def test_a_condition_on_another_series_chooses_its_days(completing: Completing) -> None:
    question = "Averaging only the months between 2008 and 2013 when US unemployment was over 8%: the prime rate?"
    wanted = 'mean(within(where(series("prime rate", mprime), series("unemployment", unrate), above, "8%"), "{}"))'
    wanted = wanted.format("between 2008 and 2013")
    counted = 'count_if(within(series("prime rate", mprime), "2008"), above, "8%")'
    assert await completing.complete(counted, question) == wanted
    assert await completing.complete('mean(within(series("prime rate", mprime), "2008"))', question) == wanted
    # Daily values of a month would have to be chosen by the month that they lie in.
    daily = 'mean(within(series("VIX", VIX), "2008"))'
    assert await completing.complete(daily, "Mean of the VIX in 2008 when unemployment was over 8%") == daily


@pytest.mark.parametrize(
    ("question", "window", "excluded"),
    [
        ("2012年到2021年，不算疫情那年（2020年），美国失业率平均是多少？", "2012年到2021年", "2020年"),
        ("Average unemployment rate from 2012 to 2021, excluding 2020", "from 2012 to 2021", "excluding 2020"),
    ],
)
async def test_an_excluded_period_is_left_out_of_a_mean(
    completing: Completing, question: str, window: str, excluded: str
) -> None:
    words = "失业率" if "失业率" in question else "unemployment rate"
    program = f'mean(within(series("{words}", unrate), "{window}"))'
    wanted = f'mean(within(without(series("{words}", unrate), "{excluded}"), "{window}"))'
    assert await completing.complete(program, question) == wanted
    # A change over the window has what happened in the period, too.
    change = program.replace("mean", "change")
    assert await completing.complete(change, question) == change


async def test_an_excluded_name_excludes_no_period(completing: Completing) -> None:
    program = 'mean(within(series("gold", GOLD), "2015"))'
    assert await completing.complete(program, "gold 2015 on average, excluding Apple") == program


async def test_a_list_has_all_its_names(completing: Completing) -> None:
    program = 'rank(vol(within(each(series("QUAL", QUAL), series("VLUE", VLUE)), "2018")))'
    question = "Among QUAL, SIZE and VLUE, which swung least in 2018?"
    names = 'each(series("QUAL", QUAL), series("SIZE", SIZE), series("VLUE", VLUE))'
    assert await completing.complete(program, question) == f'rank(vol(within({names}, "2018")))'
    # A name that stands apart is no member.
    apart = "Of QUAL and VLUE, which swung least in 2018, when SIZE was launched?"
    assert await completing.complete(program, apart) == program


async def test_a_follow_up_asks_for_another_figure(completing: Completing) -> None:
    program = 'at(series("住房自有率", ushown), "2007年")'
    first = "美国2007年的住房自有率是多少？"
    wanted = 'at(series("出租房的空置率", usrvac), "2007年")'
    assert await completing.complete(program, first, "那出租房的空置率呢？") == wanted
    # Who names the earlier one again asks for both.
    assert await completing.complete(program, first, "住房自有率和出租房的空置率呢？") == program


async def test_a_change_is_deflated_by_the_index_that_the_question_names(completing: Completing) -> None:
    program = 'ret(between(series("hourly pay", ahetpi), "December 2019", "December 2021"))'
    question = "Deflated by the CPI, how much did hourly pay grow between December 2019 and December 2021?"
    assert await completing.complete(program, question) == program.replace(
        'series("hourly pay", ahetpi)', 'real(series("hourly pay", ahetpi))'
    )
    plain = "How much did hourly pay and the CPI grow between December 2019 and December 2021?"
    assert await completing.complete(program, plain) == program


@pytest.mark.parametrize(
    ("question", "program", "wanted"),
    [
        (
            "JPM against BAC over 2007-2009: max drawdown of each, and the difference?",
            'drawdown(within(each(series("JPM", JPM), series("BAC", BAC)), "2007-2009"))',
            'minus(drawdown(within(series("JPM", JPM), "2007-2009")), drawdown(within(series("BAC", BAC), "2007-2009")))',
        ),
        (
            "Volatility of gold in 2008 and in 2017, and the difference?",
            'vol(within(series("gold", GOLD), "2008"))\nvol(within(series("gold", GOLD), "2017"))',
            "minus(_1, _2)",
        ),
    ],
)
async def test_a_difference_that_is_asked_for_is_computed(
    completing: Completing, question: str, program: str, wanted: str
) -> None:
    assert await completing.complete(program, question) == f"{program}\n{wanted}"
    plain = question.replace(", and the difference", "")
    assert await completing.complete(program, plain) == program


async def test_each_of_two_periods_has_its_value(completing: Completing) -> None:
    first = 'vol(within(series("gold", GOLD), "2008"))'
    second = first.replace("2008", "2017")
    for program in (first, second):
        found = await completing.complete(program, "How volatile was gold in 2008, and in 2017?")
        assert found == f"{first}\n{second}"
    ratio = "黄金2008年的波动率是2017年的多少倍？"
    program = 'vol(within(series("黄金", GOLD), "2008年"))'
    assert await completing.complete(program, ratio) == f"{program}\n{program.replace('2008', '2017')}\nover(_1, _2)"
    # A month beside a year narrows it, or is none of its kind.
    unlike = "How volatile was gold in 2008, and in March 2017?"
    assert await completing.complete(first, unlike) == first


async def test_a_part_of_a_period_becomes_the_whole(completing: Completing) -> None:
    program = 'count_if(within(yoy(series("CPI", cpiaucsl)), "September 2022"), at_least, "six percent")'
    question = (
        "Over the twelve months to September 2022, how many values of the CPI, year on year, were at six percent?"
    )
    wanted = program.replace("September", "the twelve months to September")
    assert await completing.complete(program, question) == wanted


async def test_a_year_of_a_monthly_series_is_its_mean(completing: Completing) -> None:
    program = 'at(series("jet fuel", mjfuelusgulf), "2008")'
    wanted = 'mean(within(series("jet fuel", mjfuelusgulf), "2008"))'
    assert await completing.complete(program, "What did jet fuel cost in 2008?") == wanted
    # An end of a year has a value of its own, and so has a year of an annual series.
    ended = program.replace("2008", "end of 2008")
    assert await completing.complete(ended, "What did jet fuel cost at the end of 2008?") == ended
    annual = 'at(series("homeownership rate", ushown), "2004")'
    assert await completing.complete(annual, "What was the homeownership rate in 2004?") == annual


async def test_the_condition_is_on_the_series_before_it(completing: Completing) -> None:
    turned = 'mean(within(where(moves(series("VIX", VIX), day), series("S&P 500", SP500), above, "25"), "2018"))'
    wanted = 'mean(within(where(moves(series("S&P 500", SP500), day), series("VIX", VIX), above, "25"), "2018"))'
    question = "Days of 2018 on which the VIX ended higher than 25: mean daily return of the S&P 500 on them?"
    assert await completing.complete(turned, question) == wanted
    assert await completing.complete(wanted, question) == wanted


async def test_an_excess_over_the_lowest_value_is_a_percentage_of_it(completing: Completing) -> None:
    line = 'within(series("韩元", KRW), "2008年")'
    program = f"pct(maximum({line}), minimum({line}))"
    question = "2008年欧元兑韩元的最高价比最低价高出百分之几？"
    assert await completing.complete(program, question) == f"pct(minimum({line}), maximum({line}))"
    fall = "2008年欧元兑韩元从最高价跌到最低价，跌了百分之几？"
    assert await completing.complete(program, fall) == program


async def test_a_follow_up_asks_of_another_name(completing: Completing) -> None:
    program = 'vol(within(series("标", SP500), "2002年"))'
    first, second = "苹果2001年到2003年股价的年化波动率是多少？", "标的换成百事可乐，时间只看2002年"
    assert await completing.complete(program, first, second) == program.replace('"标", SP500', '"百事可乐", PEP')
    assert await completing.complete(program, second) == program
