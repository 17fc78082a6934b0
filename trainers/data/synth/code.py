"""Tasks of scenario ``code``: values computed from daily prices, which no single cell contains."""

from __future__ import annotations

import random
from collections.abc import Mapping

from fathom.trainers.data.synth.bundle import Bundle, Company
from fathom.trainers.data.synth.computed import (
    EXACT,
    PRICE,
    Draft,
    Template,
    cell,
    data,
    generate_tasks,
    percentage,
    plain,
    span,
    years,
)
from fathom.trainers.data.synth.task import Language, SynthTask, Wording

PRICES = "prices as (select date, value from observations where entity = ? and indicator = ? and date between ? and ?)"
RETURNS = f"{PRICES}, returns as (select date, value / lag(value) over (order by date) - 1 as r from prices)"
PERIOD = Wording(
    "Use the adjusted daily closes dated from 1 January {first} to 31 December {last}. ",
    "请使用{first}年1月1日至{last}年12月31日的每日复权收盘价。",
)
PERCENT = Wording(" Give the number alone, in percent with two decimals.", "只写数字，以百分数表示，保留两位小数。")
NUMBER = Wording(" Give the number alone.", "只写数字。")


def join_wording(en: str, zh: str, ending: Wording) -> Wording:
    """Join period, question and answer format in both languages."""
    return Wording(PERIOD.en + en + ending.en, PERIOD.zh + zh + ending.zh)


CHANGE = (
    join_wording(
        "By how many percent did {name} change from the first of these closes to the last?",
        "{name}从第一个收盘价到最后一个收盘价的涨跌幅是多少？",
        PERCENT,
    ),
    # The answer is computed in SQL and the solution in pandas: an error in either shows when the paths are played.
    f"with {PRICES} select (last(value order by date) / first(value order by date) - 1) * 100 from prices",
    '''def change(sheet, column):
    """Last close over the first, in percent."""
    closes = sheet[column].dropna()
    return (closes.iloc[-1] / closes.iloc[0] - 1) * 100

print(round(change(sheet_1, @column@), 2))
''',
)
GROWTH = (
    join_wording(
        "What was the compound annual growth rate of {name} from the first of these closes to the last, with years"
        " of 365.25 days?",
        "{name}从第一个收盘价到最后一个收盘价的年复合增长率是多少（一年按365.25天计）？",
        PERCENT,
    ),
    f"with {PRICES} select (pow(last(value order by date) / first(value order by date),"
    " 365.25 / (max(date) - min(date))) - 1) * 100 from prices",
    '''def growth(sheet, column):
    """Compound annual growth in percent."""
    closes = sheet.dropna(subset=[column])
    years = (closes["date"].iloc[-1] - closes["date"].iloc[0]).days / 365.25
    return ((closes[column].iloc[-1] / closes[column].iloc[0]) ** (1 / years) - 1) * 100

print(round(growth(sheet_1, @column@), 2))
''',
)
VOLATILITY = (
    join_wording(
        "What was the annualised volatility of {name}: the sample standard deviation of the simple returns from each"
        " of these closes to the next, times the square root of 252?",
        "{name}的年化波动率是多少？取相邻收盘价之间简单收益率的样本标准差，乘以252的平方根。",
        PERCENT,
    ),
    f"with {RETURNS} select stddev_samp(r) * sqrt(252) * 100 from returns",
    '''def volatility(sheet, column):
    """Annualised standard deviation of daily returns, in percent."""
    return sheet[column].dropna().pct_change().std() * 252 ** 0.5 * 100

print(round(volatility(sheet_1, @column@), 2))
''',
)
DRAWDOWN = (
    join_wording(
        "How deep was the maximum drawdown of {name}, as a negative number?",
        "{name}的最大回撤是多少（用负数表示）？",
        PERCENT,
    ),
    f"with {PRICES} select min(value / peak - 1) * 100 from (select value, max(value) over"
    " (order by date rows unbounded preceding) as peak from prices)",
    '''def drawdown(sheet, column):
    """Deepest fall below the highest close so far, in percent."""
    closes = sheet[column].dropna()
    return (closes / closes.cummax() - 1).min() * 100

print(round(drawdown(sheet_1, @column@), 2))
''',
)
BEST_MONTH = (
    join_wording(
        "Take the last close of each calendar month. What was the largest change of {name} from one month's to the"
        " next month's?",
        "取每个自然月的最后一个收盘价，{name}相邻两个月之间的最大涨幅是多少？",
        PERCENT,
    ),
    f"with {PRICES}, months as (select last(value order by date) as value, date_trunc('month', date) as month"
    " from prices group by all) select max(g) * 100 from (select value / lag(value) over (order by month) - 1 as g"
    " from months)",
    '''def best_month(sheet, column):
    """Largest change between the last closes of two months, in percent."""
    closes = sheet.dropna(subset=[column])
    ends = closes.groupby(closes["date"].dt.to_period("M"))[column].last()
    return ends.pct_change().max() * 100

print(round(best_month(sheet_1, @column@), 2))
''',
)
RUN = (
    join_wording(
        "How many closes of {name} in a row, at most, were each higher than the one before?",
        "{name}最多连续多少个收盘价都高于前一个收盘价？",
        NUMBER,
    ),
    f"with {RETURNS}, runs as (select r, sum(case when r > 0 then 0 else 1 end) over (order by date) as run"
    " from returns) select max(n) from (select count(*) as n from runs where r > 0 group by run)",
    '''def longest_run(sheet, column):
    """Most closes in a row that are higher than the one before."""
    best = run = 0
    for rises in sheet[column].dropna().diff().iloc[1:] > 0:
        run = run + 1 if rises else 0
        best = max(best, run)
    return best

print(longest_run(sheet_1, @column@))
''',
)
FALLS = (
    join_wording(
        "On how many days was the close of {name} more than {size}% below the one before?",
        "{name}有多少天的收盘价比前一个收盘价低{size}%以上？",
        NUMBER,
    ),
    f"with {RETURNS} select count(*) from returns where r < -cast(? as double) / 100",
    '''def falls(sheet, column, size):
    """Days whose close lies more than size percent below the one before."""
    return int((sheet[column].dropna().pct_change() < -size / 100).sum())

print(falls(sheet_1, @column@, @size@))
''',
)
CORRELATION = join_wording(
    "What was the correlation of the simple returns, from each of these closes to the next, of {name} and {other}?"
    " Two decimals.",
    "{name}与{other}相邻收盘价之间简单收益率的相关系数是多少？保留两位小数。",
    NUMBER,
)
CORRELATED = (
    f"with {PRICES}, others as (select date, value as other from observations where entity = ? and indicator = ?"
    " and date between ? and ?), pairs as (select value / lag(value) over (order by date) - 1 as r,"
    " other / lag(other) over (order by date) - 1 as s from prices join others using (date))"
    " select corr(r, s) from pairs"
)
CORRELATION_CELL = '''def correlation(sheet, one, other):
    """Correlation of daily returns."""
    returns = sheet[[one, other]].dropna().pct_change()
    return returns[one].corr(returns[other])

print(round(correlation(sheet_1, @column@, @other@), 4))
'''


