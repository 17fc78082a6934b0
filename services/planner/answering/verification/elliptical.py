"""Dates that a sentence leaves incomplete: a month or quarter without its year, "a year later", 上年同月."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from fathom.domain.text.months import MONTH_NAMES, MONTHS
from fathom.domain.text.numerals import ONE_TO_NINE, parse_numeral
from fathom.services.planner.answering.verification.dates import Moment

NAMES = "|".join(name.capitalize() for name in MONTH_NAMES)
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
COUNTS = {"a": 1, "one": 1, "the": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}
MONTHS_OF = {"year": 12, "quarter": 3, "month": 1, "年": 12, "季度": 3, "季": 3, "月": 1}
# Case counts: "may" and "march" in lower case are no months.
BARE_MONTH = re.compile(
    rf"\b(?P<en>{NAMES})\b|(?:(?P<shift>同年|当年|次年|翌年|上年|去年)|(?<![年\d个]))"
    rf"(?P<zh>1[0-2]|[1-9]|十[一二]?|[{ONE_TO_NINE}])月(?!\d{{1,2}}日)"
)
# A quarter whose year stands elsewhere in the text: "the second quarter", Q2, 二季度.
BARE_QUARTER = re.compile(
    r"\b(?P<en>first|second|third|fourth)[ -]quarter\b|\bQ(?P<q>[1-4])\b|第?(?P<zh>[一二三四1-4])季度", re.IGNORECASE
)
# "of the third", "in the fourth": a quarter where another one is named in full.
QUARTER = re.compile(r"\bquarters?\b|\bQ[1-4]\b", re.IGNORECASE)
# "In the third" is a quarter only where the clause ends behind it: "in the third year" is none.
BARE_ORDINAL = re.compile(
    r"\b(?:in|of|from|to|than|by) the (?P<en>first|second|third|fourth)\b(?=\s*(?:[,;.:()\[]|$|and\b|to\b|from\b))",
    re.IGNORECASE,
)
YEAR_SHIFTS = {"次年": 1, "翌年": 1, "上年": -1, "去年": -1}
# "two years later", "the month before", "the previous quarter".
RELATIVE = re.compile(
    r"\b(?P<count>a|one|the|two|three|four|five|six|ten|\d{1,2})\s+(?P<unit>year|quarter|month)s?\s+"
    r"(?P<way>later|after|earlier|before|ago)\b|"
    r"\b(?P<side>previous|preceding|prior|following|next)\s+(?P<whole>year|quarter|month)\b",
    re.IGNORECASE,
)
# 上年同月, 上一季度, 两个月后: the same three ways, with the unit behind the count.
CHINESE_RELATIVE = re.compile(
    r"(?P<same>上年|去年|前一年|次年|翌年)(?:的)?(?:同月|同期|同季)|(?P<step>上一?个?|前一?个?|次|下一?个?)(?P<unit>月|季度|年)|"
    r"(?P<count>[一二两三四五十]|\d{1,2})(?P<unit2>年|个月|个?季度)(?P<way>后|之后|前|之前)"
)
# "the previous four quarters", 此前四个季度: the periods next to a date, all of them.
NEIGHBOURS = re.compile(
    r"\b(?:the\s+)?(?:(?P<side>previous|preceding|prior|following|next)\s+(?P<count>\w+)|(?P<count2>\w+)\s+(?P<side2>previous|"
    r"preceding|prior|following|next))\s+(?P<unit>year|quarter|month)s\b|"
    r"(?P<zhside>此前|之前|此后|随后|之后|前|后)(?:的)?(?P<zhcount>[一二两三四五六十]|\d{1,2})个?(?P<zhunit>季度|月|年)",
    re.IGNORECASE,
)
# "one session later", "the day before", 前一交易日, 次日: days of trading, between which markets may be closed.
RELATIVE_DAY = re.compile(
    r"\b(?P<count>a|one|the|two|three|four|five|six|ten|\d{1,2})\s+(?:trading\s+)?(?P<unit>day|session|week)s?\s+"
    r"(?P<way>later|after|earlier|before|ago)\b|"
    r"\b(?P<side>previous|preceding|prior|following|next|last)\s+(?:trading\s+)?(?P<whole>day|session|week)\b|"
    r"(?P<zhside>前|上|次|翌|后|下)一?个?(?:交易)?(?P<zhunit>日|天|周)|(?P<zhcount>[一二两三四五十]|\d{1,2})个?(?:交易)?"
    r"(?P<zhunit2>日|天|周)(?P<zhway>后|之后|前|之前)",
    re.IGNORECASE,
)
DAYS_OF = {"week": 7, "周": 7}
# Weekends and holidays in a row.
LONGEST_CLOSURE = 4
# Months of a year.
LONGEST_STEP = 12
LONGEST_MONTH, YEAR_LENGTHS, LEAP_DAY = 31, (365, 366), (2, 29)
# "than on the 28th", 28日.
BARE_DAY = re.compile(
    r"\b(?:on|of|from|to|than|by|at) the (?P<en>\d{1,2})(?:st|nd|rd|th)\b(?!\s+(?:quarter|percentile|century))|"
    r"(?<![\d月个])(?P<zh>\d{1,2})日(?![元前后均内])"
)
# A unit of time with what stands before it, as the number of "twelve months" and of 四个月.
BARE_UNIT = re.compile(
    rf"(?:(?P<count>[A-Za-z]+|\d{{1,2}})\s+)?\b(?P<en>year|quarter|month)s?\b|"
    rf"(?P<zhcount>[{ONE_TO_NINE}两十]|\d{{1,2}})?个?(?P<zh>年|季度|月)",
    re.IGNORECASE,
)
LATER = ("later", "after", "following", "next", "次", "下", "后", "翌")


def complete_moments(text: str, moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments of a text with those that only the others make complete; they are no dates to be checked."""
    dated = [moment for moment in moments if moment.first and moment.last]
    if not dated:
        return list(moments)
    found = [*find_bare(text, dated, moments), *find_relative(text, dated), *find_neighbours(text, dated)]
    found += [*find_bare_days(text, dated, moments), *find_relative_days(text, dated)]
    return sorted([*moments, *found], key=lambda moment: moment.start)


