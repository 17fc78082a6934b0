"""Tasks of scenario ``table``: values in the tables, given the right rows, columns and days."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date

from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.computed import (
    EXACT,
    PRICE,
    RATE,
    TOLERANCE,
    Draft,
    Template,
    both,
    cell,
    data,
    generate_tasks,
    plain,
    span,
    years,
)
from fathom.trainers.data.synth.task import Language, SynthTask, Wording

US = "US"
CURRENCIES = ("AUD", "CAD", "CHF", "GBP", "HKD", "JPY", "KRW", "NOK", "NZD", "SEK", "SGD", "USD", "ZAR")
LEVELS: Mapping[str, tuple[str, str]] = {
    "unrate": ("unemployment rate", "失业率"),
    "fedfunds": ("effective federal funds rate", "联邦基金有效利率"),
    "gs10": ("10-year Treasury yield (constant maturity)", "10年期国债收益率（固定期限）"),
    "gs1": ("1-year Treasury yield (constant maturity)", "1年期国债收益率（固定期限）"),
    "baa": ("Moody's Baa corporate bond yield", "穆迪Baa级公司债收益率"),
    "aaa": ("Moody's Aaa corporate bond yield", "穆迪Aaa级公司债收益率"),
}
"""Monthly US series in percent, with their common names in both languages."""
VALUE_AT = "select value from observations where entity = ? and indicator = ? and date = ?"
MONTH_END = (
    "select max(date) from observations where entity = ? and indicator = ? and year(date) = ? and month(date) = ?"
)
CLOSE_ON = Wording(
    "What was the adjusted close of {name} on {day}? Give the number alone, in US dollars.",
    "{name}在{day}的复权收盘价是多少美元？只写数字。",
)
HIGHEST_DAY = Wording(
    "On which day of {year} did {name} have its highest adjusted close? Give the date alone, as YYYY-MM-DD.",
    "{year}年{name}的复权收盘价在哪一天最高？只写日期，格式为YYYY-MM-DD。",
)
BEST_OF = Wording(
    "Which of {names} gained most, or lost least, from its first adjusted close of {year} to its last? Name the company"
    " alone.",
    "从{year}年第一个复权收盘价到最后一个，{names}中哪家公司的涨幅最大（或跌幅最小）？只写公司名称。",
)
CROSS = Wording(
    "How many {to} was one {of} on {day}, by the ECB's euro reference rates? Give the number alone, with four"
    " decimals.",
    "按欧洲央行欧元参考汇率，{day}1 {of}等于多少{to}？只写数字，保留四位小数。",
)
LEVEL = Wording(
    "What was the American {name} in {month}, in percent? Give the number alone.",
    "美国{month}的{name}是百分之几？只写数字。",
)
MEAN = Wording(
    "What was the mean of the twelve monthly values of the American {name} in {year}, in percent? Give the number"
    " alone, with two decimals.",
    "美国{year}年{name}的十二个月度值的平均数是百分之几？只写数字，保留两位小数。",
)
SPREAD = Wording(
    "In {month}, by how many percentage points was the American {name} above the {other}? Give the number alone,"
    " negative when it was below.",
    "美国{month}的{name}比{other}高多少个百分点？只写数字，低于时用负数。",
)
MONTHS_ABOVE = Wording(
    "In how many months from January {first} to December {last} was the American {name} above {level}%? Give the number"
    " alone.",
    "{first}年1月至{last}年12月，美国{name}有多少个月高于{level}%？只写数字。",
)
READ = '''def last_value(sheet, column):
    """The last value of a column."""
    return float(sheet[column].dropna().iloc[-1])

print(round(last_value(sheet_1, @column@), 4))
'''
HIGHEST_CELL = '''def highest_day(sheet, column):
    """The day of the highest value."""
    return sheet.loc[sheet[column].idxmax(), "date"].date().isoformat()

print(highest_day(sheet_1, @column@))
'''
BEST_CELL = '''def best(sheet, names):
    """The name whose column grew most from its first to its last value."""
    def growth(column):
        values = sheet[column].dropna()
        return values.iloc[-1] / values.iloc[0]
    return names[max(names, key=growth)]

print(best(sheet_1, @names@))
'''
RATIO_CELL = '''def ratio(sheet, of, against):
    """The last value of one column over that of another."""
    return float(sheet[of].dropna().iloc[-1] / sheet[against].dropna().iloc[-1])

print(round(ratio(sheet_1, @of@, @against@), 4))
'''
MEAN_CELL = '''def mean(sheet, column):
    """The mean of a column."""
    return float(sheet[column].dropna().mean())

print(round(mean(sheet_1, @column@), 4))
'''
DIFFERENCE_CELL = '''def difference(sheet, of, against):
    """The last value of one column less that of another."""
    return float(sheet[of].dropna().iloc[-1] - sheet[against].dropna().iloc[-1])

print(round(difference(sheet_1, @of@, @against@), 4))
'''
ABOVE_CELL = '''def above(sheet, column, level):
    """How many values lie above a level."""
    return int((sheet[column] > level).sum())

print(above(sheet_1, @column@, @level@))
'''


def close_on(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about one cell: a company's close on a day."""
    company, first = draw.choice(bundle.companies), years(draw, 1, 1)[0]
    day = draw.choice([day for day in bundle.days(company.ticker, PRICE) if day.year == first])
    value = bundle.number(VALUE_AT, company.ticker, PRICE, day)
    path = (data([company.ticker], [PRICE], f"{day}", f"{day}"), cell(READ, column=f"{company.ticker}.{PRICE}"))
    fields: dict[Language, dict[str, object]] = {
        "en": {"name": company.english, "day": f"{day}"},
        "zh": {"name": company.chinese, "day": chinese_day(day)},
    }
    return Draft(CLOSE_ON, f"{company.ticker} {day}", fields, plain(value), path)


