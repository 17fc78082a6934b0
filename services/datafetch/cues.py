"""Words that say what is done with values: statistics of a period, the last value, a density, two things compared."""

from __future__ import annotations

import re

from services.datafetch.model import Combination, Frequency, Statistic

SERIES = re.compile(
    r"走势|曲线|画|图表|作图|\b(?:chart|plot|draw|trend|time series|day by day|month by month)\b", re.I | re.A
)
BROAD = re.compile(r"表现|\bperformances?\b(?!.*(?:%|percent))", re.I | re.A)
STATISTICS: list[tuple[re.Pattern[str], Statistic]] = [
    (re.compile(pattern, re.I | re.A), statistic)
    for pattern, statistic in [
        (r"最大回撤|最大跌幅|回撤|max(?:imum)?\.?\s+drawdowns?|drawdowns?|peak[\s-]to[\s-]trough", Statistic.DRAWDOWN),
        (r"年化波动率|波动率|波动性|\bvolatility\b|\bvolatile\b", Statistic.VOLATILITY),
        (r"年化收益率|年化回报率?|年化涨幅|复合年增长率|复合年均增长率|复合增长率|年均复合|\bcagr\b|compound(?:ed)? annual|annuali[sz]ed returns?", Statistic.CAGR),
        (r"均值|平均值?|均价|\b(?:average|averaged|mean)\b", Statistic.MEAN),
        (r"最高|最大值|峰值|\b(?:highest|maximum|peak|peaked|all-time high)\b(?!\s+drawdown)|\bhigh\b(?= (?:of|in|for|close))", Statistic.MAX),
        (r"最低|最小值|谷底|\b(?:lowest|minimum|trough)\b(?!\s+volatility)|\blow\b(?= (?:of|in|for|close))", Statistic.MIN),
        (r"合计|总额|总和|总计|累计额|\bsum\b|\btotal (?:of|over|for)\b|(?:^|\W)Total US\b|^total\b", Statistic.SUM),
        (r"(?:上升|下降|增加|减少|升高|降低|上涨|下跌)了?(?:多少|几)(?:个?百分点|个?基点|点|亿|万|人)|新增|percentage points? did|"
         r"\bchanges? of\b.*\b(?:basis points|points)|net change|change from the month before|basis points during", Statistic.CHANGE),
        (r"涨了|跌了|回报|涨幅|跌幅|涨跌幅|收益率(?!曲线)|回报率|累计收益|累计涨|百分之多少|\b(?:total |cumulative |price )?returns?\b|how much did .*\b(?:lose|gain|rise|fall|drop|grow)\b|"
         r"(?:price )?change in percent|percent(?:age)? change|how many percent did|\bperformance\b|\b(?:gained|lost)\b", Statistic.RETURN),
    ]
]  # fmt: skip
LATEST = re.compile(
    r"最新|上一个?交易日|目前|当前|现在|最近一期|最近一次|最近的(?!\d)|\b(?:latest|newest|current(?:ly)?|most recent|now|right now|today'?s?|last (?:close|price|value|reading|closing price))\b",
    re.I | re.A,
)
DENSITIES: list[tuple[re.Pattern[str], Frequency]] = [
    (re.compile(pattern, re.I | re.A), density)
    for pattern, density in [
        (r"每周|各周|周度|逐周|按周|周线|\bweekly\b|\bweek[\s-]end\b|each week|every week", Frequency.WEEKLY),
        (r"各?月末|每月末?|各月|逐月|按月|月度|月线|\bmonth[\s-]end\b|\bmonthly\b|end of each month|each month|every month", Frequency.MONTHLY),
        (r"各?季末|每季度?末?|各季度?|逐季|按季度?|季度末|季度数据|\bquarter[\s-]end\b|\bquarterly\b|end of each quarter|each quarter|every quarter", Frequency.QUARTERLY),
        (r"每年年?末?|各年|逐年|按年|历年|年度收盘|\byear[\s-]end\b|\bannual(?:ly)? year[\s-]end|end of each year|each year|every year|\byearly\b", Frequency.ANNUAL),
    ]
]  # fmt: skip
SPREAD = re.compile(r"利差|差额|之差|减去?|\bminus\b|\bless\b|\bspreads?\b|\bdifference between\b", re.I | re.A)
RATIO = re.compile(
    r"比值|之比|比率|占.*(?:比例|比重)|除以|\bratio of\b|\bdivided by\b|\bas a (?:share|percentage) of\b|\bshare of\b",
    re.I | re.A,
)
PER = re.compile(r"(?:汇率|兑|对|\bper\b|\bagainst\b|\brate\b|/|\bin\b)", re.I | re.A)


GROWTH = re.compile(
    r"的?(?:年|同比)?(?:增长率|增速|增幅|增长幅度|增长(?!额)|变动率|变化率|涨幅)(?:是?多少)?|\s+(?:yoy|year[\s-]over[\s-]year|annual)?\s*growth(?:\s+rate)?\b",
    re.I | re.A,
)
AGAINST = re.compile(r"(?:较|比)(?:上个?月|上个?季度|上年同期|上年|去年同期|前一?个?月)(?!相比)")
ENDING = re.compile(
    r"(?<!每)年[末底](?!现金)|\b(?:at|by) the end of (?:19|20)\d{2}|\bend of (?:19|20)\d{2}\b|\byear[\s-]end (?:19|20)\d{2}",
    re.I | re.A,
)
EACH = re.compile(r"每|各|\beach\b|\bevery\b", re.I | re.A)
ANNUAL = re.compile(r"年度数据|年度值|\bannual\b|\byearly\b", re.I | re.A)


def spoken(text: str) -> list[tuple[int, int]]:
    """Where a text says what is done with values, rather than of what."""
    patterns = [AGAINST, LATEST, SPREAD, *(pattern for pattern, _ in (*STATISTICS, *DENSITIES))]
    return [match.span() for pattern in patterns for match in pattern.finditer(text) if match.group()]


def statistics(text: str) -> tuple[Statistic, ...]:
    """The statistics that a text asks for; none when it asks for a series as well."""
    if SERIES.search(text) or BROAD.search(text):
        return ()
    found = []
    rest = text
    for pattern, statistic in STATISTICS:
        if pattern.search(rest):
            found.append(statistic)
            rest = pattern.sub(" ", rest)
    if Statistic.RETURN in found and Statistic.CHANGE in found:
        found.remove(Statistic.RETURN)
    return tuple(found)


def density(text: str) -> Frequency:
    """The density that a text asks for; NATIVE for none."""
    return next((found for pattern, found in DENSITIES if pattern.search(text)), Frequency.NATIVE)


def combination(text: str) -> Combination:
    """Whether two series are set against each other."""
    if SPREAD.search(text):
        return Combination.SPREAD
    return Combination.RATIO if RATIO.search(text) else Combination.NONE
