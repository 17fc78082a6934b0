"""Values of columns over periods, by statistic: what a comparison in words can mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby, permutations
from typing import Any

import numpy as np

from fathom.domain.text.numerals import NUMBER_WORDS
from fathom.services.planner.answering.verification.comparison.relations import load_lexicon
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.events import STEM, extract_words
from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.lookup import KEY, find_mentions
from fathom.services.planner.answering.verification.numbers import Number, is_close
from fathom.services.planner.model.episode import MaterialKind

LEVEL, CHANGE, MEAN, VOLATILITY, DRAWDOWN = "level", "change", "mean", "volatility", "drawdown"
COUNTED_TIME = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})(?=-(?:year|month|week|day)\b)", re.IGNORECASE)
PRINTED_ROW, ROW_SERIES = re.compile(r"\{[^{}]*\}"), re.compile(r'"series": ?"([^"]*)"')
# A value and its date as the finance library names them: "min" beside "min_date" or "min_period", "below_run" beside
# "below_run_end".
PRINTED_EXTREME = re.compile(
    r'"(?P<key>\w+)": ?(?P<value>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?), ?"(?P=key)_(?P<at>date|period|end)": ?"(?P<day>[^"]+)"'
)
ANY = ""
Values = Mapping[str, float]
"""Values by the reading of the statistic: a month's level may be its last value or its mean."""
# Fewer values give no standard deviation worth the name.
FEWEST = 3
# A year of months; more values are daily.
MOST_AVERAGED = 12


class Tables:
    """Columns and printed values of sources, found by the words of a text."""

    def __init__(self, sources: Sequence[Source], known: Mapping[str, tuple[str, ...]]) -> None:
        self._known = dict(known)
        self.series = [one for source in sources for one in source.series if one.days]
        self._lines = [line for source in sources if source.kind is MaterialKind.CODE for line in source.lines]
        named = {
            one.name: f"{source.labels.get(one.name, '')} {one.name}" for source in sources for one in source.series
        }
        stems = {name: {word[:STEM] for word in extract_words(text)} for name, text in named.items()}
        by_indicator = {name.rpartition(".")[2]: found for name, found in stems.items()}
        shared = [one for found in by_indicator.values() for one in found]
        self._stems = {name: {one for one in found if shared.count(one) == 1} for name, found in stems.items()}

    @property
    def entities(self) -> list[str]:
        """Return the entities of the columns."""
        return list(dict.fromkeys(one.entity for one in self.series if one.entity))

    def find_entities(self, text: str) -> list[str]:
        """Return the entities that a text names."""
        return list(find_mentions(text, self._known))

    def find_series(self, text: str) -> list[Series]:
        """Return the columns that a text names by their measure and entity; [] when it names neither."""
        # "The ten-year yield" is the one that its title counts in digits.
        text = COUNTED_TIME.sub(lambda match: str(NUMBER_WORDS[match.group().lower()]), text)
        mentioned, words = find_mentions(text, self._known), {word[:STEM] for word in extract_words(text)}
        of_measure = [one for one in self.series if self._stems[one.name] & words]
        of_entity = [one for one in self.series if one.entity in mentioned]
        both = [one for one in of_measure if one.entity in mentioned]
        return both or of_measure or of_entity

    def find_printed(self, entity: str, statistic: str) -> Values:
        """Return the values of a statistic that a cell printed in the lines of an entity, by their names."""
        out: dict[str, float] = {}
        for line in self._lines:
            if entity not in find_mentions(line.text, self._known):
                continue
            for held in line.numbers:
                key = KEY.search(line.text[max(0, held.start - 60) : held.start])
                if key and load_lexicon().find_statistic(key.group(1)) == statistic:
                    out.setdefault(key.group(1), held.value)
        return out

    def has_difference(self, series: Sequence[Series], day: str) -> bool:
        """Return whether a cell printed this day beside the name of a difference of two of these columns."""
        names = [f"{one.name} - {other.name}" for one, other in permutations(series, 2)]
        return any(day in line.text and name in line.text for line in self._lines for name in names)

    def has_extreme(self, numbers: Sequence[Number], day: str, sign: int) -> bool:
        """Return whether a cell printed one of some numbers as an extreme with its date, which is this day.

        Extremes of what is computed from columns, such as returns by month, are no extremes of the columns. Those with
        a date are of columns unless their series is none.
        """
        names = {one.name for one in self.series}
        rows = [match.group() for line in self._lines for match in PRINTED_ROW.finditer(line.text)]
        return any(
            match["day"].startswith(day)
            and (match["at"] != "date" or not names & set(ROW_SERIES.findall(row)))
            and not match["key"].startswith("max" if sign < 0 else "min")
            and any(is_close(abs(float(match["value"])), [(abs(one.value), one.tolerance)]) for one in numbers)
            for row in rows
            for match in PRINTED_EXTREME.finditer(row)
        )