def highest_day(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the day of a column's maximum; None when two days share it."""
    company, year = draw.choice(bundle.companies), years(draw, 1, 1)[0]
    sql = "select arg_max(date, value) from observations where entity = ? and indicator = ? and year(date) = ?"
    ties = (
        "select count(*) from observations where entity = ? and indicator = ? and year(date) = ? and value ="
        " (select value from observations where entity = ? and indicator = ? and date = ?)"
    )
    key = (company.ticker, PRICE)
    day: date = bundle.row(sql, *key, year)[0]
    if bundle.number(ties, *key, year, *key, day) > 1:
        return None
    path = (
        data([company.ticker], [PRICE], *span(year, year)),
        cell(HIGHEST_CELL, column=f"{company.ticker}.{PRICE}"),
    )
    fields: dict[Language, dict[str, object]] = {
        "en": {"name": company.english, "year": year},
        "zh": {"name": company.chinese, "year": year},
    }
    return Draft(HIGHEST_DAY, f"{company.ticker} {year}", fields, (f"{day}",), path, "em", {})


def best_of(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the best performer of four companies.

    None when the best two are within a percentage point.
    """
    companies, year = draw.sample(bundle.companies, 4), years(draw, 1, 1)[0]
    sql = (
        "select last(value order by date) / first(value order by date) from observations"
        " where entity = ? and indicator = ? and year(date) = ?"
    )
    growth = {company: bundle.number(sql, company.ticker, PRICE, year) for company in companies}
    ranked = sorted(companies, key=lambda company: -growth[company])
    if growth[ranked[0]] - growth[ranked[1]] < 0.01:
        return None
    names = {f"{company.ticker}.{PRICE}": company.english for company in companies}
    path = (
        data([company.ticker for company in companies], [PRICE], *span(year, year)),
        cell(BEST_CELL, names=names),
    )
    fields: dict[Language, dict[str, object]] = {
        "en": {"names": ", ".join(company.english for company in companies), "year": year},
        "zh": {"names": "、".join(company.chinese for company in companies), "year": year},
    }
    fact = " ".join(sorted(company.ticker for company in companies)) + f" {year}"
    return Draft(BEST_OF, fact, fields, ranked[0].names, path, "em", {})


def cross(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the ratio of two columns in one row: a cross exchange rate."""
    of, to = draw.sample(CURRENCIES, 2)
    day = draw.choice([day for day in bundle.days("USD", RATE) if 2000 <= day.year <= 2025])
    value = bundle.number(VALUE_AT, to, RATE, day) / bundle.number(VALUE_AT, of, RATE, day)
    path = (
        data([to, of], [RATE], f"{day}", f"{day}"),
        cell(RATIO_CELL, of=f"{to}.{RATE}", against=f"{of}.{RATE}"),
    )
    fields: dict[Language, dict[str, object]] = {
        "en": {"of": of, "to": to, "day": f"{day}"},
        "zh": {"of": of, "to": to, "day": chinese_day(day)},
    }
    # Four decimals of a small rate have few digits.
    parameters = {**TOLERANCE, "abs_tol": 0.00006}
    return Draft(CROSS, f"{to} {of} {day}", fields, plain(value, 6), path, parameters=parameters)


def level(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about one month of a monthly series."""
    indicator, year, month = draw.choice(list(LEVELS)), years(draw, 1, 1)[0], draw.randint(1, 12)
    day: date = bundle.row(MONTH_END, US, indicator, year, month)[0]
    value = bundle.number(VALUE_AT, US, indicator, day)
    path = (data([US], [indicator], f"{day}", f"{day}"), cell(READ, column=f"{US}.{indicator}"))
    fields = monthly(indicator, day)
    return Draft(LEVEL, f"{indicator} {day}", fields, plain(value, 2), path, parameters=EXACT | {"abs_tol": 0.005})


def mean(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the mean of a year's monthly values."""
    indicator, year = draw.choice(list(LEVELS)), years(draw, 1, 1)[0]
    sql = "select avg(value) from observations where entity = ? and indicator = ? and year(date) = ?"
    value = bundle.number(sql, US, indicator, year)
    path = (data([US], [indicator], *span(year, year)), cell(MEAN_CELL, column=f"{US}.{indicator}"))
    fields: dict[Language, dict[str, object]] = {
        "en": {"name": LEVELS[indicator][0], "year": year},
        "zh": {"name": LEVELS[indicator][1], "year": year},
    }
    return Draft(MEAN, f"{indicator} {year}", fields, plain(value), path, parameters=EXACT | {"abs_tol": 0.006})


def spread(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the difference of two series in one month."""
    of, against = draw.choice((("gs10", "gs1"), ("baa", "aaa"), ("gs10", "fedfunds"), ("baa", "gs10")))
    year, month = years(draw, 1, 1)[0], draw.randint(1, 12)
    day: date = bundle.row(MONTH_END, US, of, year, month)[0]
    value = bundle.number(VALUE_AT, US, of, day) - bundle.number(VALUE_AT, US, against, day)
    path = (
        data([US], [of, against], f"{day}", f"{day}"),
        cell(DIFFERENCE_CELL, of=f"{US}.{of}", against=f"{US}.{against}"),
    )
    fields = {
        language: one | {"other": other["name"]}
        for (language, one), other in zip(monthly(of, day).items(), monthly(against, day).values(), strict=True)
    }
    parameters = EXACT | {"abs_tol": 0.006}
    return Draft(SPREAD, f"{of} {against} {day}", fields, plain(value, 2), path, parameters=parameters)


def months_above(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the number of rows above a bound; None when all or no rows are."""
    indicator, (first, last), bound = draw.choice(list(LEVELS)), years(draw, 2, 6), draw.choice((2, 3, 4, 5, 6, 7))
    sql = "select count(*) from observations where entity = ? and indicator = ? and date between ? and ? and value > ?"
    count = bundle.number(sql, US, indicator, *span(first, last), bound)
    if not 0 < count < 12 * (last - first + 1):
        return None
    path = (
        data([US], [indicator], *span(first, last)),
        cell(ABOVE_CELL, column=f"{US}.{indicator}", level=bound),
    )
    fields = both(first=first, last=last, level=bound)
    fields["en"]["name"], fields["zh"]["name"] = LEVELS[indicator]
    fact = f"{indicator} {first} {last} {bound}"
    return Draft(MONTHS_ABOVE, fact, fields, plain(count, 0), path, parameters=EXACT)


def monthly(indicator: str, day: date) -> dict[Language, dict[str, object]]:
    """Return the series' name and the month in both languages."""
    return {
        "en": {"name": LEVELS[indicator][0], "month": f"{day:%B %Y}"},
        "zh": {"name": LEVELS[indicator][1], "month": f"{day.year}年{day.month}月"},
    }


def chinese_day(day: date) -> str:
    """Format a date in Chinese, e.g. 2015年6月1日."""
    return f"{day.year}年{day.month}月{day.day}日"


TEMPLATES: Mapping[str, Template] = {
    "close_on": close_on,
    "highest_day": highest_day,
    "best_of": best_of,
    "cross": cross,
    "level": level,
    "mean": mean,
    "spread": spread,
    "months_above": months_above,
}


def table_tasks(bundle: Bundle, count: int, seed: int) -> list[SynthTask]:
    """Generate ``count`` tasks, cycling through the kinds."""
    return generate_tasks(bundle, "table", TEMPLATES, count, seed)
