"""Periods and changes over time of a question, read by the grammar of periods that all services share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from fathom.domain.periods import grammar
from fathom.domain.periods.period import MONTHS_OF, Kind, Unit
from fathom.domain.periods.period import Period as Found
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.query.model import Transform
from fathom.services.datafetch.query.periods import Period

GRAINS = {
    Unit.DAY: Frequency.DAILY,
    Unit.WEEK: Frequency.WEEKLY,
    Unit.MONTH: Frequency.MONTHLY,
    Unit.QUARTER: Frequency.QUARTERLY,
    Unit.HALF: Frequency.QUARTERLY,
    Unit.YEAR: Frequency.ANNUAL,
    Unit.DECADE: Frequency.ANNUAL,
}
UNREAD = {
    Kind.IMPOSSIBLE: "there is no such day, month or quarter as {!r}",
    Kind.CONTRADICTORY: "no day lies in both periods of {!r}",
}
TRANSFORMS: list[tuple[re.Pattern[str], Transform]] = [
    (re.compile(pattern, re.I | re.A), transform)
    for pattern, transform in [
        # "CPI yoy", 同比增速, "than a year earlier", "on the year".
        (r"同比(?:增长率|增速|增幅|增长|变化率|变动|涨幅|下降|上涨|上升)?|[较比](?:上年|去年)同[期月]|与(?:上年|去年)同期相比|[较比]一年前|\byoy\b|year[\s-](?:over|on|to)[\s-]year|\by[/-]?[yoy]\b"
         r"|\b(?:than|from|versus|vs\.?|compared (?:with|to)|over|against|on) (?:a|one|the) year (?:earlier|ago|before|prior)|\byear[\s-]ago\b|\bon the year\b|\b(?:12|twelve)[\s-]month (?:change|rate|growth|inflation)",
         Transform.YOY),
        # "month-over-month", 较上月. Before the quarters, as 月环比 holds 环比.
        (r"(?<!\d)月环比|[较比](?:上一?个?月|前一?个?月)|\bmom\b|month[\s-](?:over|on|to)[\s-]month|m/m|\bmonthly (?:growth|change|rise|fall|percent(?:age)? change)|\bon the month\b|\bfrom (?:the (?:previous|prior) month|a month (?:earlier|before|ago))",
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


@dataclass(frozen=True)
class Reading:
    """The time expressions of a text.

    Holds the periods, what is wrong with impossible ones by their words, the change over time that is asked for, and the matched spans.
    """

    periods: tuple[Period, ...] = ()
    impossible: Mapping[str, str] = field(default_factory=dict)
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


def read(text: str, today: date) -> Reading:
    """Parse all periods of a text: "first half of 2019" → 2019-01-01..2019-06-30.

    ``today`` anchors relative periods; pass the last day with data, not the current date.
    """
    shown = plain(text)
    found = grammar.read_periods(shown, today)
    refused = {
        words: UNREAD[one.kind].format(words)
        for one in found.periods
        if one.kind in UNREAD and (words := shown[slice(*one.span)].strip())
    }
    periods = tuple(convert(one) for one in found.periods if one.start or one.end)
    return Reading(periods, refused, transform_of(shown)[0], found.spans)


def convert(found: Found) -> Period:
    """Return a period as queries have it: a point is its window, of which the value at that end is wanted."""
    start, end = found.window or (found.start, found.end)
    grain = GRAINS.get(found.unit, Frequency.NATIVE) if found.unit else Frequency.NATIVE
    months = MONTHS_OF.get(found.unit, 0) if found.unit else 0
    steps = int(found.count) if found.trailing and months else 0
    if found.trailing and (months == 1 or not steps):
        # Months keep the stored frequency: the past six months of a daily price are a daily series.
        grain = Frequency.NATIVE
    return Period(
        start,
        end,
        grain,
        cumulative=found.cumulative,
        fiscal=found.fiscal,
        relative=found.relative,
        listed=found.listed,
        rows=int(found.count) if found.unit is Unit.SESSION else 0,
        steps=steps,
        step=months if steps else 0,
        span=found.span,
        edge="" if found.kind is not Kind.POINT else "start" if found.start == start else "end",
    )