def find_nearest(place: int, dated: Sequence[Moment]) -> Moment:
    """Return the last date before a place, else the first one behind it."""
    before = [moment for moment in dated if moment.start <= place]
    return before[-1] if before else dated[0]


def find_bare(text: str, dated: Sequence[Moment], taken: Sequence[Moment]) -> list[Moment]:
    """Return the months and quarters without a year, in the year of the nearest date."""
    out = []
    for pattern in (BARE_MONTH, BARE_QUARTER, *([BARE_ORDINAL] if QUARTER.search(text) else [])):
        for match in pattern.finditer(text):
            if any(match.start() < old.stop and old.start < match.end() for old in taken):
                continue
            anchor = find_nearest(match.start(), dated).first or date.min
            parts = match.groupdict()
            year = anchor.year + YEAR_SHIFTS.get(parts.get("shift") or "", 0)
            said = (parts.get("en") or parts.get("q") or parts.get("zh") or "").lower()
            if pattern is BARE_MONTH:
                first = MONTHS.get(said) or parse_numeral(said) or 1
                last = first
            else:
                quarter = ORDINALS.get(said) or parse_numeral(said) or 1
                first, last = quarter * 3 - 2, quarter * 3
            out.append(
                Moment(match.start(), match.end(), match.group(), date(year, first, 1), compute_month_end(year, last))
            )
    return out


def find_bare_days(text: str, dated: Sequence[Moment], taken: Sequence[Moment]) -> list[Moment]:
    """Return the days without a month, in the month of the nearest date."""
    out = []
    for match in BARE_DAY.finditer(text):
        anchor = find_nearest(match.start(), dated)
        day = int(match.group("en") or match.group("zh"))
        is_taken = any(match.start() < old.stop and old.start < match.end() for old in taken)
        # A day of a whole year has no month to take.
        if anchor.first is None or is_taken or anchor.days > LONGEST_MONTH:
            continue
        if 1 <= day <= monthrange(anchor.first.year, anchor.first.month)[1]:
            held = anchor.first.replace(day=day)
            out.append(Moment(match.start(), match.end(), match.group(), held, held))
    return out


