"""Context rules for periods: parts of a period, weeks, open ends, trailing windows and lists."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from itertools import pairwise

from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.parser.time.rules import FROM, WITHIN, number
from fathom.services.datafetch.query.periods import Kind, Period, back, days_before, week_of

NUM = r"(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[一二两三四五六七八九十]{1,3}|半)"
LIST_ONLY = re.compile(r"\s*(?:and|和|与|及|以及|、|,|，)\s*(?:on\s+)?", re.I)
# The words before a month, quarter or year that take its begin: "first 10 days of ", "first week of the ".
FIRST_DAYS = re.compile(
    rf"\bfirst\s+(?:(?P<n>{NUM[1:-1]})\s+)?(?:calendar\s+)?(?:days?|weeks?)\s+(?:of|in)\s+(?:the\s+)?$", re.I | re.A
)
# The words before a period that take its end: "last 5 calendar days of ", "final week in the ".
LAST_DAYS = re.compile(
    rf"\b(?:last|final)\s+(?:(?P<n>{NUM[1:-1]})\s+)?(?:calendar\s+)?(?:days?|weeks?)\s+(?:of|in)\s+(?:the\s+)?$",
    re.I | re.A,
)
# The same behind a Chinese period: 的前十天, 第1周. Trading days are no calendar days and are left to the rule for
# them.
FIRST_DAYS_ZH = re.compile(
    r"\s*的?(?:前|头|第)(?P<n>\d{1,2}|[一二两三四五六七八九十]{1,3})(?:天|日|周|个?星期)(?!个?交易)"
)
# The same at the end of a period: 最后5天, 的最后一周.
LAST_DAYS_ZH = re.compile(r"\s*的?最后(?P<n>\d{1,2}|[一二两三四五六七八九十]{1,3})(?:天|日|周|个?星期)")
THIRD = re.compile(r"\s*份?(上|中|下)旬")
# The words before a day that mean its whole week, Monday to Sunday: "week of ", "week starting on ".
OF_WEEK = re.compile(r"\bweek\s+(?:of|beginning|starting|commencing|from)\s+(?:the\s+|on\s+)?$", re.I | re.A)
# The words before a day that mean the seven days up to it: "week ending ", "week ended on ".
TO_WEEK = re.compile(r"\bweek\s+(?:ending|ended|to)\s+(?:the\s+|on\s+)?$|截至\s*$(?=周)", re.I | re.A)
# The same behind a Chinese day: 当周, 所在的那一周.
IN_WEEK = re.compile(r"\s*(?:的?当周|那一?周|所在的?那?一?周|这一?周)")
# The words before a period that leave its end open: "since ", "since the close of ", "since the start of ".
SINCE = re.compile(r"\bsince\s+(?:the\s+)?(?:close\s+(?:of|on)\s+|end\s+of\s+|start\s+of\s+)?$", re.I | re.A)
# The words behind a period that leave its end open: 以来, 至今, "onwards", "to date". 起点 is a noun and does not.
ONWARDS = re.compile(
    r"\s*(?:以来|至今|起(?!点)|以后|之后|到现在|到目前|到今天|onwards?\b|to date\b|until now\b|to now\b)", re.I | re.A
)


def part_of(period: Period, ahead: str, behind: str) -> Period | None:
    """Return the part of a month, quarter or year that the adjacent words select, or None.

    Examples: "the first ten days of February 2018", "2018年2月上旬", "last week of March 2020".
    """
    # 27 days is the span of the shortest February: anything shorter is a day or a week, which has no first ten days.
    if period.start is None or period.end is None or (period.end - period.start).days < 27:
        return None
    first = FIRST_DAYS.search(ahead) or FIRST_DAYS_ZH.match(behind)
    if first:
        # "First week" counts seven calendar days from the first of the period, not the Monday to Sunday around it.
        count = (number(first["n"] or "one") or 1) * (7 if re.search("week|周", first[0], re.I) else 1)
        end = min(period.end, days_before(period.start, 1 - count))
        return replace(period, end=end, grain=Frequency.DAILY, span=widen(period, first, ahead))
    last = LAST_DAYS.search(ahead) or LAST_DAYS_ZH.match(behind)
    if last:
        count = (number(last["n"] or "one") or 1) * (7 if re.search("week|周", last[0], re.I) else 1)
        start = max(period.start, days_before(period.end, count - 1))
        return replace(period, start=start, grain=Frequency.DAILY, span=widen(period, last, ahead))
    third = THIRD.match(behind)
    if third and period.start.month == period.end.month:
        days = {"上": (1, 10), "中": (11, 20), "下": (21, period.end.day)}[third[1]]
        return replace(
            period,
            start=period.start.replace(day=days[0]),
            end=period.start.replace(day=days[1]),
            grain=Frequency.DAILY,
            span=widen(period, third, ahead),
        )
    return None


def widen(period: Period, match: re.Match[str], ahead: str) -> tuple[int, int]:
    """Return the span of a period and of the words beside it that a match found before or behind it."""
    before = match.string is ahead
    return (match.start(), period.span[1]) if before else (period.span[0], period.span[1] + match.end())


def narrowed(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Drop periods that contain all other ones.

    "March 2020, 23 to 27 March 2020" means the five days only.
    """
    if len(periods) < 2 or any(p.start is None or p.end is None or p.listed or p.relative for p in periods):
        return periods
    spans = [(p.start or date.min, p.end or date.max) for p in periods]
    # Only a span around all others is dropped: two years beside a month of one of them are all meant.
    outer = [
        at
        for at, (start, end) in enumerate(spans)
        if all(start <= s and e <= end and (s, e) != (start, end) for k, (s, e) in enumerate(spans) if k != at)
    ]
    return tuple(period for at, period in enumerate(periods) if at not in outer)