def measure_period(series: Series, period: Moment | None, statistic: str) -> Values:
    """Return the values of a column in a period, all of it without one; {} where the column has no value."""
    days = series.days or ()
    inside = [place for place, day in enumerate(days) if period is None or period.covers(day)]
    if not inside:
        return {}
    low, part = inside[0], series.values[inside[0] : inside[-1] + 1]
    if statistic == VOLATILITY:
        return measure_volatility(part)
    if statistic == DRAWDOWN:
        return {DRAWDOWN: float((part / np.maximum.accumulate(part) - 1).min())}
    levels = {"last": float(part[-1]), "mean": float(part.mean())}
    changes = measure_change(series.values[max(0, low - len(part)) : low], part)
    if statistic in (LEVEL, MEAN):
        return levels if statistic == LEVEL else {"mean": levels["mean"]}
    return changes if statistic == CHANGE else {**levels, **changes}


def measure_all(series: Series, period: Moment | None) -> Values:
    """Return the values of all statistics of a column in a period, with its highest and lowest one."""
    out = dict(measure_period(series, period, ANY))
    if out:
        for statistic in (VOLATILITY, DRAWDOWN):
            out |= measure_period(series, period, statistic)
        inside = [
            value
            for day, value in zip(series.days or (), series.values, strict=True)
            if not period or period.covers(day)
        ]
        out |= {"top": float(max(inside)), "bottom": float(min(inside))}
    return out


def measure_volatility(part: Any) -> Values:
    """Return the standard deviation of relative changes; {} for too few or for values of both signs."""
    return {VOLATILITY: float((part[1:] / part[:-1] - 1).std())} if len(part) > FEWEST and (part > 0).all() else {}


def measure_change(before: Any, part: Any) -> Values:
    """Return the changes over a period: from the value before it, from its first one, and of the means of both."""
    out = {}
    if len(before):
        out["difference"] = float(part[-1] - before[-1])
        if before[-1]:
            out["relative"] = float(part[-1] / before[-1]) - 1
    if len(part) > 1 and part[0]:
        out["inside"] = float(part[-1] / part[0]) - 1
    # "GDP shrank in 2009" may mean the year against the year before; of daily prices nobody says so.
    if len(before) == len(part) > 1 and len(part) <= MOST_AVERAGED and before.mean():
        out["average"] = float(part.mean() / before.mean()) - 1
    return out


def split_periods(series: Series, scope: Moment | None, unit: str) -> Iterator[Moment]:
    """Yield the days, months, quarters or years of a column within a scope."""
    days = [day for day in series.days or () if scope is None or scope.covers(day)]
    for name, group in groupby(days, key=lambda day: name_period(day, unit)):
        part = list(group)
        yield Moment(0, 0, name, part[0], part[-1])


def name_period(day: date, unit: str) -> str:
    """Return the name of the period that a day belongs to."""
    if unit == "year":
        return str(day.year)
    if unit == "quarter":
        return f"{day.year} Q{(day.month + 2) // 3}"
    return f"{day:%Y-%m}" if unit == "month" else day.isoformat()