def find_relative_days(text: str, dated: Sequence[Moment]) -> list[Moment]:
    """Return the days that are told by their distance from the nearest date, with those on which markets may close."""
    out = []
    for match in RELATIVE_DAY.finditer(text):
        parts = {name: value.lower() for name, value in match.groupdict().items() if value}
        count = parts.get("count") or parts.get("zhcount") or "1"
        size = COUNTS.get(count) or (2 if count == "两" else parse_numeral(count)) or 1
        unit = parts.get("unit") or parts.get("whole") or parts.get("zhunit") or parts.get("zhunit2") or ""
        way = parts.get("way") or parts.get("side") or parts.get("zhside") or parts.get("zhway") or ""
        anchor = find_nearest(match.start(), dated)
        if anchor.first is None or anchor.first != anchor.last:
            continue
        least = size * DAYS_OF.get(unit, 1)
        # Sessions skip weekends.
        most = (least if unit in DAYS_OF else least * 7 // 5) + LONGEST_CLOSURE
        if way.removeprefix("之").startswith(LATER):
            first, last = anchor.first + timedelta(days=least), anchor.first + timedelta(days=most)
        else:
            first, last = anchor.first - timedelta(days=most), anchor.first - timedelta(days=least)
        out.append(Moment(match.start(), match.end(), match.group(), first, last))
    return out


def settle_days(moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments with the year of a whole year among them in each day that has none."""
    years = {one.first.year for one in moments if one.first and one.last and one.days in YEAR_LENGTHS}
    out = []
    for one in moments:
        if one.month_day is not None and len(years) == 1 and one.month_day != LEAP_DAY:
            held = date(min(years), *one.month_day)
            one = replace(one, first=held, last=held, month_day=None)
        out.append(one)
    return out


def find_relative(text: str, dated: Sequence[Moment]) -> list[Moment]:
    """Return the periods that are told by their distance from the nearest date."""
    out = []
    for match in (*RELATIVE.finditer(text), *CHINESE_RELATIVE.finditer(text)):
        shifted = shift_moment(find_nearest(match.start(), dated), read_distance(match))
        out.append(replace(shifted, start=match.start(), stop=match.end(), text=match.group()))
    return out


def find_neighbours(text: str, dated: Sequence[Moment]) -> list[Moment]:
    """Return the periods right before or behind the nearest date that are told by their number."""
    out = []
    for match in NEIGHBOURS.finditer(text):
        parts = {name: value.lower() for name, value in match.groupdict().items() if value}
        said = parts.get("count") or parts.get("count2") or parts.get("zhcount") or ""
        size = COUNTS.get(said) or (2 if said == "两" else parse_numeral(said))
        side = parts.get("side") or parts.get("side2") or parts.get("zhside") or ""
        if not size:
            continue
        months = size * MONTHS_OF[parts.get("unit") or parts.get("zhunit") or "month"]
        anchor = find_nearest(match.start(), dated)
        first, last = anchor.first or date.min, anchor.last or date.max
        if side.startswith(LATER) or side.endswith("后"):
            edges = add_months(last, 1), add_months(last, months)
        else:
            edges = add_months(first, -months), add_months(first, -1)
        end = compute_month_end(edges[1].year, edges[1].month)
        out.append(Moment(match.start(), match.end(), match.group(), edges[0], end))
    return out


def find_shifted(text: str, moments: Sequence[Moment]) -> list[Moment]:
    """Return the periods that a bare unit of time may speak of: "a year on", "the year after a loss of", 次年.

    They lie as many units before and behind each date as the number before the unit says. They may support a number,
    and contradict none.
    """
    dated = [moment for moment in moments if moment.first and moment.last]
    out = []
    for match in BARE_UNIT.finditer(text):
        if any(one.start <= match.start() < one.stop for one in moments):
            continue
        unit = (match.group("en") or match.group("zh")).lower()
        months = (read_count(match.group("count") or match.group("zhcount")) or 1) * MONTHS_OF[unit]
        for anchor in dated:
            for shift in (-months, months):
                out.append(replace(shift_moment(anchor, shift), start=-1, stop=-1))
            if months == LONGEST_STEP and anchor.first:
                # "the low of the year, having begun at", 年初: its first month and the last value before.
                begin = date(anchor.first.year, 1, 1) - timedelta(days=LONGEST_CLOSURE)
                out.append(replace(anchor, start=-1, stop=-1, first=begin, last=date(anchor.first.year, 1, 31)))
    return list(dict.fromkeys(out))


def read_count(words: str | None) -> int | None:
    """Return the number before a unit of time, in digits or words; None for any other word."""
    said = (words or "").lower()
    return COUNTS.get(said) or (2 if said == "两" else parse_numeral(said)) if said else None


def read_distance(match: re.Match[str]) -> int:
    """Return the months from a date to the period that is told relative to it."""
    parts = {name: value for name, value in match.groupdict().items() if value}
    unit = (parts.get("unit") or parts.get("whole") or parts.get("unit2") or "year").lower().lstrip("个")
    count = parts.get("count", "1").lower()
    size = COUNTS.get(count) or (2 if count == "两" else parse_numeral(count)) or 1
    way = (parts.get("way") or parts.get("side") or parts.get("same") or parts.get("step") or "").lower()
    return MONTHS_OF[unit] * size * (1 if way.removeprefix("之").startswith(LATER) else -1)


def shift_moment(moment: Moment, months: int) -> Moment:
    """Return a period moved by months; a day becomes the month around it, since markets close on some days."""
    first, last = moment.first or date.min, moment.last or date.max
    start, stop = add_months(first, months), add_months(last, months)
    return replace(moment, first=start, last=compute_month_end(stop.year, stop.month), month_day=None)


def add_months(day: date, months: int) -> date:
    """Return the first day of the month that many months from a day's month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(max(1, min(year, 9998)), month + 1, 1)


def compute_month_end(year: int, month: int) -> date:
    """Return the last day of a month."""
    return date(year, month, monthrange(year, month)[1])