def opened(text: str, periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Resolve a single period by its context: the week of a day, a part of the period, or an open end.

    "Since 2020-03-23" and "自2020年3月23日以来" have no end.
    """
    if len(periods) != 1 or periods[0].relative or periods[0].start is None or periods[0].end is None:
        return periods
    (period,) = periods
    if period.start is not None and period.start == period.end:
        first, last = week_of(period.start)
        if OF_WEEK.search(text[: period.span[0]]) or IN_WEEK.match(text[period.span[1] :]):
            return (replace(period, start=first, end=last),)
        if TO_WEEK.search(text[: period.span[0]]):
            return (replace(period, start=days_before(period.start, 6)),)
    part = part_of(period, text[: period.span[0]], text[period.span[1] :])
    if part is not None:
        return (part,)
    since, onwards = SINCE.search(text[: period.span[0]]), ONWARDS.match(text[period.span[1] :])
    if since is None and onwards is None:
        return periods
    span = (since.start() if since else period.span[0], period.span[1] + (onwards.end() if onwards else 0))
    return (replace(period, end=None, grain=Frequency.NATIVE, span=span),)


def listed_days(text: str, periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Mark days joined by "and" or a comma as listed one by one, unless they are the bounds of a range."""
    days = [p for p in periods if p.start is not None and p.start == p.end]
    if len(days) < 2 or len(days) != len(periods):
        return periods
    between = [text[one.span[1] : other.span[0]] for one, other in pairwise(days)]
    apart = all(LIST_ONLY.fullmatch(gap) for gap in between)
    if not apart or FROM.search(text[: days[0].span[0]]) or WITHIN.match(text[days[-1].span[1] :]):
        return periods
    return tuple(replace(day, listed=True) for day in days)


def anchored(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Move a trailing window to the end of the other named period: "the trailing twelve months to August 2022"."""
    flows = {(p.start, p.end): p for p in periods if p.relative and p.kind == Kind.FLOW and p.start and p.end}
    # "Last quarter" is a calendar period, not a trailing window.
    runs = [p for p in flows.values() if p.grain == Frequency.NATIVE or p.start.day != 1]  # type: ignore[union-attr]
    named = [p for p in periods if not p.relative and p.end]
    if len(runs) != 1 or len({(p.start, p.end) for p in periods}) != 2 or len(named) != 1 or named[0].end is None:
        return periods
    run, end = runs[0], named[0].end
    if run.start is None or run.end is None:
        return periods
    # A window that begins on 1 January is "year to date" and keeps its begin in the other period's year.
    to_date = (run.start.month, run.start.day) == (1, 1)
    months = (run.end.year - run.start.year) * 12 + run.end.month - run.start.month
    # A trailing window begins on the day after the same day of the earlier month, so that it holds whole months.
    begin = date(end.year, 1, 1) if to_date else days_before(back(end, months), -1)
    return (replace(run, start=begin, end=end),)


def open_pairs(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Merge an open end and an open start into one range: "since 2018, before 2020" → 2018-01-01..2019-12-31."""
    since_ = [p for p in periods if p.end is None]
    until = [p for p in periods if p.start is None]
    if len(since_) == 1 and len(until) == 1 and len(periods) == 2:
        return (replace(since_[0], end=until[0].end),)
    return periods
