"""Rules for time expressions, English and Chinese; longer and more specific forms are matched first."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date

from fathom.domain.text.numerals import TYPED_DIGITS, parse_numeral, replace_digits
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.parser.time.context import anchored, listed_days, narrowed, open_pairs, opened
from fathom.services.datafetch.parser.time.relative import (
    past,
    so_far,
    span_before,
    this,
    trailing,
    week,
    year_to_date,
    yesterday,
)
from fathom.services.datafetch.parser.time.rules import (
    NUMBERS,
    Twin,
    american_day,
    before,
    bounds,
    day,
    day_pair,
    decade,
    first_months,
    first_quarters,
    fiscal,
    half,
    middle,
    month,
    month_days,
    month_of_years,
    months,
    named_day,
    named_days,
    named_month,
    named_months,
    number,
    quarter,
    quarter_of_years,
    quarters,
    report,
    since,
    single_year,
    year_until,
    years,
)
from fathom.services.datafetch.query.model import Transform
from fathom.services.datafetch.query.periods import (
    Period,
    quarter_period,
)

Y4 = r"(?:19|20)\d{2}"
# Comparisons join two periods as lists do: "2021 vs 2019" names two years, not the range between them.
COMPARED = r"vs\.?|versus|than|compared (?:with|to)|relative to|against|相较于?|相比于?|相对于?|对比|比|较"
# What may stand between the ends of a range or the members of a list; ``several`` tells the two apart.
SEP = rf"\s*(?:,\s*)?(?:to|through|thru|until|till|and|{COMPARED}|-|–|~|至|到|和|与|及|以及|、|,|，|—)+\s*(?:于|在|in\s+|the\s+)?"
# The joints that only list: a dash or "to" between two days is a range and never matches here.
ALONE = r"\s*(?:和|与|及|以及|、|,|，|比|较|\band\b|\bvs\.?|\bversus\b)\s*(?:on\s+)?"
AT = r"(?:the\s+)?(?:year[\s-])?(?P<{0}>end|close|start|beginning)(?:[\s-]+of)?[\s-]+"
# The name of a month includes its dot, by a possessive quantifier: a look-ahead for a year must not start at "ober" or
# at the dot.
MON = r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])\.?+"


Reader = Callable[[Twin, date], "Period | tuple[Period, ...] | None"]


@dataclass(frozen=True)
class Reading:
    """The time expressions of a text.

    Holds the periods, impossible dates, the change over time that is asked for, and the matched spans.
    """

    periods: tuple[Period, ...] = ()
    impossible: tuple[str, ...] = ()
    transform: Transform = Transform.NONE
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def whole(self) -> Period:
        """Return the period from the first to the last day of all periods; open on both sides when there is none."""
        if not self.periods:
            return Period()
        starts, ends = [p.start for p in self.periods], [p.end for p in self.periods]
        first = self.periods[0]
        # Periods of several grains ("2020 and March 2021") have no common frequency to group by.
        same = len({p.grain for p in self.periods}) == 1
        return replace(
            first,
            start=None if None in starts else min(filter(None, starts)),
            end=None if None in ends else max(filter(None, ends)),
            grain=first.grain if same else Frequency.NATIVE,
            cumulative=first.cumulative if len(self.periods) == 1 else False,
        )


def digits(text: str) -> str:
    """Convert Chinese numerals before 年, 月, 日 or 号 to digits without changing the length of the text."""
    # The length must not change: spans found in the converted text are used to blank the original.
    text = re.sub(rf"[{TYPED_DIGITS}]{{4}}(?=年|财年)", lambda m: replace_digits(m[0]), text)
    text = re.sub(
        r"(?<=[\d年])([一二三四五六七八九十]{1,2})(?=月)|(?<=月)([一二三四五六七八九十]{1,3})(?=[日号])", padded, text
    )
    return re.sub(
        rf"(?<![{TYPED_DIGITS}十])[{TYPED_DIGITS}]{{2}}(?=年(?!前|内|来|以来|间))",
        lambda m: replace_digits(m[0]),
        text,
    )


def padded(match: re.Match[str]) -> str:
    """Convert a Chinese numeral to digits, left-padded to its length: "三" → "3", "二十三" → " 23"."""
    value = parse_numeral(match[0])
    return match[0] if value is None else f"{value:>{len(match[0])}}"


QN = r"(?P<q>[1-4一二三四]|first|second|third|fourth|1st|2nd|3rd|4th)"
YY = rf"(?P<y>{Y4}|(?<!\d)\d{{2}})"
# Order decides: each match is blanked before the next rule runs, so a day must be read before its month, a range before
# its ends, and a year alone last of all.
RULES: list[tuple[str, Reader]] = [
    # Days.
    (rf"\b(?P<a>{MON})\s+(?P<d1>\d{{1,2}}){SEP}(?P<b>{MON})\s+(?P<d2>\d{{1,2}}),?\s+(?P<y>{Y4})\b", named_days),
    (rf"\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s*(?:-|~|to|through|until)\s*(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<a>{MON}),?\s+(?P<y>{Y4})\b", month_days),
    (rf"\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<a>{MON})\s*(?:-|~|to|through|until)\s*(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<b>{MON}),?\s+(?P<y>{Y4})\b", named_days),
    (rf"\b(?P<a>{MON})\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s*(?:-|~|to|through|until)\s*(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>{Y4})\b", month_days),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/.年]\s*(?P<m>\d{{1,2}})\s*[-/.月]\s*(?P<d1>\d{{1,2}})\s*[日号]?\s*(?:-|~|至|到)\s*(?:(?P<m2>\d{{1,2}})\s*月\s*)?(?P<d2>\d{{1,2}})\s*[日号]", month_days),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/.年]\s*(?P<m>\d{{1,2}})\s*[-/.月]\s*(?P<d1>\d{{1,2}})\s*[日号]?{ALONE}(?:(?P<m2>\d{{1,2}})\s*月\s*)?(?P<d2>\d{{1,2}})\s*[日号](?!\s*(?:之间|期间))", day_pair),
    (rf"\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?{ALONE}(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<b>{MON}),?\s+(?P<y>{Y4})\b", day_pair),
    (rf"\b(?P<a>{MON})\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?{ALONE}(?:(?P<b>{MON})\s+)?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>{Y4})\b", day_pair),
    (rf"\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<a>{MON}){ALONE}(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<b>{MON}),?\s+(?P<y>{Y4})\b", day_pair),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/.年]\s*(?P<m>\d{{1,2}})\s*[-/.月]\s*(?P<d>\d{{1,2}})(?!\d)\s*[日号]?(?:t?\s*\d{{1,2}}:\d{{2}}(?::\d{{2}})?)?", day),
    (rf"(?<!\d)(?P<y>{Y4})(?P<m>\d{{2}})(?P<d>\d{{2}})(?!\d)", day),
    (rf"\b(?P<mon>{MON})\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>{Y4})\b", named_day),
    (rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<mon>{MON}),?\s+(?P<y>{Y4})\b", named_day),
    # "3/18/2019": month first, as in US filings, unless the first number cannot be a month.
    (rf"(?<![\d/])(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<y>{Y4})(?![\d/])", american_day),
    # From the beginning of a year to a day or month of it.
    (rf"\b(?P<y>{Y4})\s*,?\s+(?:up\s+)?(?:to|until|till|through)\s+(?:the\s+end\s+of\s+)?(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+)?(?P<mon>{MON})(?:\s+(?P<d_>\d{{1,2}})(?!\d))?(?!\s*,?\s*(?:\d|{Y4}))", year_until),
    (rf"(?<!\d)(?P<y>{Y4})年?(?:初)?(?:截至|截止到?|至|到)(?P<m>\d{{1,2}})月(?:(?P<d>\d{{1,2}})[日号]|底|末)?(?!\d)", year_until),
    # From the beginning or the end of a year to that of another.
    (rf"(?<!\d)(?P<y1>{Y4})\s*年?(?P<x>[初末底])\s*(?:-|~|至|到)\s*(?P<y2>{Y4})\s*年?(?P<z>[初末底])?", bounds),
    (rf"\b{AT.format('x')}(?P<y1>{Y4})\s*(?:-|to|through|until|and)\s*{AT.format('z')}(?P<y2>{Y4})\b", bounds),
    # "mid-2022", 2022年中 alone; 2022年中国 goes on with a word and is not the middle of a year.
    (rf"\bmid(?:dle)?(?:-|\s+of\s+|\s+)(?P<y>{Y4})\b|(?<!\d)(?P<y_>{Y4})\s*年中(?![\w报期国间旬级小美欧央日外东西])", middle),
    # Decades.
    # 90年代, "the 1990s", "30's".
    (r"(?<!\d)(?P<c>(?:19|20)?)(?P<d>\d0)年代|\b(?:the\s+)?(?P<c_>(?:19|20))?(?P<d_>\d0)'?s\b", decade),
    # Fiscal years.
    (rf"\bfy\s*'?(?P<y>{Y4}|\d{{2}}){SEP}fy\s*'?(?P<z>{Y4}|\d{{2}})\b", fiscal),
    (rf"\b(?:q(?P<q>[1-4])\s*(?:of\s*)?(?:fy|fiscal(?:\s+year)?)\s*'?(?P<y>{Y4}|\d{{2}}))\b", fiscal),
    (rf"\b(?:fy|fiscal(?:\s+year)?)\s*'?(?P<y>{Y4}|\d{{2}})(?:\s*q(?P<q>[1-4]))?(?!\d)", fiscal),
    (rf"(?P<y>{Y4}|(?<!\d)\d{{2}})\s*(?:财政年度|财年)(?:第?q?(?P<q>[1-4])季?度?)?", fiscal),
    # Quarters and what statements cover.
    (rf"(?<!\d)(?P<y1>{Y4}|\d{{2}})\s*年?\s*(?:q|第)?(?P<q1>[1-4一二三四])(?:季度)?{SEP}(?:(?P<y2>{Y4}|\d{{2}})\s*年?\s*)?(?:q|第)(?P<q2>[1-4一二三四])(?:季度)?", quarters),
    (rf"(?<!\d)(?P<y1>{Y4}|\d{{2}})\s*年\s*第?(?P<q1>[1-4一二三四])季度{SEP}(?:(?P<y2>{Y4}|\d{{2}})\s*年\s*)?第?(?P<q2>[1-4一二三四])季度", quarters),
    (rf"\bq(?P<q1>[1-4])\s*(?P<y1>{Y4}){SEP}q(?P<q2>[1-4])\s*(?P<y2>{Y4})", quarters),
    (rf"(?<!\d)(?P<a>{Y4})\s*年?\s*(?:和|与|及|、|,)\s*(?P<b>{Y4})\s*年?的?\s*第?(?P<q>[一二三四1-4])季度", quarter_of_years),
    (rf"\b{QN}\s+quarters?\s+of\s+(?P<a>{Y4})\s+and\s+(?P<b>{Y4})\b|\bq(?P<q_>[1-4])\s+(?:of\s+)?(?P<a_>{Y4})\s+and\s+(?P<b_>{Y4})\b", quarter_of_years),
    (rf"(?<!\d)(?P<a>{Y4})\s*年?\s*(?:和|与|及|、|,)\s*(?P<b>{Y4})\s*年的?\s*(?P<m>\d{{1,2}})月份?(?!\s*\d)|\b(?P<mon>{MON})\s+(?:of\s+)?(?P<a_>{Y4})\s+and\s+(?P<b_>{Y4})\b", month_of_years),
    (rf"{YY}\s*年?\s*前\s*(?P<q>[1-4一二三四])\s*个?季度?", first_quarters),
    (rf"\b(?:the\s+)?first\s+(?P<q>two|three|[23])\s+quarters\s+of\s+(?P<y>{Y4})", first_quarters),
    (rf"\b(?:the\s+)?first\s+(?P<n>\d{{1,2}}|{'|'.join(NUMBERS)})\s+months\s+of\s+(?P<y>{Y4})|(?<!\d)(?P<y_>{Y4})\s*年\s*前\s*(?P<n_>\d{{1,2}}|[一二两三四五六七八九十]{{1,2}})\s*个月", first_months),
    # 2021年中报, 2021年三季报: Chinese interim reports are cumulative, so they cover the year up to their date.
    (rf"{YY}\s*年?度?\s*(?P<r>半年度报告?|半年报|中期报告|中报|中期|第?[一三13]季度?报告?)(?![度])", report),
    (rf"{YY}\s*年?\s*(?P<h>上|下)半年", half),
    (rf"\b(?P<h>h1|h2|1h|2h)\s*'?(?P<y>{Y4}|\d{{2}})\b|(?<!\d)(?P<y_>{Y4})\s*(?P<h_>h1|h2)\b", half),
    (rf"\b(?P<h>first|second)\s+half\s+of\s+(?P<y>{Y4})", half),
    (rf"\bq(?P<q>[1-9])\s*(?:of\s*)?'?(?P<y>{Y4}|\d{{2}})(?!\d)", quarter),
    (rf"(?<![\d])(?P<q>[1-4])q\s*'?(?P<y>{Y4}|\d{{2}})(?!\d)", quarter),
    (rf"{YY}\s*年?\s*-?(?:q(?P<q>[1-9])|第?(?P<q_>[1-9一二三四五六七八九])季度?)(?!\d)", quarter),
    (rf"\b(?:the\s+)?{QN}\s+quarter\s+(?:of\s+)?(?P<y>{Y4})", quarter),
    # Months.
    (rf"(?<!\d)(?P<y1>{Y4})\s*[-/年.]\s*(?P<m1>\d{{1,2}})\s*月?{SEP}(?P<y2>{Y4})\s*[-/年.]\s*(?P<m2>\d{{1,2}})(?!\d)\s*月?", months),
    (rf"(?<!\d)(?P<y1>{Y4})\s*年\s*(?P<m1>\d{{1,2}})\s*月?份?{SEP}(?:(?P<y2>{Y4})\s*年\s*)?(?P<m2>\d{{1,2}})\s*月", months),
    (rf"\b(?P<a>{MON})\s*(?P<y1>{Y4})?{SEP}(?P<b>{MON})\s*,?\s*(?P<y2>{Y4})\b", named_months),
    (rf"(?:自|从|since\s+|from\s+)(?P<y>{Y4})\s*[-/年]\s*(?P<m>0?[1-9]|1[0-2])\s*月?(?:以来|起|至今|开始)?(?!\s*(?:to|到|至|-|~))", since),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/年.]\s*(?P<m>\d{{1,2}})(?![-/.\d])\s*月?份?", month),
    (rf"\b(?P<mon>{MON})\s*,?\s+(?:of\s+)?(?P<y>{Y4})\b", named_month),
    (rf"(?<!\d)(?P<y>{Y4})(?P<m>0[1-9]|1[0-2])(?!\d)", month),
    # Years.
    (rf"(?<!\d)(?P<a>{Y4})\s*年?(?:年?度|年报|[末底终])?{SEP}(?:fy\s*)?(?P<b>{Y4})(?!\d)\s*年?(?:度|末|底)?", years),
    (rf"(?<!\d)(?P<a>\d{{2}}|{Y4})\s*年?{SEP}(?P<b>\d{{2}})年(?:度)?", years),
    (rf"(?:\bsince|\bafter|\bfrom|\bstarting(?:\s+in)?)\s+(?P<y>{Y4})|(?:自|从)\s*{YY.replace('<y>', '<y_>')}\s*年?(?:以来|起|至今|开始)?", since),
    (rf"(?<!\d)(?P<y>{Y4}|\d{{2}})\s*年?(?:以来|至今|之后|以后|onwards?)", since),
    (rf"\b(?:before|until|up\s+to|prior\s+to)\s+(?P<y>{Y4})|(?P<y_>{Y4})\s*年?(?:以前|之前)", before),
    # Relative to today.
    # "3-month return", "1-year volatility": a span only right before a statistic, otherwise a maturity ("10-year
    # yield").
    (rf"\b(?P<n>\d{{1,2}}|{'|'.join(NUMBERS)})[\s-](?P<u>year|quarter|month|week|day)(?=\s+(?:(?:total|price|cumulative|annuali[sz]ed)\s+)?(?:\0|returns?|averages?|means?|performance|change|gain|loss|volatility|drawdown|max(?:imum)? drawdown|high|low))", span_before),
    # 三个月涨幅, 1年回报率: the same in Chinese, where no 近 or 过去 marks the span as past.
    (r"(?<![近前去过第年\d后首头])(?P<n>[1-9]|[一二两三四五六七八九十])个?(?P<u>年|季度|月|周|天)期?(?=的?(?:\0|涨幅|跌幅|涨跌幅|回报率?|最大回撤|年化波动率|波动率))", span_before),
    (r"年初至今|今年以来|今年至今|本年至今|\b(?:ytd|year[\s-]to[\s-]date)\b", year_to_date),
    (r"\bttm\b|\bltm\b|trailing[\s-]+(?:twelve|12)[\s-]+months?|(?:过去|最近|近)(?:12|十二)个月|滚动(?:12|十二)个月|滚动一年", trailing),
    # 去年, 上个年度, "last year", "the current year".
    (r"大前年|前年|去年度?|上个?年度|上一年度?|上年度?|今年度?|本年度?|明年|后年|\b(?:last|previous|prior|this|next|(?:the\s+)?current)\s+year\b|\b(?:the\s+)?year before last\b", this),
    (r"上一?个?季度|本季度|这个季度|(?<!first to )(?<!first and )\b(?:last|previous|this)\s+quarter\b", this),
    (r"本月以来|本月至今|月初至今|\b(?:mtd|month[\s-]to[\s-]date)\b|本季度?以来|本季度?至今|季初至今|\b(?:qtd|quarter[\s-]to[\s-]date)\b", so_far),
    (r"上周|上个?星期|本周|这周|这个?星期|\b(?:last|previous|this)\s+week\b(?!\s+of)", week),
    (r"上个?月|本月|这个月|\b(?:last|previous|this)\s+month\b", this),
    # "the past three years", "last 20 trading days". "First to last quarter" and "last week of March 2020" are not
    # relative to today.
    (rf"(?<!first to )(?<!first and )\b(?:the\s+)?(?:past|last|previous|recent|trailing|latest|most recent)\s+(?:(?P<n>\d{{1,3}}|{'|'.join(NUMBERS)})\s+)?(?P<u>(?:fiscal\s+)?years?|decades?|quarters?|months?|weeks?|trading\s+days?|(?:trading\s+)?sessions?|days?)\b(?!\s+of\s+(?:\0|19|20|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|q[1-4]))", past),
    # 过去三年, 近20个交易日, 最近半年.
    (r"(?:过去|最近|近|前)的?(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,3}|半)个?(?:完整)?(?P<u>财年|年度|年|季度|月|周|星期|交易日|天|日)(?:以来|来|内|间)?", past),
    (r"前天|昨天|昨日|\byesterday\b", yesterday),
    # A year alone.
    # 2021年报, 2021年末, 2021: last, since every rule above contains a year.
    (rf"(?<![\d.])(?P<y>{Y4})(?!\d)\s*(?:年度报告|年度|年报|年末|年底|年终|年全年|年|全年)?", single_year),
    (r"(?<![\d.])(?P<y>\d{2})\s*(?:年度报告|年度|年报|年末|年底|年终|年全年|年)(?!前|内|来|以来|间|期)", single_year),
    (r"(?<=\s)'(?P<y>\d{2})\b", single_year),
]  # fmt: skip
# "Q3" or 第三季度 apart from its year, as in "for 2021, what was the figure of Q3".
BARE_QUARTER = re.compile(r"第(?P<q>[一二三四1-4])季度|\bq(?P<e>[1-4])\b", re.I | re.A)
COMPILED = [(re.compile(pattern, re.I | re.A), reader) for pattern, reader in RULES]
# A group may have a twin with an underscore, as a pattern cannot use a group name twice.
TRANSFORMS: list[tuple[re.Pattern[str], Transform]] = [
    (re.compile(pattern, re.I | re.A), transform)
    for pattern, transform in [
        # "CPI yoy", 同比增速, "than a year earlier", "on the year".
        (r"同比(?:增长率|增速|增幅|增长|变化率|变动|涨幅|下降|上涨|上升)?|[较比](?:上年|去年)同[期月]|与(?:上年|去年)同期相比|[较比]一年前|\byoy\b|year[\s-](?:over|on|to)[\s-]year|\by[/-]?[yoy]\b"
         r"|\b(?:than|from|versus|vs\.?|compared (?:with|to)|over|against|on) (?:a|one|the) year (?:earlier|ago|before|prior)|\byear[\s-]ago\b|\bon the year\b|\b(?:12|twelve)[\s-]month (?:change|rate|growth|inflation)",
         Transform.YOY),
        # "month-over-month", 较上月. Before the quarters, as 月环比 holds 环比.
        (r"月环比|[较比](?:上一?个?月|前一?个?月)|\bmom\b|month[\s-](?:over|on|to)[\s-]month|m/m|\bmonthly (?:growth|change|rise|fall|percent(?:age)? change)|\bon the month\b|\bfrom (?:the (?:previous|prior) month|a month (?:earlier|before|ago))",
         Transform.MOM),
        # 环比增速, "quarter on quarter", "sequentially". 环比 of a monthly series is made monthly later, in
        # ``Changes.offset``.
        (r"环比(?:增长率|增速|增幅|增长|变化率|变动)?|[较比](?:上一?个?季度?|前一?个?季度?)|\bqoq\b|quarter[\s-](?:over|on|to)[\s-]quarter|q/q|\bquarterly (?:growth|change|rate of growth)|\bon the quarter\b|\bsequential(?:ly)?\b"
         r"|\bfrom (?:the (?:previous|prior) quarter|a quarter (?:earlier|before|ago))", Transform.QOQ),
        (r"\bttm\b|\bltm\b|trailing[\s-]+(?:twelve|12)[\s-]+months?|滚动(?:12|十二)个月|滚动一年", Transform.TTM),
        (r"单季度?(?:的)?|single[\s-]quarter|quarterly standalone", Transform.SINGLE),
    ]
]  # fmt: skip


def transform_of(text: str) -> tuple[Transform, list[tuple[int, int]]]:
    """Return the change over time that a text asks for ("year over year" → ``YOY``) and its spans."""
    for words, kind in TRANSFORMS:
        spans = [match.span() for match in words.finditer(text)]
        if spans:
            return kind, spans
    return Transform.NONE, []


def read(text: str, today: date) -> Reading:
    """Parse all periods of a text: "first half of 2019" → 2019-01-01..2019-06-30.

    ``today`` anchors relative periods; pass the last day with data, not the current date.
    """
    rest = digits(plain(text))
    found: list[tuple[tuple[int, int], Period]] = []
    impossible: list[str] = []
    spans: list[tuple[int, int]] = []
    for pattern, reader in COMPILED:
        for match in list(pattern.finditer(rest)):
            # A rule that matches but gives no period is an impossible date ("31 February"): it is reported, never
            # corrected.
            period = reader(Twin(match), today)
            if period is None:
                impossible.append(match[0].strip())
            else:
                each = period if isinstance(period, tuple) else (period,)
                found += [(match.span(), replace(item, span=match.span())) for item in each]
            spans.append(match.span())
            # NUL keeps the positions, and to the rules that follow it is no blank, digit or letter.
            rest = rest[: match.start()] + "\0" * len(match[0]) + rest[match.end() :]
    transform, _ = transform_of(plain(text))
    ordered = tuple(period for _, period in sorted(found, key=lambda item: item[0]))
    periods = anchored(listed_days(rest_of(text), opened(rest_of(text), ordered)))
    # A quarter without a year belongs to the only year that the text names; with several it is ambiguous and is
    # ignored.
    bare = BARE_QUARTER.search(rest)
    if bare and len(periods) == 1 and periods[0].grain == Frequency.ANNUAL and periods[0].start and periods[0].end:
        which = number(bare["q"] or bare["e"])
        if which and periods[0].start.year == periods[0].end.year:
            periods = (replace(quarter_period(periods[0].start.year, which), span=periods[0].span),)
            spans.append(bare.span())
    return Reading(narrowed(open_pairs(periods)), tuple(impossible), transform, tuple(sorted(spans)))


def rest_of(text: str) -> str:
    """Return the normalised text that the rules are matched against."""
    return digits(plain(text))