def company_fields(first: int, last: int, *companies: Company, **more: object) -> dict[Language, dict[str, object]]:
    """Build the question's fields for one or two companies, in both languages."""
    labels = ("name", "other")
    languages: tuple[Language, ...] = ("en", "zh")
    return {
        language: dict(zip(labels, (company.name(language) for company in companies), strict=False))
        | {"first": first, "last": last, **more}
        for language in languages
    }


def about(company: Company, first: int, last: int) -> tuple[str, str, str, str]:
    """Return the parameters of ``PRICES``."""
    return (company.ticker, PRICE, *span(first, last))


def share(made: tuple[Wording, str, str], least: int, most: int) -> Template:
    """Make a template for a percentage of one company's prices over ``least`` to ``most`` years."""
    wording, sql, code = made

    def template(bundle: Bundle, draw: random.Random) -> Draft | None:
        company, (first, last) = draw.choice(bundle.companies), years(draw, least, most)
        references = percentage(bundle.number(sql, *about(company, first, last)))
        if references is None:
            return None
        path = (
            data([company.ticker], [PRICE], *span(first, last)),
            cell(code, column=f"{company.ticker}.{PRICE}"),
        )
        return Draft(
            wording, f"{company.ticker} {first} {last}", company_fields(first, last, company), references, path
        )

    return template


def longest_run(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the longest run of rising closes; the answer is an integer."""
    wording, sql, code = RUN
    company, (first, last) = draw.choice(bundle.companies), years(draw, 1, 3)
    count = bundle.number(sql, *about(company, first, last))
    path = (data([company.ticker], [PRICE], *span(first, last)), cell(code, column=f"{company.ticker}.{PRICE}"))
    fields = company_fields(first, last, company)
    return Draft(wording, f"{company.ticker} {first} {last}", fields, plain(count, 0), path, parameters=EXACT)


def falls(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the number of days with a large fall; None when there are no such days."""
    wording, sql, code = FALLS
    company, (first, last), size = draw.choice(bundle.companies), years(draw, 1, 4), draw.choice((2, 3, 4))
    count = bundle.number(sql, *about(company, first, last), size)
    path = (
        data([company.ticker], [PRICE], *span(first, last)),
        cell(code, column=f"{company.ticker}.{PRICE}", size=size),
    )
    fields, fact = company_fields(first, last, company, size=size), f"{company.ticker} {first} {last} {size}"
    # An answer of none could be guessed from the question.
    return Draft(wording, fact, fields, plain(count, 0), path, parameters=EXACT) if count else None


def correlation(bundle: Bundle, draw: random.Random) -> Draft | None:
    """Draft a question about the correlation of two companies' returns."""
    one, other = draw.sample(bundle.companies, 2)
    first, last = years(draw, 2, 8)
    value = bundle.number(CORRELATED, *about(one, first, last), *about(other, first, last))
    columns = {"column": f"{one.ticker}.{PRICE}", "other": f"{other.ticker}.{PRICE}"}
    path = (data([one.ticker, other.ticker], [PRICE], *span(first, last)), cell(CORRELATION_CELL, **columns))
    fields, fact = company_fields(first, last, one, other), f"{one.ticker} {other.ticker} {first} {last}"
    # Two decimals of a number below one: half a unit of the last, and what rounding the reference loses.
    return Draft(CORRELATION, fact, fields, plain(value), path, parameters={"rel_tol": 0.0, "abs_tol": 0.006})


TEMPLATES: Mapping[str, Template] = {
    "change": share(CHANGE, 1, 8),
    # Over one year the compound rate is the change itself, and taking one for the other would be graded as right.
    "growth": share(GROWTH, 3, 12),
    "volatility": share(VOLATILITY, 1, 6),
    "drawdown": share(DRAWDOWN, 1, 8),
    "best_month": share(BEST_MONTH, 2, 6),
    "longest_run": longest_run,
    "falls": falls,
    "correlation": correlation,
}


def code_tasks(bundle: Bundle, count: int, seed: int) -> list[SynthTask]:
    """Generate ``count`` tasks, cycling through the kinds."""
    return generate_tasks(bundle, "code", TEMPLATES, count, seed)
