"""Test what a number is counted in, per what, against which base, and in which prices."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import MaterialKind

QUARTERS = (date(2022, 9, 30), date(2022, 12, 31), date(2023, 3, 31), date(2023, 6, 30), date(2023, 9, 30))
PASSAGE = (
    "Our fleet had grown to 3.4 GW by December 2023. The operator paid 2.4 million kroner to passengers. "
    "The board raised the ratio by 0.25 percentage points. 公司平均每天揽收包裹1260万件。"
)


def verify(text: str, *series: Series) -> list[str]:
    """Return the marked words of a text that cites one table, and a passage as [2]."""
    moments = index_line(" ".join(day.isoformat() for one in series for day in one.days or ())).moments
    names = {one.entity: (one.entity,) for one in series}
    about = index_line("; ".join(["sheet_1", *(one.unit for one in series)]))
    sheet = Source(1, MaterialKind.SHEET, about, series=series, moments=moments, aliases=names, rows=9)
    document = Source(2, MaterialKind.PASSAGE, index_line("Report"), index_lines(PASSAGE))
    return [mark.text for mark in Verifier("What happened?", [sheet, document]).verify(text)]


def quarterly(name: str, unit: str, values: list[float], per: str = "", scale: float = 1.0) -> Series:
    return Series(f"{name}.value", name, unit, scale, np.array(values), QUARTERS, False, per)


SALES = quarterly("Chip", "billion CNY", [1.80, 2.0, 1.76, 1.92, 2.16], scale=1e9)
OUTPUT = quarterly("GDP", "Bil. of Chn. 2012 $ (SAAR)", [200.0, 201, 202, 203, 207], "year", 1e9)
RENT = quarterly("Rent", "GBP a month", [980.0, 985, 1000, 1040, 1160], "month")
STARTS = quarterly("Homes", "Thous. of Units (SAAR)", [560.0, 490, 582, 505, 478], "year", 1e3)
SOLAR = quarterly("Sun", "GW", [4.0, 5, 6, 8, 11.5])
DEBT = quarterly("Debt", "million AUD", [312.0, 300, 265, 200, 148], scale=1e6)
CPI = quarterly("Prices", "Index 1982-84=100", [296.8, 298.8, 301.8, 303.8, 307.8])
SPELL = quarterly("Spell", "Weeks (SA)", [22.1, 22.9, 25.4, 31.2, 40.7])
WORKED = quarterly("Work", "Hours (SA)", [41.0, 40.9, 40.7, 40.5, 40.3], "week")
WAGE = quarterly("Wage", "$ per Hour (NSA)", [29.5, 29.9, 30.2, 30.7, 31.18], "hour")
FARE = quarterly("Fare", "cents per seat-kilometre", [6.5, 6.6, 6.8, 7.1, 7.4], "seat-kilometre")
PAYOUT = quarterly("派息", "元/股", [0.31, 0.33, 0.36, 0.40, 0.45], "股")
TRADE = quarterly("US", "Mil. of $ (SA)", [210_000.0, 215_000, 219_300, 230_000, 244_100], scale=1e6)
PRICE = quarterly("Yen", "JPY per USD", [144.7, 131.1, 132.8, 144.3, 149.4], "USD")


@pytest.mark.parametrize(
    ("series", "true", "false"),
    [
        (SALES, "Chip grew by 20% year on year in 2023Q3 [1].", "Chip grew by 20% quarter on quarter in 2023Q3 [1]."),
        (SALES, "Chip2023年三季度环比增长12.5%[1]。", "Chip2023年三季度同比增长12.5%[1]。"),
        (
            OUTPUT,
            "GDP was $207 billion in September 2023, in 2012 prices [1].",
            "GDP was $207 billion in September 2023, in current prices [1].",
        ),
        (RENT, "Rent was £1,160 a month in September 2023 [1].", "Rent was £1,160 a week in September 2023 [1]."),
        (STARTS, "Homes ran at 478,000 a year in September 2023 [1].", "Homes ran at 478,000 a month in September 2023 [1]."),
        (SOLAR, "Sun shipped 11.5 GW in September 2023 [1].", "Sun shipped 11.5MW in September 2023 [1]."),
        (SOLAR, "Sun shipped 11.5 GW in September 2023 [1].", "Sun shipped 11.5 GWh in September 2023 [1]."),
        (SALES, "Chip took CNY 2.16 billion in September 2023 [1].", "Chip took SEK 2.16 billion in September 2023 [1]."),
        (DEBT, "Debt was more than halved, to A$148 million, by September 2023 [1].", "Debt halved in June 2023 [1]."),
        (PRICE, "2023年9月末1美元兑149.4日元[1]。", "2023年9月末1欧元兑149.4日元[1]。"),
        (SOLAR, "The fleet grew to 3.4 GW [2].", "The fleet grew to 3.4 GWh [2]."),
        (SOLAR, "Passengers were paid 2.4 million kroner [2].", "Passengers were paid 2.4 million euros [2]."),
        (SOLAR, "The ratio rose by 0.25 percentage points [2].", "The ratio rose by 0.25% [2]."),
        (SOLAR, "日均揽收1260万件[2]。", "月均揽收1260万件[2]。"),
        # A spell in another unit of time; an average of another one, also of what no unit of the table names.
        (SPELL, "Spell was 40.7 weeks in September 2023 [1].", "Spell was 40.7 months in September 2023 [1]."),
        (WORKED, "Work took 40.3 hours a week in September 2023 [1].", "Work took 40.3 hours a fortnight in September 2023 [1]."),
        (WORKED, "Work took 40.3 hours in September 2023 [1].", "Work took 40.3 hours in an average month in September 2023 [1]."),
        (WAGE, "Wage2023年9月时薪31.18美元[1]。", "Wage2023年9月日薪31.18美元[1]。"),
        (FARE, "Fare was 7.4 cents a seat-kilometre in September 2023 [1].", "Fare was 7.4 cents a seat-mile in September 2023 [1]."),
        (PAYOUT, "派息2023年9月每股0.45元[1]。", "派息2023年9月每10股0.45元[1]。"),
        # An exchange rate to another currency; another country's dollar.
        (PRICE, "In September 2023 149.4 yen were paid to the dollar [1].", "In September 2023 149.4 yen were paid to the euro [1]."),
        (TRADE, "2023年9月美国出口2441亿美元[1]。", "2023年9月美国出口2441亿加元[1]。"),
        # A rate of a year as a month's amount; a quarter's amount as a year's; a change from the quarter before.
        (STARTS, "Homes ran at a rate of 478 thousand in September 2023 [1].", "478 thousand homes came in the single month of September 2023 [1]."),
        (TRADE, "US2023年三季度销售2441亿美元[1]。", "US2023年全年销售2441亿美元[1]。"),
        (SALES, "Chip grew by 12.5% in 2023Q3 [1].", "Chip grew by 12.5% in 2023Q3 compared with the same quarter of 2022 [1]."),
    ],
)  # fmt: skip
def test_another_unit_or_base_is_found_and_the_right_one_is_not(series: Series, true: str, false: str) -> None:
    assert verify(true, series) == []
    assert verify(false, series) != []


@pytest.mark.parametrize(
    ("series", "text"),
    [
        # A ratio over time, a share of a column, the sum of quarters, a ratio of two columns.
        ((SOLAR,), "Sun shipped 2.9 times as much in 2023Q3 as in 2022Q3 [1]."),
        ((quarterly("Acme costs", "million EUR", [1.0, 2, 3, 4, 19]), quarterly("Acme", "million EUR", [9.0, 9, 9, 9, 95])),
         "Acme spent 20% of its sales in September 2023 [1]."),
        ((SOLAR,), "Sun shipped 25.5 GW from March to September 2023 [1]."),
        # An entity's part bears its name.
        ((quarterly("Acme", "million EUR", [9.0, 9, 9, 9, 95], scale=1e6), quarterly("Acme digital", "million EUR", [1.0, 2, 3, 4, 19], scale=1e6)),
         "Acme's digital revenue was 19 million euros in September 2023 [1]."),
        # The first value has no date of its own; a range of years; a rate in a month.
        ((SALES,), "Chip fell to 1.76 and then recovered, to 2.16 in 2023Q3, above its level of 2022Q3 [1]."),
        ((CPI,), "Prices stood at 307.8 in September 2023, taking 1982-84 as 100 [1]."),
        ((PRICE,), "按月均值，2023年9月1美元可换149.4日元[1]。"),
    ],
)  # fmt: skip
def test_what_follows_from_the_columns_is_not_marked(series: tuple[Series, ...], text: str) -> None:
    assert verify(text, *series) == []


@pytest.mark.parametrize(
    "text",
    [
        # Another column's share, a part of a group, a currency's own price, a fall that is not that of the period.
        "Acme took a smaller share of the market than Beta in September 2023 [1].",
        "Two of the three grew in 2023Q3; Beta shrank [1].",
        "Acme's worst fall was deeper than Beta's in September 2023 [1].",
        # What stands behind the comma has a date of its own.
        "In 2023Q2 Acme closed higher than Beta, which was at 5 in 2022Q3 [1].",
    ],
)
def test_what_no_column_holds_is_not_compared(text: str) -> None:
    acme = quarterly("Acme", "million EUR", [9.0, 8, 9, 20, 30], scale=1e6)
    beta = quarterly("Beta", "million EUR", [5.0, 4, 5, 6, 5], scale=1e6)
    assert verify(text, acme, beta) == []


def test_a_currency_rises_where_its_own_price_falls() -> None:
    assert verify("The dollar was weaker in September 2023 than in June 2023 [1].", PRICE) == []
