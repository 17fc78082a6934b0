"""Statistics per day, month, quarter or year, and aggregates of them.

Examples: "worst month", 单日最大跌幅, "average monthly return".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.parser.operators import cue_words
from fathom.services.datafetch.query.model import Frequency, Statistic

EVERY = {
    "日": Frequency.DAILY, "天": Frequency.DAILY, "交易日": Frequency.DAILY, "周": Frequency.WEEKLY, "月": Frequency.MONTHLY, "月份": Frequency.MONTHLY,
    "季": Frequency.QUARTERLY, "季度": Frequency.QUARTERLY, "年": Frequency.ANNUAL, "年份": Frequency.ANNUAL, "年度": Frequency.ANNUAL,
    "day": Frequency.DAILY, "session": Frequency.DAILY, "daily": Frequency.DAILY, "week": Frequency.WEEKLY, "weekly": Frequency.WEEKLY,
    "month": Frequency.MONTHLY, "monthly": Frequency.MONTHLY, "quarter": Frequency.QUARTERLY, "quarterly": Frequency.QUARTERLY,
    "year": Frequency.ANNUAL, "yearly": Frequency.ANNUAL, "annual": Frequency.ANNUAL, "calendar year": Frequency.ANNUAL,
}  # fmt: skip
# Chinese and English words for the length of one group; the group's name is repeated with suffixes below, since a
# pattern cannot use it twice.
ZH = r"(?P<e>交易日|季度|月份|年份|年度|日|天|周|月|季|年)"
EN = r"(?P<e>day|session|week|month|quarter|calendar year|year)s?"
ENLY = r"(?:(?:one|single|1)[\s-])?(?P<e>daily|weekly|monthly|quarterly|yearly|annual|day|week|month|quarter|year)"
RISE, FALL = r"涨幅|升幅|上涨|涨得?|增幅|收益率?|回报率?|表现|反弹", r"跌幅|降幅|下跌|跌得?|亏损"
GAIN = r"gains?|rises?|increases?|advances?|jumps?|returns?|rall(?:y|ies)|performances?"
LOSS = r"drops?|loss(?:es)?|falls?|declines?|decreases?|plunges?|slumps?|sell-?offs?"
MOST, WORST = r"最大|最多|最高|最好|最佳|最强|最猛|最快", r"最差|最惨|最糟|最小|最低|最少|最弱"
BIG = r"biggest|largest|highest|best|greatest|steepest|sharpest|worst|strongest"
# The lowest value comes first: "worst return" holds a word of rise, and a fall's maximum is the minimum of the changes.
PATTERNS: list[tuple[re.Pattern[str], Statistic]] = [
    (re.compile(pattern, re.I | re.A), outer)
    for pattern, outer in [
        # 最大单日跌幅, 单日最大跌幅.
        (rf"(?:最大的?单?一?{ZH}的?(?:{FALL}))|单一?个?{ZH.replace('<e>', '<e_>')}的?(?:最大的?(?:{FALL})|(?:{FALL})(?:{MOST}))", Statistic.MIN),
        # 最大单月涨幅, 单月涨幅最大.
        (rf"(?:最大的?单?一?{ZH}的?(?:{RISE}))|单一?个?{ZH.replace('<e>', '<e_>')}的?(?:最大的?(?:{RISE})|(?:{RISE})(?:{MOST}))", Statistic.MAX),
        # 跌幅最大的月份, 哪个月跌得最多, 表现最差的一年.
        (rf"(?:{FALL})(?:了)?(?:{MOST})的?(?:是)?(?:那?一?个?|哪一?个?){ZH}|哪一?个?{ZH.replace('<e>', '<e_>')}的?(?:{FALL})(?:了)?(?:{MOST})"
         rf"|(?:表现|收益率?|回报率?)?(?:{WORST})的?(?:是)?(?:那?一?个?|哪一?个?){ZH.replace('<e>', '<e2>')}|哪一?个?{ZH.replace('<e>', '<e3>')}的?(?:表现|收益率?|回报率?|{RISE})(?:{WORST})", Statistic.MIN),
        # 涨幅最大的一天, 哪一年表现最好.
        (rf"(?:{RISE})(?:了)?(?:{MOST})的?(?:是)?(?:那?一?个?|哪一?个?){ZH}|哪一?个?{ZH.replace('<e>', '<e_>')}的?(?:{RISE})(?:了)?(?:{MOST})"
         rf"|(?:最好|最佳)的?(?:那?一?个?|哪一?个?){ZH.replace('<e>', '<e2>')}", Statistic.MAX),
        # "largest daily drop", "worst month", "month with the biggest loss", "the year it fell most".
        (rf"\b(?:{BIG})\s+{ENLY}\s+(?:percentage\s+)?(?:{LOSS})\b|\bworst\s+(?:single\s+|trading\s+)?{EN.replace('<e>', '<e_>')}\b|\b{EN.replace('<e>', '<e2>')}\b.{{0,30}}\b(?:{BIG})\s+(?:percentage\s+)?(?:{LOSS})\b"
         rf"|\b{EN.replace('<e>', '<e3>')}\b.{{0,40}}\b(?:fall|fell|drop|dropped|decline|declined|lose|lost)\s+(?:the\s+)?most\b|\bworst\s+{ENLY.replace('<e>', '<e4>')}\s+(?:{GAIN})\b", Statistic.MIN),
        # "biggest one-day gain", "best quarter", "the month that gained most".
        (rf"\b(?:{BIG})\s+{ENLY}\s+(?:percentage\s+)?(?:{GAIN})\b|\bbest\s+(?:single\s+|trading\s+)?{EN.replace('<e>', '<e_>')}\b|\b{EN.replace('<e>', '<e2>')}\b.{{0,30}}\b(?:{BIG})\s+(?:percentage\s+)?(?:{GAIN})\b"
         rf"|\b{EN.replace('<e>', '<e3>')}\b.{{0,40}}\b(?:rise|rose|gain|gained|jump|jumped|climb|climbed)\s+(?:the\s+)?most\b", Statistic.MAX),
        # 平均每月涨幅, 月均新增, "average monthly return", "average monthly job gains".
        (rf"平均每?个?{ZH}的?(?:{RISE}|{FALL}|涨跌幅?|变化|变动|新增|增加)|(?:日|月|季|年)均(?P<none>新增)|每?个?{ZH.replace('<e>', '<e_>')}平均(?:{RISE}|{FALL}|涨跌幅?|变化|变动|新增|增加)"
         rf"|\b(?:average|mean)\s+{ENLY.replace('<e>', '<e2>')}\s+(?:{GAIN}|{LOSS}|changes?|job (?:gains?|growth)|additions?)\b", Statistic.MEAN),
    ]
]  # fmt: skip
COUNT = r"\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|[两三四五六七八九十]"
# "three worst" months, 最大的三 (个月): the number of groups to return.
SEVERAL = re.compile(
    rf"(?:(?P<n>{COUNT})\s*(?:best|worst|biggest|largest|steepest)|(?:最大|最多|最好|最差|最惨)的?(?P<n_>{COUNT}))",
    re.I,
)
COUNTED = re.compile(r"新增|增加|job|additions?", re.I | re.A)


@dataclass(frozen=True)
class Grouping:
    """A nested statistic: ``outer`` over the ``inner`` statistic of each ``every``.

    ``span`` is its position in the text.
    """

    every: Frequency
    inner: Statistic
    outer: Statistic
    count: int
    span: tuple[int, int]


def told(match: re.Match[str]) -> str:
    """Return the number word of a match."""
    return match["n"] or match["n_"]


def find(text: str) -> Grouping | None:
    """Parse a nested statistic, such as "the three worst months", or return None."""
    for pattern, outer in PATTERNS:
        match = pattern.search(text)
        if match is None:
            continue
        # 月均新增 names its group by the first character alone.
        word = next((value for key, value in match.groupdict().items() if key.startswith("e") and value), match[0][:1])
        inner = Statistic.CHANGE if COUNTED.search(match[0]) else Statistic.RETURN
        every = EVERY.get(word.lower())
        if every is not None:
            # The number may stand before the match ("the three worst months"): 16 characters hold it and an article.
            counted = SEVERAL.search(match[0]) or SEVERAL.search(text[: match.start()][-16:] + match[0])
            count = parse_number(told(counted)) if counted else None
            start = match.start() if counted is None else min(match.start(), text.index(told(counted)))
            return Grouping(every, inner, outer, count or 1, (start, match.end()))
    return None


def each(text: str, statistics: tuple[Statistic, ...], native: Frequency) -> Frequency:
    """Return the period length that statistics are computed for, or ``NATIVE`` for the whole period.

    "Annual returns" gives ``ANNUAL``. Except for returns and changes, the length must be coarser than ``native``.
    """
    # A single end is not a frequency: "up to the end of September".
    text = re.sub(r"(?<![每各逐按])[年月季](?:度)?[末底]", "\0", text)
    found = cue_words.density(text) or (Frequency.ANNUAL if YEARS.search(text) else Frequency.NATIVE)
    if not statistics or not found or set(statistics) & {Statistic.CAGR, Statistic.LAST}:
        return Frequency.NATIVE
    # The mean of the only value of a month is the series itself; its change is not.
    order = list(Frequency)
    moves = {Statistic.RETURN, Statistic.CHANGE}
    if not set(statistics) <= moves and order.index(found) <= order.index(native):
        return Frequency.NATIVE
    if set(statistics) <= moves and order.index(found) < order.index(native):
        return Frequency.NATIVE
    return found


# "annual returns", "annual highs", 历年, 分年度: figures per year. 年均复合 and 年均涨幅 are compound rates over all
# years.
YEARS = re.compile(r"\bannual (?:averages?|means?|returns|gains|changes|volatilit(?:y|ies)|highs?|lows?)\b|年均(?!复合|涨幅|收益|回报|增)|历年|各年度?|每一?年度?|分年度?", re.I | re.A)  # fmt: skip
