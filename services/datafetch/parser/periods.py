"""Periods and changes over time of a question, read by the grammar of periods that all services share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from fathom.domain.periods import grammar
from fathom.domain.periods.period import MONTHS_OF, Kind, Unit
from fathom.domain.periods.period import Period as Found
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.parser.lexicon import choose, cue
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span, is_free
from fathom.services.datafetch.query.model import Frequency, Transform
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
    Kind.REVERSED: "{!r} ends before it begins",
    Kind.NAMELESS: "no days of {!r} are known here; give its first and last one",
}


def find_transform(text: str) -> tuple[Transform, list[Span]]:
    """Return the change over time that a text asks for ("year over year" → ``YOY``) and its spans."""
    value = choose("transforms", text)
    return Transform(value), [match.span() for match in cue(f"transforms.{value}").finditer(text)] if value else []


@dataclass(frozen=True)
class Reading:
    """The time expressions of a text.

    Holds the periods, what is wrong with impossible ones by their words, and the matched spans.
    """

    periods: tuple[Period, ...] = ()
    impossible: Mapping[str, str] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    @property
    def whole(self) -> Period:
        """Return the period from the first to the last day of all periods; open on both sides when there is none."""
        if not self.periods:
            return Period()
        starts, ends = [p.start for p in self.periods], [p.end for p in self.periods]
        first, several = self.periods[0], len(self.periods) > 1
        return replace(
            first,
            start=None if None in starts else min(filter(None, starts)),
            end=None if None in ends else max(filter(None, ends)),
            # Periods of several grains ("2020 and March 2021") have no common frequency to group by.
            grain=first.grain if len({p.grain for p in self.periods}) == 1 else Frequency.NATIVE,
            cumulative=first.cumulative and not several,
        )

    def list_mentions(self) -> list[Mention]:
        """Return the words of the periods."""

        def show(period: Period) -> str:
            return "/".join(day.isoformat() if day else ".." for day in (period.start, period.end))

        found = [Mention(MentionKind.PERIOD, *period.span, show(period)) for period in self.periods]
        # Words that only narrowed another period ("Q3" apart from its year) mean the period that results; an impossible
        # date means none, where "on record" means all days.
        whole = "" if self.impossible else show(self.whole)
        rest = [span for span in self.spans if is_free(span, found)]
        return found + [Mention(MentionKind.PERIOD, *span, whole, how="part") for span in rest]


def read(text: str, today: date, newest: date | None = None) -> Reading:
    """Parse all periods of a text: "first half of 2019" → 2019-01-01..2019-06-30.

    ``today`` anchors relative periods; those of words for the newest value count from ``newest``, the last day with
    data.
    """
    shown = plain(text)
    found = grammar.read_periods(shown, today, newest)
    # Where one of several periods is none, figures for the others would look like an answer.
    refused = {
        words: UNREAD[one.kind].format(words)
        for one in found.periods
        if one.kind in UNREAD and (words := shown[slice(*one.span)].strip())
    }
    periods = tuple(convert(one) for one in found.periods if one.start or one.end)
    # Their union would be every day, and its statistic neither of those that were asked for.
    open_ended = [one for one in periods if not (one.start and one.end)] if len(periods) > 1 else []
    refused |= {shown[slice(*one.span)]: "only a single period can be open" for one in open_ended}
    return Reading(periods, refused, found.spans)


def convert(found: Found) -> Period:
    """Return a period as queries have it: a point is its window, of which the value at that end is wanted."""
    start, end = found.window or (found.start, found.end)
    months = MONTHS_OF.get(found.unit, 0) if found.unit and found.trailing else 0
    steps = int(found.count) if months else 0
    # Months keep the stored frequency: the past six months of a daily price are a daily series.
    is_native = not found.unit or (found.trailing and (months == 1 or not steps))
    return Period(
        start,
        end,
        Frequency.NATIVE if is_native or not found.unit else GRAINS.get(found.unit, Frequency.NATIVE),
        cumulative=found.cumulative,
        fiscal=found.fiscal,
        relative=found.relative,
        listed=found.listed,
        is_length=found.is_length,
        rows=int(found.count) if found.unit is Unit.SESSION else 0,
        steps=steps,
        step=months if steps else 0,
        span=found.span,
        edge="" if found.kind is not Kind.POINT else "start" if found.start == start else "end",
    )
