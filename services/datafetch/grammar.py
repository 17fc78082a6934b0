"""The period grammar: which words name which period. Longer and more definite forms are read first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date

from services.datafetch.model import Transform
from services.datafetch.periods import (
    Kind,
    Period,
    back,
    day_period,
    days_before,
    month_end,
    month_period,
    quarter_period,
    safe_day,
    to_date,
    year_period,
)
from services.datafetch.semantic.schema import Frequency
from services.datafetch.semantic.text import DIGITS, chinese_number, plain

Y4 = r"(?:19|20)\d{2}"
ZH_DIGITS = "〇零○一二三四五六七八九"
SEP = r"\s*(?:to|through|thru|until|till|and|vs\.?|versus|-|~|至|到|和|与|及|、|,|，|—)+\s*"
ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(ENGLISH.split())}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
MONTH = {name: number for number, name in enumerate(MONTH_NAMES.split(), 1)}
MON = r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
NUM = r"(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[一二两三四五六七八九十]{1,3}|半)"
UNIT_MONTHS = {
    "year": 12,
    "年": 12,
    "quarter": 3,
    "季度": 3,
    "季": 3,
    "month": 1,
    "月": 1,
    "fiscalyear": 12,
    "财年": 12,
    "年度": 12,
}
UNIT_DAYS = {"week": 7, "周": 7, "星期": 7, "day": 1, "天": 1, "日": 1, "交易日": 1}


@dataclass(frozen=True)
class Twin:
    """A match whose groups ``x`` and ``x_`` are one."""

    match: re.Match[str]

    def __getitem__(self, key: str | int) -> str:
        if isinstance(key, int):
            return self.match[key]
        groups = self.match.groupdict()
        value = groups.get(key) or groups.get(f"{key}_")
        return value or ""

    def groupdict(self) -> dict[str, str]:
        return {key.removesuffix("_"): value for key, value in self.match.groupdict().items() if value}


Reader = Callable[[Twin, date], "Period | None"]


@dataclass(frozen=True)
class Reading:
    """The periods of a text, those that cannot be, and what is asked of the values over time."""

    periods: tuple[Period, ...] = ()
    impossible: tuple[str, ...] = ()
    transform: Transform = Transform.NONE
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def whole(self) -> Period:
        """From the first day to the last of all periods; open on both sides when there is none."""
        if not self.periods:
            return Period()
        starts, ends = [p.start for p in self.periods], [p.end for p in self.periods]
        first = self.periods[0]
        same = len({p.grain for p in self.periods}) == 1
        return replace(
            first,
            start=None if None in starts else min(filter(None, starts)),
            end=None if None in ends else max(filter(None, ends)),
            grain=first.grain if same else Frequency.NATIVE,
            cumulative=first.cumulative if len(self.periods) == 1 else False,
        )


def number(word: str) -> int | None:
    word = word.lower()
    return NUMBERS[word] if word in NUMBERS else chinese_number(word)


def digits(text: str) -> str:
    """Years and months in Chinese numerals as digits, in as many characters, where they stand before 年, 月 or 季."""
    text = re.sub(rf"[{ZH_DIGITS}]{{4}}(?=年|财年)", lambda m: "".join(DIGITS[c] for c in m[0]), text)
    text = re.sub(
        r"(?<=[\d年])([一二三四五六七八九十]{1,2})(?=月)|(?<=月)([一二三四五六七八九十]{1,3})(?=[日号])", padded, text
    )
    return re.sub(
        rf"(?<![{ZH_DIGITS}十])[{ZH_DIGITS}]{{2}}(?=年(?!前|内|来|以来|间))",
        lambda m: "".join(DIGITS[c] for c in m[0]),
        text,
    )


def padded(match: re.Match[str]) -> str:
    """A Chinese number as digits, in as many characters: "三" is "3", "十三" is "13", "二十三" is " 23"."""
    value = chinese_number(match[0])
    return match[0] if value is None else f"{value:>{len(match[0])}}"


def full_year(text: str) -> int:
    """ "2021" and "21"; two digits are of this century up to 49."""
    value = int(text)
    return value if value > 99 else 2000 + value if value < 50 else 1900 + value


def day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), int(match["m"]), int(match["d"]))
    return day_period(found) if found else None


def named_day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), MONTH[match["mon"][:3].lower()], int(match["d"]))
    return day_period(found) if found else None


def named_days(match: Twin, today: date) -> Period | None:
    year = int(match["y"])
    first, last = (safe_day(year, MONTH[match[m][:3].lower()], int(match[d])) for m, d in (("a", "d1"), ("b", "d2")))
    return Period(first, last, Frequency.DAILY) if first and last and first <= last else None


def years(match: Twin, today: date) -> Period | None:
    first, last = sorted((full_year(match["a"]), full_year(match["b"])))
    return year_period(first, last)


def quarters(match: Twin, today: date) -> Period | None:
    first = quarter_of(match["y1"], match["q1"])
    last = quarter_of(match["y2"] or match["y1"], match["q2"])
    if first is None or last is None or first.start is None or last.start is None:
        return None
    first, last = sorted((first, last), key=lambda p: p.start or date.min)
    return replace(first, end=last.end)


def quarter_of(year: str, quarter: str) -> Period | None:
    which = ORDINALS.get(quarter.lower()) or number(quarter)
    return quarter_period(full_year(year), which) if which and 1 <= which <= 4 else None


def quarter(match: Twin, today: date) -> Period | None:
    return quarter_of(match["y"], match["q"])


def first_quarters(match: Twin, today: date) -> Period | None:
    which = number(match["q"])
    return to_date(full_year(match["y"]), which * 3) if which and 1 <= which <= 4 else None


def report(match: Twin, today: date) -> Period | None:
    """A statement: the first-quarter, interim or third-quarter report covers the year so far."""
    word = match["r"]
    months = {"一": 3, "1": 3, "三": 9, "3": 9}.get(word[0], 6)
    return to_date(full_year(match["y"]), months)


def half(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    if match["h"].lower() in ("上", "h1", "1h", "first", "1"):
        return to_date(year, 6)
    return Period(date(year, 7, 1), date(year, 12, 31), Frequency.QUARTERLY, Kind.FLOW)


def months(match: Twin, today: date) -> Period | None:
    y1, m1, m2 = int(match["y1"]), int(match["m1"]), int(match["m2"])
    y2 = int(match["y2"] or y1)
    if not (1 <= m1 <= 12 and 1 <= m2 <= 12) or (y1, m1) > (y2, m2):
        return None
    return replace(month_period(y1, m1), end=month_end(y2, m2))


def named_months(match: Twin, today: date) -> Period | None:
    m1, m2 = (MONTH[match[key][:3].lower()] for key in ("a", "b"))
    y2 = int(match["y2"])
    y1 = int(match["y1"] or y2)
    return replace(month_period(y1, m1), end=month_end(y2, m2)) if (y1, m1) <= (y2, m2) else None


def month(match: Twin, today: date) -> Period | None:
    value = int(match["m"])
    return month_period(int(match["y"]), value) if 1 <= value <= 12 else None


def named_month(match: Twin, today: date) -> Period | None:
    return month_period(int(match["y"]), MONTH[match["mon"][:3].lower()])


def fiscal(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    last = match.groupdict().get("z")
    which = match.groupdict().get("q")
    period = quarter_period(year, int(which)) if which else year_period(year, full_year(last) if last else year)
    return replace(period, fiscal=True)


def decade(match: Twin, today: date) -> Period | None:
    tens = int(match["d"])
    first = int(match["c"]) * 100 + tens if match["c"] else (1900 if tens >= 30 else 2000) + tens
    return year_period(first, first + 9)


def yesterday(match: Twin, today: date) -> Period | None:
    back_by = {"今": 0, "to": 0, "昨": 1, "ye": 1, "前": 2}.get(
        match[0][:1], {"to": 0, "ye": 1}.get(match[0][:2].lower(), 1)
    )
    return replace(day_period(days_before(today, back_by)), relative=True)


def since(match: Twin, today: date) -> Period | None:
    return Period(date(full_year(match["y"]), int(match.groupdict().get("m") or 1), 1), None)


def after(match: Twin, today: date) -> Period | None:
    return Period(date(full_year(match["y"]), 1, 1), None)


def before(match: Twin, today: date) -> Period | None:
    return Period(None, date(full_year(match["y"]) - 1, 12, 31))


def past(match: Twin, today: date) -> Period | None:
    """The last n years, quarters, months, weeks or days up to ``today``."""
    word = (match["n"] or "one").lower()
    unit = re.sub(r"s$|^个|^fiscal\s+", "", match["u"].lower()).strip().removeprefix("个").removeprefix("完整")
    if word == "半":
        return Period(back(today, 6), today, relative=True)
    count = number(word)
    if count is None:
        return None
    if unit in UNIT_DAYS:
        return Period(days_before(today, count * UNIT_DAYS[unit]), today, relative=True)
    grain = {12: Frequency.ANNUAL, 3: Frequency.QUARTERLY}.get(UNIT_MONTHS[unit], Frequency.NATIVE)
    return Period(back(today, count * UNIT_MONTHS[unit]), today, grain, Kind.FLOW, relative=True)


def this(match: Twin, today: date) -> Period | None:
    """Last year, this quarter, the year before last …"""
    words = re.sub(r"\s+", "", match[0].lower())
    for word, offset in YEAR_WORDS.items():
        if words.startswith(word):
            return replace(year_period(today.year - offset, today.year - offset), relative=True)
    for word, offset in QUARTER_WORDS.items():
        if words.startswith(word):
            start = back(date(today.year, (today.month - 1) // 3 * 3 + 1, 1), 3 * offset)
            return replace(quarter_period(start.year, start.month // 3 + 1), relative=True)
    start = back(date(today.year, today.month, 1), 0 if words.startswith(("本", "this", "这")) else 1)
    return replace(month_period(start.year, start.month), relative=True)


def year_to_date(match: Twin, today: date) -> Period | None:
    return Period(date(today.year, 1, 1), today, kind=Kind.FLOW, relative=True)


def trailing(match: Twin, today: date) -> Period | None:
    return Period(back(today, 12), today, kind=Kind.FLOW, relative=True)


def latest(match: Twin, today: date) -> Period | None:
    return None


def single_year(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    return year_period(year, year)


YEAR_WORDS = {"大前年": 3, "前年": 2, "去年": 1, "上年": 1, "上一年": 1, "上个年度": 1, "上一年度": 1, "上年度": 1, "今年": 0, "本年": 0, "本年度": 0,
              "当年": 0, "明年": -1, "后年": -2, "lastyear": 1, "previousyear": 1, "prioryear": 1, "thisyear": 0, "thecurrentyear": 0,
              "currentyear": 0, "nextyear": -1, "theyearbeforelast": 2, "yearbeforelast": 2}  # fmt: skip
QUARTER_WORDS = {
    "上季度": 1,
    "上个季度": 1,
    "上一季度": 1,
    "上一个季度": 1,
    "本季度": 0,
    "这个季度": 0,
    "lastquarter": 1,
    "previousquarter": 1,
    "thisquarter": 0,
}
QN = r"(?P<q>[1-4一二三四]|first|second|third|fourth|1st|2nd|3rd|4th)"
YY = rf"(?P<y>{Y4}|(?<!\d)\d{{2}})"
RULES: list[tuple[str, Reader]] = [
    # Days.
    (rf"\b(?P<a>{MON})\s+(?P<d1>\d{{1,2}}){SEP}(?P<b>{MON})\s+(?P<d2>\d{{1,2}}),?\s+(?P<y>{Y4})\b", named_days),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/.年]\s*(?P<m>\d{{1,2}})\s*[-/.月]\s*(?P<d>\d{{1,2}})(?!\d)\s*[日号]?(?:t?\s*\d{{1,2}}:\d{{2}}(?::\d{{2}})?)?", day),
    (rf"(?<!\d)(?P<y>{Y4})(?P<m>\d{{2}})(?P<d>\d{{2}})(?!\d)", day),
    (rf"\b(?P<mon>{MON})\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>{Y4})\b", named_day),
    (rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<mon>{MON}),?\s+(?P<y>{Y4})\b", named_day),
    # Decades.
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
    (rf"{YY}\s*年?\s*前\s*(?P<q>[1-4一二三四])\s*个?季度?", first_quarters),
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
    (rf"(?<!\d)(?P<y1>{Y4})\s*年\s*(?P<m1>\d{{1,2}})\s*月?{SEP}(?:(?P<y2>{Y4})\s*年\s*)?(?P<m2>\d{{1,2}})\s*月", months),
    (rf"\b(?P<a>{MON})\s*(?P<y1>{Y4})?{SEP}(?P<b>{MON})\s*,?\s*(?P<y2>{Y4})\b", named_months),
    (rf"(?:自|从|since\s+|from\s+)(?P<y>{Y4})\s*[-/年]\s*(?P<m>0?[1-9]|1[0-2])\s*月?(?:以来|起|至今|开始)?(?!\s*(?:to|到|至|-|~))", since),
    (rf"(?<!\d)(?P<y>{Y4})\s*[-/年.]\s*(?P<m>\d{{1,2}})(?![-/.\d])\s*月?份?", month),
    (rf"\b(?P<mon>{MON})\s*,?\s+(?:of\s+)?(?P<y>{Y4})\b", named_month),
    (rf"(?<!\d)(?P<y>{Y4})(?P<m>0[1-9]|1[0-2])(?!\d)", month),
    # Years.
    (rf"(?<!\d)(?P<a>{Y4})\s*年?(?:年?度|年报)?{SEP}(?:fy\s*)?(?P<b>{Y4})(?!\d)\s*年?(?:度|末|底)?", years),
    (rf"(?<!\d)(?P<a>\d{{2}}|{Y4})\s*年?{SEP}(?P<b>\d{{2}})年(?:度)?", years),
    (rf"(?:\bsince|\bafter|\bfrom|\bstarting(?:\s+in)?)\s+(?P<y>{Y4})|(?:自|从)\s*{YY.replace('<y>', '<y_>')}\s*年?(?:以来|起|至今|开始)?", since),
    (rf"(?<!\d)(?P<y>{Y4}|\d{{2}})\s*年?(?:以来|至今|之后|以后|onwards?)", since),
    (rf"\b(?:before|until|up\s+to|prior\s+to)\s+(?P<y>{Y4})|(?P<y_>{Y4})\s*年?(?:以前|之前)", before),
    # Relative to today.
    (r"年初至今|今年以来|今年至今|本年至今|\b(?:ytd|year[\s-]to[\s-]date)\b", year_to_date),
    (r"\bttm\b|\bltm\b|trailing[\s-]+(?:twelve|12)[\s-]+months?|(?:过去|最近|近)(?:12|十二)个月|滚动(?:12|十二)个月|滚动一年", trailing),
    (r"大前年|前年|去年度?|上个?年度|上一年度?|上年度?|今年度?|本年度?|明年|后年|\b(?:last|previous|prior|this|next|(?:the\s+)?current)\s+year\b|\b(?:the\s+)?year before last\b", this),
    (r"上一?个?季度|本季度|这个季度|\b(?:last|previous|this)\s+quarter\b", this),
    (r"上个?月|本月|这个月|\b(?:last|previous|this)\s+month\b", this),
    (rf"\b(?:the\s+)?(?:past|last|previous|recent|trailing)\s+(?:(?P<n>\d{{1,3}}|{'|'.join(NUMBERS)})\s+)?(?P<u>(?:fiscal\s+)?years?|quarters?|months?|weeks?|(?:trading\s+)?days?)\b", past),
    (r"(?:过去|最近|近|前)的?(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,3}|半)个?(?:完整)?(?P<u>财年|年度|年|季度|月|周|星期|交易日|天|日)(?:以来|来|内|间)?", past),
    (r"前天|昨天|昨日|\byesterday\b", yesterday),
    # A year alone.
    (rf"(?<![\d.])(?P<y>{Y4})(?!\d)\s*(?:年度报告|年度|年报|年末|年底|年终|年全年|年|全年)?", single_year),
    (r"(?<![\d.])(?P<y>\d{2})\s*(?:年度报告|年度|年报|年末|年底|年终|年全年|年)(?!前|内|来|以来|间|期)", single_year),
    (r"(?<=\s)'(?P<y>\d{2})\b", single_year),
]  # fmt: skip
BARE_QUARTER = re.compile(r"第(?P<q>[一二三四1-4])季度|\bq(?P<e>[1-4])\b", re.I)
COMPILED = [(re.compile(pattern, re.IGNORECASE), reader) for pattern, reader in RULES]
# Every group may have a twin with an underscore, since one pattern cannot name a group twice.
TRANSFORMS: list[tuple[re.Pattern[str], Transform]] = [
    (re.compile(pattern, re.IGNORECASE), transform)
    for pattern, transform in [
        (
            r"同比(?:增长率|增速|增幅|增长|变化率|变动|涨幅|下降)?|较上年同期|与上年同期相比|\byoy\b|year[\s-](?:over|on)[\s-]year|y/y",
            Transform.YOY,
        ),
        (r"环比(?:增长率|增速|增幅|增长|变化率|变动)?|\bqoq\b|quarter[\s-](?:over|on)[\s-]quarter|q/q", Transform.QOQ),
        (r"\bmom\b|month[\s-](?:over|on)[\s-]month|m/m|月环比", Transform.MOM),
        (r"\bttm\b|\bltm\b|trailing[\s-]+(?:twelve|12)[\s-]+months?|滚动(?:12|十二)个月|滚动一年", Transform.TTM),
        (r"单季度?(?:的)?|single[\s-]quarter|quarterly standalone", Transform.SINGLE),
    ]
]


def read(text: str, today: date) -> Reading:
    """All periods of a text. ``today`` anchors relative ones: the present day of the data, not of the machine."""
    rest = digits(plain(text))
    found: list[tuple[tuple[int, int], Period]] = []
    impossible: list[str] = []
    spans: list[tuple[int, int]] = []
    for pattern, reader in COMPILED:
        for match in list(pattern.finditer(rest)):
            period = reader(Twin(match), today)
            if period is None:
                impossible.append(match[0].strip())
            else:
                found.append((match.span(), replace(period, span=match.span())))
            spans.append(match.span())
            rest = rest[: match.start()] + "\0" * len(match[0]) + rest[match.end() :]
    transform = Transform.NONE
    for words, kind in TRANSFORMS:
        if transform == Transform.NONE and words.search(plain(text)):
            transform = kind
    periods = anchored(tuple(period for _, period in sorted(found, key=lambda item: item[0])))
    bare = BARE_QUARTER.search(rest)
    if bare and len(periods) == 1 and periods[0].grain == Frequency.ANNUAL and periods[0].start and periods[0].end:
        which = number(bare["q"] or bare["e"])
        if which and periods[0].start.year == periods[0].end.year:
            periods = (replace(quarter_period(periods[0].start.year, which), span=periods[0].span),)
            spans.append(bare.span())
    return Reading(open_pairs(periods), tuple(impossible), transform, tuple(sorted(spans)))


def anchored(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """ "The twelve months to August 2022": a run up to today ends with the other period when one is named."""
    runs = [
        p for p in periods if p.relative and p.kind == Kind.FLOW and p.start and p.end and p.grain == Frequency.NATIVE
    ]
    named = [p for p in periods if not p.relative and p.end]
    if len(runs) != 1 or len(named) != 1 or len(periods) != 2 or named[0].end is None:
        return periods
    run, end = runs[0], named[0].end
    to_date = run.start is not None and (run.start.month, run.start.day) == (1, 1)
    begin = date(end.year, 1, 1) if to_date else days_before(back(end, 12), -1)
    return (replace(run, start=begin, end=end),)


def open_pairs(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """ "Since 2018 until 2020": what is open on one side is closed by what is open on the other."""
    since_ = [p for p in periods if p.end is None]
    until = [p for p in periods if p.start is None]
    if len(since_) == 1 and len(until) == 1 and len(periods) == 2:
        return (replace(since_[0], end=until[0].end),)
    return periods


def find_period(text: str, today: date) -> Period:
    """The one period from the first to the last day that a text names."""
    return read(text, today).whole


def surfaces(text: str, reading: Reading) -> Iterator[str]:
    """The words of each period."""
    shown = plain(text)
    for period in reading.periods:
        yield shown[slice(*period.span)]
