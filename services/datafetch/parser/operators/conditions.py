"""Filters on values: "above 10 %", 跌破3000点, "in how many months", "when first"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.domain.chat.negation import Denial, denial_ahead
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.query.model import Frequency

# "3,000", "$1.5", "-2": a number that goes on as a date (2020-03, 3/18), or counts time or companies (10 years, 5家),
# is no bound.
NUMBER = r"(?P<n{0}>-?\$?\d+(?:,\d{{3}})*(?:\.\d+)?)(?![\d.]*\d|[/-]\d|\s*-?\s*(?:years?|months?|quarters?|weeks?|days?|trading|sessions?|年|个?月|个?季|周|天|日|个?交易日|家|只|位|名))"
SCALE = r"\s*(?P<s{0}>万亿|亿|千万|百万|万|千|trillion|billion|million|thousand)?"
# The unit may be missing: a bare number is in the unit of the indicator.
UNIT = (
    r"\s*(?P<u{0}>%|per\s?cent\b|percentage points?|basis points?|bps?\b|pps?\b|个?百分点|个?基点|美元|欧元|元|点|points?\b|dollars?\b"
    r"|usd\b|euros?\b|人|people\b|persons?\b|套|units?\b)?"
)
AMOUNT = NUMBER + SCALE + UNIT
ZH_UP = r"(?:高于|超过|大于|多于|超出|突破|站上|升破|涨破|升穿|冲破|高过|逾|超)(?:了|过)?"
ZH_DOWN = r"(?:低于|小于|少于|不足|不到|不及|跌破|跌穿|失守|低过)(?:了|过)?"
EN_UP = (
    r"\b(?:above|over|exceed(?:s|ed|ing)?|(?:more|greater|higher|larger|bigger) than|in excess of|topped|beyond|surpass(?:es|ed|ing)?"
    r"|broke (?:above|through)|cross(?:es|ed) above)\s+(?:the\s+)?(?:level of\s+)?"
)
# "Worse than -5 %" is lower, whatever the sign.
EN_DOWN = r"\b(?:below|under|beneath|(?:less|lower|fewer|smaller|worse) than|short of|broke below|cross(?:es|ed) below)\s+(?:the\s+)?"
BOUNDS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.I | re.A), operator)
    # Order decides: 不低于 holds 低于, and each match is blanked before the next pattern runs.
    for pattern, operator in [
        (rf"(?:不低于|不少于|不小于|至少|大于等于|大于或等于|达到或超过|>=|≥|\bat or above\s+|\bat least\s+|\bno (?:less|lower|fewer) than\s+|\bnot (?:less|lower) than\s+){AMOUNT.format('', '', '')}", ">="),
        (rf"(?:不高于|不超过|不大于|至多|小于等于|小于或等于|<=|≤|\bat or below\s+|\bat most\s+|\b(?:no|not) (?:more|higher|greater|larger) than\s+){AMOUNT.format('', '', '')}", "<="),
        (rf"(?:{ZH_UP}|{EN_UP}|>)\s*{AMOUNT.format('', '', '')}", ">"),
        (rf"(?:{ZH_DOWN}|{EN_DOWN}|<)\s*{AMOUNT.format('', '', '')}", "<"),
        (rf"{AMOUNT.format('', '', '')}\s*(?:及|或)?(?:以上|之上)|{AMOUNT.format('_', '_', '_')}\s+or (?:more|higher|above)\b", ">="),
        (rf"{AMOUNT.format('', '', '')}\s*(?:及|或)?(?:以下|之下)|{AMOUNT.format('_', '_', '_')}\s+or (?:less|lower|below)\b", "<="),
    ]
]  # fmt: skip
# 介于2%和3%之间, "between 2 and 3 percent". Without 之间 a Chinese pair is no range of values.
BETWEEN = re.compile(
    rf"(?:介于|处于|在)?\s*{AMOUNT.format('', '', '')}\s*(?:和|与|到|至|-|~)\s*{AMOUNT.format('2', '2', '2')}\s*之间"
    rf"|\bbetween\s+{AMOUNT.format('_', '_', '_')}\s+and\s+{AMOUNT.format('2_', '2_', '2_')}",
    re.I | re.A,
)
SIGN: list[tuple[re.Pattern[str], str]] = [
    # 转负, "inverted", "below zero". 负债 is a liability.
    (re.compile(r"(?:是|为|转|变)?负值?(?!债)|倒挂|\b(?:negative|inverted|below zero|in the red)\b|\binvert\b", re.I | re.A), "<"),
    # 转正, "positive".
    (re.compile(r"(?:为|转|变)正值?|\b(?:positive|above zero)\b", re.I | re.A), ">"),
]  # fmt: skip
MOVED: list[tuple[re.Pattern[str], str, int]] = [
    # 上涨的, "up days", "positive months": only before the word for a period, else "up" is an adverb.
    (re.compile(r"上涨的?|收涨的?|涨的|\b(?:up|positive|winning|green)(?= (?:days?|weeks?|months?|quarters?|years?|sessions?))", re.I | re.A), ">", 1),
    # 下跌的, "down days", "losing weeks".
    (re.compile(r"下跌的?|收跌的?|跌的|\b(?:down|losing|red)(?= (?:days?|weeks?|months?|quarters?|years?|sessions?))", re.I | re.A), "<", -1),
]  # fmt: skip
# "how many trading days", 有多少个月, "number of months".
COUNTS = re.compile(
    r"(?:交易日|季度|月份|年份)(?:一共|总共|共)?有(?:多少|几)个|(?:有|共|共有|一共|总共)*(?:多少|几)个?(?:交易日|季度|月|周|天|日|年)|\bhow many (?:[\w\0]+ )?(?:days?|sessions?|weeks?|months?|quarters?|years?|times)\b"
    r"|\b(?:number|count) of (?:\w+ )?(?:days?|sessions?|weeks?|months?|quarters?|years?)\b|天数|月数|月份数",
    re.I | re.A,
)
# "for the first time", 首次, "earliest"; "first half" and "first three" are periods or ranks.
FIRST = re.compile(
    r"首次|第一次|首度|最早|最先|\b(?:for the )?(?:very )?first(?: time)?\b(?! (?:half|quarter|three|two|six|nine))|\bearliest\b",
    re.I | re.A,
)
# "most recently", 上一次, "last above": "last" alone is a relative period ("last year").
LAST = re.compile(r"最后一次|最近一次|上一次|上次|\b(?:most recent(?:ly)?|last time|latest time|last(?= (?:\0|above|below|over|under|clos|exceed|f[ae]ll|drop|ris|rose|was|were|hit|trad|top|negative|positive)\w*))", re.I | re.A)  # fmt: skip
# "which months", "list the days when", "when", 哪些月份, 什么时候.
WHEN = re.compile(
    r"(?:是在|在|从)?(?:哪几个|哪一个|哪个|哪些个?|哪几|哪一|几)(?:个)?(?:交易日|季度|月份?|周|天|日子?|年份?)(?=\D|$)|(?:是|在)?(?:何时|什么时候|啥时候)|(?:的|所有的?)(?:月份|日子|交易日|季度|年份)(?:有哪些|是哪些|都?有哪些|列表)?|(?:月份|日子|交易日|季度|年份)(?:有哪些|是哪些|都?有哪些|列表)|(?:都?有|是)哪些$"
    r"|\b(?:which|what|list(?: the)?|all(?: the)?|the|find(?: the)?|show(?: me)?(?: the)?) (?:\w+ )?(?:days?|dates?|sessions?|weeks?|months?|quarters?|years?)(?: (?:when|where|in which|on which|with|that|did|had|saw|was|were|has))?\b"
    r"|^(?:days?|dates|sessions|weeks|months|quarters|years) (?:when|where|in which|on which|with|that)\b|\bwhen\b|\b(?:since|after) when\b",
    re.I | re.A,
)
# "which stocks", 哪些公司, "list the companies", 所有股票.
WHO = re.compile(
    r"(?:有|是)?哪些?[几两三四五]?[只家支个]?(?:股票|个股|公司|企业)|的(?:股票|个股|公司|企业)(?:有哪些|是哪些|都有哪些)?|(?:所有|全部)(?:股票|个股)"
    r"|\b(?:which|what|all|list(?: the)?|find(?: the)?|any|name the|the) (?:\w+ )?(?:stocks?|compan(?:y|ies)|shares|names)\b|^(?:stocks|companies|shares)\b"
    r"|有?哪几[只家个]",
    re.I | re.A,
)
# 哪些货币, "which currencies".
CURRENCIES = re.compile(
    r"(?:有|是)?哪些?[几两三四五]?[只种个]?货币|的货币(?:有哪些)?|\b(?:which|what|all) (?:currencies|currency)\b|^currencies\b",
    re.I | re.A,
)
# The end of the words before an amount that is a fall: "dropped by" 5 %, 跌幅 (超过) 5%. The bound is then on a
# negative change.
FALLEN = re.compile(
    r"(?:跌幅?|下跌|跌了|下降|亏损|回撤|跌去|减少)\s*$|\b(?:fell|fall|falls|fallen|drop(?:ped|s)?|declin(?:e|ed|es)|lost|lose[sd]?|down|plunged|slid|drawdowns?|losses)(?: by| of)?\s*$",
    re.I | re.A,
)
# The same for a rise: "gained" 5 %, 涨幅 (超过) 5%. 债券收益率 is a level and no rise.
RISEN = re.compile(
    r"(?:涨幅?|上涨|涨了|上升|回报率?|(?<![债券期])收益率?|反弹|升了|增加)\s*$|\b(?:rose|rise|rises|risen|gain(?:s|ed)?|return(?:s|ed)?|up|climb(?:s|ed)?|jump(?:s|ed)?|rall(?:y|ied)|increased?|returns)(?: by| of)?\s*$",
    re.I | re.A,
)
PERIODS = [
    (re.compile(r"交易日|天|日|\b(?:days?|dates?|sessions?)\b", re.I), Frequency.DAILY),
    (re.compile(r"周|\bweeks?\b", re.I), Frequency.WEEKLY),
    (re.compile(r"月|\bmonths?\b", re.I), Frequency.MONTHLY),
    (re.compile(r"季|\bquarters?\b", re.I), Frequency.QUARTERLY),
    (re.compile(r"年|\byears?\b", re.I), Frequency.ANNUAL),
]
SCALES = {"万亿": 1e12, "亿": 1e8, "千万": 1e7, "百万": 1e6, "万": 1e4, "千": 1e3, "trillion": 1e12, "billion": 1e9, "million": 1e6, "thousand": 1e3}  # fmt: skip
# Bare numbers in this range may be years; see ``is_year``.
YEARS = range(1900, 2100)
# The complement on one value, not the mirror: "not above 3" is at most 3.
DENIED = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}


@dataclass(frozen=True)
class Bound:
    """One comparison with a number.

    ``rate`` marks a percentage, ``points`` percentage or basis points; ``scale`` multiplies ``value`` (1e8 for 亿);
    ``moved`` is 1 for a rise, -1 for a fall and 0 for a level.
    """

    operator: str
    value: float
    scale: float = 1.0
    rate: bool = False
    points: bool = False
    moved: int = 0

    def __str__(self) -> str:
        unit = " percentage points" if self.points else " %" if self.rate else ""
        return f"{self.operator} {self.value * self.scale:.15g}{unit}"


@dataclass(frozen=True)
class Conditions:
    """The filters of a question.

    ``pick`` is "rows", "count", "first", "last" or "who"; ``kind`` is the entity kind to choose from ("stock",
    "currency") if ``pick`` is "who"; ``every`` is the length of the periods that are counted or listed. ``labels`` are
    the spans with what each of them means: "> 5 %", "count".
    """

    bounds: tuple[Bound, ...] = ()
    pick: str = "rows"
    kind: str = ""
    every: Frequency = Frequency.NATIVE
    spans: tuple[tuple[int, int], ...] = ()
    labels: tuple[tuple[int, int, str], ...] = ()


def find(text: str) -> Conditions | None:
    """Parse the filters of a normalised text; return None when it has none."""
    bounds, spans = numeric(text)
    rest = blank(text, spans)
    selects = [pattern.search(rest) for pattern in (COUNTS, FIRST, LAST, WHEN, WHO, CURRENCIES)]
    if not bounds and any(selects[:4]):
        for pattern, operator in SIGN:
            match = pattern.search(rest)
            stated = asserted(rest, match, operator) if match else None
            if match and stated:
                bounds, spans = [Bound(stated[0], 0.0)], [(stated[1], match.end())]
                break
    if not bounds and (selects[0] or selects[3]):
        for pattern, operator, way in MOVED:
            match = pattern.search(rest)
            stated = asserted(rest, match, operator) if match else None
            if match and stated:
                bounds, spans = [Bound(stated[0], 0.0, 1.0, True, False, way)], [(stated[1], match.end())]
                rest = blank(rest, spans)
                break
    if not bounds:
        return None
    # "Between 2 and 3" is one span with two bounds.
    shared = len(bounds) > len(spans)
    labels = (
        [(*spans[0], ", ".join(map(str, bounds)))]
        if shared
        else [(*span, str(bound)) for span, bound in zip(spans, bounds, strict=True)]
    )
    selects = [pattern.search(rest) for pattern in (COUNTS, FIRST, LAST, WHEN, WHO, CURRENCIES)]
    count, first, last, when, who, money = selects
    every = told(*(match[0] for match in (count, when) if match))
    if every:
        who = None
    if (
        first
        and when
        and WHEN.search(text[first.end() :]) is None
        and not re.search(r"何时|when|什么时候|哪", rest, re.I)
    ):
        first = None
    pick = "count" if count else "first" if first else "last" if last else "who" if who or money else "rows"
    spans += [match.span() for match in (count, first, last, when, who, money) if match]
    labels += [(*match.span(), pick) for match in (count, first, last, when, who, money) if match]
    kind = "currency" if money else "stock" if who else ""
    return Conditions(
        tuple(bounds), pick, kind if pick == "who" else "", every, tuple(sorted(set(spans))), tuple(labels)
    )


def told(*words: str) -> Frequency:
    """Return the period length that words such as "how many days" name, or ``NATIVE``."""
    found = (grain for word in words for pattern, grain in PERIODS if pattern.search(word))
    return next(found, Frequency.NATIVE)


def numeric(text: str) -> tuple[list[Bound], list[tuple[int, int]]]:
    """Return the comparisons with numbers and their spans: "between 2 % and 3 %" gives ``>=`` and ``<=``."""
    bounds: list[Bound] = []
    spans: list[tuple[int, int]] = []
    between = BETWEEN.search(text)
    if between:
        low, high = (amount(between, suffix) for suffix in ("", "2"))
        # "Between 2019 and 2021" is a period.
        if low and high and not (is_year(between, low) or is_year(between, high)):
            unit = high.rate or low.rate
            pair = [Bound(op, b.value, b.scale if b.scale != 1 else high.scale, unit, b.points) for op, b in ((">=", low), ("<=", high))]  # fmt: skip
            return pair, [between.span()]
    rest = text
    for pattern, operator in BOUNDS:
        for match in list(pattern.finditer(rest)):
            found = amount(match, "")
            stated = asserted(text, match, operator)
            if found is None or stated is None or is_year(match, found):
                continue
            # Look before the negation, if there is one: 跌幅没有超过5%.
            ahead = text[: stated[1]]
            moved = -1 if FALLEN.search(ahead) else 1 if RISEN.search(ahead) else 0
            bounds.append(Bound(stated[0], found.value, found.scale, found.rate, found.points, moved))
            spans.append((stated[1], match.end()))
            rest = blank(rest, [spans[-1]])
    return bounds, spans


def asserted(text: str, match: re.Match[str], operator: str) -> tuple[str, int] | None:
    """Return the operator after negation and the start of the phrase: "not above" is ``<=``.

    Return None for a negation over the whole period ("never above"), which no filter on single values expresses.
    """
    denied = denial_ahead(text, match.start())
    if denied is None:
        return operator, match.start()
    how, start = denied
    # A filter on single values would find the values that pass, not whether all do.
    return None if how is Denial.NEVER else (DENIED[operator], start)


def amount(match: re.Match[str], suffix: str) -> Bound | None:
    """Parse the number, scale and unit of a match, or return None; basis points are converted to percentage points."""
    # The groups of the second alternative of a pattern end in an underscore.
    groups = match.groupdict()
    found = {key: groups.get(f"{key}{suffix}") or groups.get(f"{key}{suffix}_") or "" for key in "nsu"}
    if not found["n"]:
        return None
    value = float(found["n"].replace(",", "").replace("$", ""))
    unit = found["u"].lower()
    points = bool(re.match(r"percentage|个?百分点|pp", unit))
    # A basis point is a hundredth of a percentage point.
    basis = bool(re.match(r"basis|bp|个?基点", unit))
    rate = unit.startswith(("%", "per")) or points or basis
    return Bound("", value / 100 if basis else value, SCALES.get(found["s"].lower(), 1.0), rate, points or basis)


def is_year(match: re.Match[str], found: Bound) -> bool:
    """Return whether a number is a year rather than an amount: "over 2019", "2010年以上"."""
    bare = (
        found.scale == 1.0 and not found.rate and not any(v for k, v in match.groupdict().items() if k[0] == "u" and v)
    )
    # "Over 2019" means during 2019; "above 2019" is a level of an index.
    begins = re.match(r"\s*(?:over|under|beyond)\b", match[0], re.I) is not None
    after = match.string[match.end() : match.end() + 1]
    return bare and found.value in YEARS and (begins or after == "年" or match[0].lower().startswith("between"))
