"""Classes of questions and the typed queries that they become, over the bundled tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Query, Statistic, Transform

pytestmark = pytest.mark.asyncio(loop_scope="module")
YEAR = (date(2021, 1, 1), date(2021, 12, 31))


CASES: list[tuple[str, dict[str, Any]]] = [
    # Names that follow a pattern.
    ("7年期美国国债2021年的收益率", {"indicators": ("gs7",), "start": YEAR[0], "statistics": ()}),
    ("yield on the twenty-year Treasury in 2021", {"indicators": ("gs20",)}),
    ("imports of French goods in 2021", {"indicators": ("impfr",)}),
    ("2021年芝加哥房价", {"indicators": ("chxrsa",)}),
    ("average weekly hours in construction, 2021", {"indicators": ("awhaecon",)}),
    ("10-year and 2-year Treasury yields in 2021", {"indicators": ("gs10", "gs2")}),
    ("CPI in 2021, not seasonally adjusted", {"indicators": ("cpiaucns",)}),
    # Changes over time, and what is counted.
    ("2021年8月CPI较上月上涨多少", {"transform": Transform.MOM}),
    ("CPI in August 2021 versus a year earlier", {"transform": Transform.YOY}),
    ("How many jobs were added in August 2021 (nonfarm payrolls)?", {"statistics": (Statistic.CHANGE,)}),
    ("2021年10年期美债收益率上行多少个基点", {"statistics": (Statistic.CHANGE,)}),
    ("By what percentage did Apple climb in 2021?", {"statistics": (Statistic.RETURN,)}),
    ("annual compound return of Apple from 2010-01-04 to 2020-12-31", {"statistics": (Statistic.CAGR,)}),
    ("2021年美国对日本货物出口累计金额", {"statistics": (Statistic.SUM,)}),
    # Currencies: priced, or as the measure of something else.
    ("2021年7月1日1英镑可以兑换多少人民币", {"entities": ("CNY",), "currency": "GBP", "unit": ""}),
    ("2015年8月11日一欧元等于多少人民币", {"entities": ("CNY",), "unit": ""}),
    ("Coca-Cola's close on 2019-12-31 in British pounds", {"entities": ("KO",), "currency": "GBP"}),
    # Periods one by one and as ranges.
    ("Apple close on 2021-03-01 and 2021-03-15", {"periods": ((date(2021, 3, 1),) * 2, (date(2021, 3, 15),) * 2)}),
    ("苹果2019年、2021年的涨幅分别是多少", {"periods": ((date(2019, 1, 1), date(2019, 12, 31)), YEAR)}),
    ("2019年与2021年四季度的实际GDP", {"periods": ((date(2019, 10, 1), date(2019, 12, 31)), (date(2021, 10, 1), YEAR[1]))}),
    ("Apple closes between 2021-03-01 and 2021-03-15", {"periods": (), "end": date(2021, 3, 15)}),
    ("Pfizer daily closes, 9 to 13 November 2020", {"start": date(2020, 11, 9), "end": date(2020, 11, 13)}),
    ("2015年8月17日至9月2日标普500", {"start": date(2015, 8, 17), "end": date(2015, 9, 2)}),
    ("Apple close 3/18/2019", {"start": date(2019, 3, 18), "end": date(2019, 3, 18)}),
    ("截至2021年底过去两年美国失业率", {"start": date(2020, 1, 1), "end": YEAR[1]}),
    ("近五个交易日微软收盘价", {"tail": 5}),
    # The end of a period is one value, whatever it is called.
    ("S&P 500 at year-end 2018", {"end": date(2018, 12, 31), "statistics": (Statistic.LAST,)}),
    ("S&P 500 at the start of 2018", {"start": date(2018, 1, 1), "statistics": (), "limit": 1}),
    ("苹果2018年初的股价", {"start": date(2018, 1, 1), "statistics": (), "limit": 1}),
    ("Apple close, end of 2018", {"end": date(2018, 12, 31), "statistics": (Statistic.LAST,)}),
    ("苹果2020年底收盘价", {"end": date(2020, 12, 31), "statistics": (Statistic.LAST,)}),
    ("unemployment rate over the last decade", {"end": date(2022, 9, 30), "statistics": ()}),
]  # fmt: skip


@pytest.mark.parametrize(("question", "expected"), CASES, ids=[question for question, _ in CASES])
async def test_a_question_becomes_its_query(engine: Engine, question: str, expected: dict[str, Any]) -> None:
    understood: Query = (await engine.ask(question, date(2022, 9, 30))).understood
    assert {name: getattr(understood, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("question", "subject", "reason"),
    [
        ("比亚迪2020年股价涨幅", "比亚迪", "UNKNOWN_ENTITY"),
        ("宁德时代2021年年末市值", "宁德时代", "UNKNOWN_ENTITY"),
        ("average weekly hours in banking, February 2021", "average weekly hours in banking", "UNKNOWN_INDICATOR"),
        ("How many shares of Apple were outstanding in 2019?", "outstanding", "UNKNOWN_INDICATOR"),
        ("Apple's price in 2019 from 2020 to 2021", "2019 from 2020 to 2021", "NO_DATA_IN_PERIOD"),
    ],
)
async def test_what_is_not_here_is_named(engine: Engine, question: str, subject: str, reason: str) -> None:
    result = await engine.ask(question, date(2022, 9, 30))
    assert any(item.subject == subject and item.reason == reason for item in result.missing), result.missing
    assert not result.sheets


async def test_periods_named_one_by_one_have_a_sheet_each(engine: Engine) -> None:
    result = await engine.ask("苹果2019年、2020年的涨幅分别是多少", date(2022, 9, 30))
    assert len(result.sheets) == 2
    assert result.missing == ()
