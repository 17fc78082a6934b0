"""Relative periods count from today, and where the data end before or within them the answer says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Missing, Result

pytestmark = pytest.mark.asyncio(loop_scope="module")
TODAY, LAST = date(2026, 11, 29), "2022-12-28"


class Clock:
    """A clock whose day a test sets."""

    def __init__(self) -> None:
        self.day = TODAY

    def __call__(self) -> date:
        return self.day


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path, clock: Clock) -> AsyncIterator[Engine]:
    made = Engine(Config(data_dir=tables_dir, embedding="off"), today=clock)
    await made.start()
    yield made
    await made.close()


def take_one(result: Result) -> Missing:
    """Return the only missing item, which says where the data end."""
    (item,) = result.missing
    assert item.reason == "NO_DATA_IN_PERIOD"
    return item


@pytest.mark.parametrize(
    ("question", "words", "start", "end"),
    [
        ("Apple's return last year", "last year", date(2025, 1, 1), date(2025, 12, 31)),
        ("苹果去年的涨跌幅", "去年", date(2025, 1, 1), date(2025, 12, 31)),
        ("S&P 500 this year", "this year", date(2026, 1, 1), date(2026, 12, 31)),
        ("苹果今年以来的股价", "今年以来", date(2026, 1, 1), TODAY),
        ("近三年标普500最大回撤", "近三年", date(2023, 11, 29), TODAY),
        ("Apple price yesterday", "yesterday", date(2026, 11, 28), date(2026, 11, 28)),
    ],
)
async def test_a_period_behind_the_data_is_refused_with_both_dates(
    engine: Engine, question: str, words: str, start: date, end: date
) -> None:
    result = await engine.ask(question, None)
    item = take_one(result)
    assert result.sheets == ()
    assert (result.understood.start, result.understood.end) == (start, end)
    assert item.nearest == (LAST,)
    assert f"to {LAST} only; {words!r} is {start.year}" in item.detail


@pytest.mark.parametrize(
    ("question", "last"),
    [
        ("average S&P 500 close over the past five years", LAST),
        ("标普500近五年走势", LAST),
        ("US unemployment rate over the last five years", "2022-09-30"),
        ("real GDP over the past 20 quarters", "2022-09-30"),
    ],
)
async def test_of_a_period_that_the_data_cover_in_part_that_part_is_given(
    engine: Engine, question: str, last: str
) -> None:
    result = await engine.ask(question, None)
    assert len(result.sheets) == 1
    assert take_one(result).nearest == (last,)


@pytest.mark.parametrize(
    "question", ["Apple's latest close", "CPI in the latest month", "US TTM goods imports from China", "苹果最新股价"]
)
async def test_the_newest_value_is_the_newest_that_there_is(engine: Engine, question: str) -> None:
    result = await engine.ask(question, None)
    assert len(result.sheets) == 1
    assert result.missing == ()


async def test_as_of_comes_before_today(engine: Engine) -> None:
    result = await engine.ask("Apple's return last year", date(2022, 6, 30))
    assert (result.understood.start, result.understood.end) == (date(2021, 1, 1), date(2021, 12, 31))
    assert len(result.sheets) == 1
    assert result.missing == ()


async def test_what_is_cached_of_a_day_does_not_outlive_it(engine: Engine, clock: Clock) -> None:
    clock.day = date(2022, 12, 31)
    then = await engine.ask("Apple's return last year", None)
    clock.day = date(2023, 1, 1)
    now = await engine.ask("Apple's return last year", None)
    read = await engine.read("Apple's return last year", None)
    clock.day = TODAY
    assert (then.understood.start, now.understood.start) == (date(2021, 1, 1), date(2022, 1, 1))
    assert read.query == now.understood
