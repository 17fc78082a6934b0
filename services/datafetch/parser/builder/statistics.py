"""Statistics of a question: over the whole period, per day, month or year, and those that conditions apply to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.periods.period import find_week
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.parser.builder.changes import is_counted
from fathom.services.datafetch.parser.draft import Draft, is_rate
from fathom.services.datafetch.parser.lexicon import cue, cues
from fathom.services.datafetch.parser.operators import ORDER, Conditions, find_density, find_group_length
from fathom.services.datafetch.query.model import Frequency, Statistic, Transform

MOVES = {Statistic.RETURN, Statistic.CHANGE}
# Statistics that apply to every series, including rates of change.
VALUES = {Statistic.MAX, Statistic.MIN, Statistic.MEAN, Statistic.LAST}


@dataclass(frozen=True)
class Wanted:
    """The statistics of a query.

    ``every`` is their period length, ``outer`` the statistic over these periods, ``count`` the number of periods to
    return.
    """

    statistics: tuple[Statistic, ...] = ()
    every: Frequency = Frequency.NATIVE
    outer: Statistic | None = None
    count: int = 0


def build_statistics(draft: Draft, names: Sequence[str], transform: Transform, text: str) -> Wanted:
    """Return the statistics of a question; ``text`` is its text without words that only rank."""
    specs, nested, reading = draft.find_specs(names), draft.grouping, draft.reading
    native = draft.find_finest(names)
    # A nested statistic of a growth rate would group changes of changes.
    if nested is not None and specs and not transform:
        inner = _fit((nested.inner,), specs, text)
        return Wanted(inner[:1], nested.every, nested.outer, nested.count) if inner else Wanted()
    found = _find_statistics(draft, names, transform, text)
    if found == (Statistic.RETURN,) and cue("annualized").search(text) and not find_density(text):
        # "What did it return, annualised?" The annualised figure of monthly returns is another one.
        found = (Statistic.CAGR,)
    # "Annual returns" asks for one return a year, not for the compound rate, unless a word says so.
    if found == (Statistic.CAGR,) and find_density(text) and not cue("compound").search(text):
        found = (Statistic.RETURN,)
    if draft.conditions is not None:
        return _apply_conditions(draft.conditions, found, specs, native, transform)
    whole = reading.whole
    if found and set(found) <= MOVES and native == Frequency.DAILY and whole.start is not None:
        # The return of one day needs the value of the day before, which only grouping by days reads.
        if whole.start == whole.end:
            return Wanted(found, Frequency.DAILY)
        if len(reading.periods) == 1 and whole.end is not None and find_week(whole.start) == (whole.start, whole.end):
            return Wanted(found, Frequency.WEEKLY)
    return Wanted(found, find_group_length(draft.blank_names(text), found, native))


def _apply_conditions(
    asked: Conditions,
    found: tuple[Statistic, ...],
    specs: Sequence[IndicatorSpec],
    native: Frequency,
    transform: Transform,
) -> Wanted:
    """Return the statistics that conditions apply to: none for raw values, or a change or mean of each period."""
    inner: tuple[Statistic, ...] = tuple(
        item for item in found if item not in (Statistic.MAX, Statistic.MIN, Statistic.LAST)
    )[:1]
    if not inner and not transform and any(bound.moved for bound in asked.bounds):
        inner = _fit((Statistic.RETURN,), specs, "")
    outer = Statistic.COUNT if asked.pick == "count" else None
    if asked.pick == "who":
        # Which companies pass is decided by their newest value if no statistic is named.
        return Wanted(inner or (Statistic.LAST,))
    coarser = ORDER.index(asked.every) > ORDER.index(native)
    # A move of each stored period (daily change) is a statistic of groups too; a mean of single values is not.
    if inner and asked.every and (coarser or (inner[0] in MOVES and asked.every == native)):
        return Wanted(inner, asked.every, outer)
    if inner and inner[0] not in MOVES:
        return Wanted(inner)
    return Wanted((Statistic.COUNT,)) if outer else Wanted()


def _find_statistics(draft: Draft, names: Sequence[str], transform: Transform, said: str) -> tuple[Statistic, ...]:
    """Return the statistics asked over the whole period; words inside an indicator's own name do not count.

    There are none for texts and annual series. Statistics of derived indicators are limited to those that a rate of
    change can have.
    """
    specs, reading, known = draft.find_specs(names), draft.reading, draft.layer.indicators
    if not specs or any(spec.text or spec.frequency == Frequency.ANNUAL for spec in specs):
        return ()
    text = draft.blank_names(said)
    if all(spec.unit.startswith("%") for spec in specs):
        # The yield of a bond is the indicator itself, not a return on it.
        text = cue("bond_yield").sub("\0\0\0", text)
    found = read_statistics(text)
    if (not found or found == (Statistic.RETURN,)) and is_counted(said):
        # "How many jobs were added": the counted noun is the indicator's own name.
        found = (Statistic.CHANGE,)
    if not found and cue("changed").search(text):
        found = (Statistic.RETURN if all(spec.default for spec in specs) else Statistic.CHANGE,)
    if transform or any(name not in known or known[name].formula for name in names):
        # A rate of change has an extreme or a mean, but its growth means that of the base series.
        rates = all(name in known and is_rate(known[name]) for name in names)
        found = tuple(
            item for item in found if item in VALUES or (item == Statistic.CHANGE and rates and not transform)
        )
        return found or _find_last(draft, text)
    # The order is the precedence: words that name a statistic, then a running period of flows, then "the latest".
    found = _fit(found, specs, text)
    if not found:
        runs = [p for p in reading.periods if p.relative and p.grain == Frequency.NATIVE and p.start and p.end]
        flows = runs and all(spec.flow for spec in specs)
        found = (Statistic.SUM,) if flows else _find_last(draft, text)
    whole = reading.whole
    if whole.start is not None and whole.start == whole.end:
        # The change of one day is measured from the day before.
        return tuple(item for item in found if item in MOVES) if cue("of_day").search(text) else ()
    within_year = len(reading.periods) == 1 and whole.grain and whole.start and whole.end
    if not found and within_year and whole.start.year == whole.end.year:  # type: ignore[union-attr]
        return (Statistic.RETURN,) if cue("broad").search(text) and not cue("series").search(text) else ()
    return found


def read_statistics(text: str) -> tuple[Statistic, ...]:
    """Return the statistics that a text asks for; none when it asks for a chart or for performance in general."""
    rivals = cue("rivals.return").search(text)
    # A comparison still names a winner by one figure each, even when it says "performance".
    if not rivals and (cue("series").search(text) or cue("broad").search(text)):
        return ()
    found: list[Statistic] = []
    for _, words in cues("ranked").items():
        text = words.sub(r"\1", text)
    for value, pattern in cues("statistics").items():
        if pattern.search(text):
            found.append(Statistic(value))
            # A blank, so that the words around do not join to a new phrase.
            text = pattern.sub(" ", text)
    if rivals and not found:
        found.append(Statistic.RETURN)
    # "By how many points did it rise" holds the words of both; the unit is more specific.
    if Statistic.CHANGE in found:
        found = [item for item in found if item != Statistic.RETURN]
    return tuple(found)


def _find_last(draft: Draft, text: str) -> tuple[Statistic, ...]:
    """Return ``LAST`` when the newest value, or the value at the end of a named period, is asked for."""
    periods, whole = draft.reading.periods, draft.reading.whole
    if cue("latest").search(text) and not periods:
        return (Statistic.LAST,)
    runs = any(p.relative or p.grain == Frequency.NATIVE for p in periods)
    ends = (
        any(p.edge == "end" for p in periods) and not cue("each").search(text) and not runs and whole.start is not None
    )
    return (Statistic.LAST,) if ends and whole.start != whole.end else ()


def _fit(found: tuple[Statistic, ...], specs: Sequence[IndicatorSpec], text: str) -> tuple[Statistic, ...]:
    """Return the statistics that apply to the indicators.

    A sum needs flows; rates change by points, other series by per cent, unless the text states otherwise. A sum beside
    another statistic is dropped.
    """
    # A sum of levels (prices, balances) means nothing.
    fitting = [item for item in found if item != Statistic.SUM or all(spec.flow for spec in specs)]
    rates = all(spec.unit.startswith("%") for spec in specs)
    # A yield that goes from 4 % to 5 % rose by one point; "25 %" would be read as points by most readers.
    if rates and not cue("explicit").search(text):
        fitting = [Statistic.CHANGE if item == Statistic.RETURN else item for item in fitting]
    if not rates and cue("points").search(text):
        fitting = [Statistic.RETURN if item == Statistic.CHANGE else item for item in fitting]
    # "Total return" and "cumulative drawdown" use the words for a sum as an adjective.
    return tuple(dict.fromkeys(item for item in fitting if item != Statistic.SUM or len(fitting) == 1))
