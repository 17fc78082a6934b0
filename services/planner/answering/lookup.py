"""Search for a number in the material, with the date, entity and sign of each occurrence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.planner.answering.dates import Moment
from services.planner.answering.evidence import Line, Series, Source
from services.planner.answering.numbers import Number, close

MAX_MATCHES = 2_000
CHANGE = re.compile(r"return|change|growth|gain|cagr|yoy|mom|涨|跌|变动|增长|收益", re.IGNORECASE)


@dataclass(frozen=True)
class Match:
    """An occurrence of a number. ``opposite`` is True when it has the other sign."""

    source: int
    moments: tuple[Moment, ...] = ()
    entities: frozenset[str] = frozenset()
    opposite: bool = False
    line: Line | None = None
    key: str = ""
    """Name of the value: a column, or the text before it in the line."""
    derived: bool = False
    value: float = 0.0


def matches(number: Number, source: Source, times: Sequence[Moment], known: dict[str, tuple[str, ...]]) -> list[Match]:
    """Return at most ``MAX_MATCHES`` occurrences in one source; derived values only when there are no direct ones."""
    found = list(in_lines(number, source, known))
    for series in source.series:
        found.extend(in_series(number, source.number, series))
    if not found and source.series:
        found = list(from_series(number, source, times))
    return found[:MAX_MATCHES]


def in_lines(number: Number, source: Source, known: dict[str, tuple[str, ...]]) -> Iterator[Match]:
    """Yield occurrences in the lines and the description of a source."""
    for line in (source.about, *source.lines):
        for held in line.numbers:
            same = same_number(number, held)
            if same is None:
                continue
            key = re.split(r"[,;{，；。]", line.text[max(0, held.start - 60) : held.start])[-1]
            named = frozenset(mentioned(line.text, known))
            yield Match(source.number, line.moments, named, same, line, key, value=held.value)


def same_number(said: Number, held: Number) -> bool | None:
    """Return False when the numbers are equal, True when they differ in sign only, None otherwise."""
    values = [held.value]
    if held.kind == "%" and not said.kind:
        values.append(held.value / 100)
    if held.kind == "bp":
        values += [held.value / 100, held.value / 1e4]
    candidates = said.candidates() if said.kind != held.kind or said.kind == "bp" else said.candidates()[:1]
    if said.bracketed:
        candidates = said.candidates()
    # A rounded "1.2 billion" is all that a passage can say of 1,234 million.
    rounder = held.scaled and not said.scaled and said.kind == held.kind
    slack = min(held.tolerance, 0.05 * abs(held.value)) if rounder else 0.0
    widened = tuple((value, tolerance + slack) for value, tolerance in candidates)
    for value in values:
        if close(value, widened):
            return False
    if not said.signed and any(close(-value, widened) for value in values):
        return True
    return None


def in_series(number: Number, source: int, series: Series) -> Iterator[Match]:
    """Yield cells of a column that hold the number, as is or in the scale of its unit."""
    for value, tolerance in number.candidates():
        for scale in {1.0, series.scale}:
            wanted, slack = value / scale, tolerance / scale * (1 + 1e-9) + 1e-12 * abs(value / scale)
            same = abs(series.values - wanted) <= slack
            turned = abs(series.values + wanted) <= slack
            for hits, opposite in ((same, False), (turned & ~same, True)):
                if opposite and number.signed:
                    continue
                for index in hits.nonzero()[0][:MAX_MATCHES]:
                    day = series.days[index] if series.days is not None else None
                    held = float(series.values[index])
                    yield Match(source, instant(day), entity_of(series), opposite, key=series.name, value=held)


def instant(day: date | None) -> tuple[Moment, ...]:
    return (Moment(0, 0, day.isoformat(), day, day),) if day is not None and day != date.min else ()


def entity_of(series: Series) -> frozenset[str]:
    return frozenset({series.entity}) if series.entity else frozenset()


def from_series(number: Number, source: Source, times: Sequence[Moment]) -> Iterator[Match]:
    """Yield values derived from columns: row count, extremes, mean, and changes between the named dates."""
    if not number.kind and number.decimals == 0 and number.value == source.rows:
        yield Match(source.number, derived=True)
    for series in source.series:
        for low, high in windows(series, times):
            part = series.values[low:high]
            if len(part) == 0:
                continue
            hit = measured(number, measures(part, number.kind == "%", "%" in series.unit), {1.0, series.scale})
            if hit is not None:
                opposite = hit * number.value < 0
                yield Match(source.number, (), entity_of(series), opposite, None, "change", True, hit)


def measured(number: Number, values: Sequence[float], scales: set[float]) -> float | None:
    """Return the first value that the number states, scaled; an unsigned number matches either sign."""
    for value in values:
        for scale in scales:
            wanted = [(said / scale, slack / scale) for said, slack in number.candidates()[:1]]
            if close(value, wanted) or (not number.signed and close(-value, wanted)):
                return value * scale
    return None


def measures(part: Any, percent: bool, in_percent: bool) -> list[float]:
    """Return difference, mean and range of a slice of a column, and its relative change as a fraction or in percent."""
    first, last = float(part[0]), float(part[-1])
    direct = [last - first, float(part.mean()), float(part.max() - part.min())] if in_percent or not percent else []
    return [*direct, *([(last / first - 1) * (100 if percent else 1)] if first else [])]


def windows(series: Series, times: Sequence[Moment]) -> set[tuple[int, int]]:
    """Return index ranges of the column: all of it, each named period, and the spans between two of them."""
    size = len(series.values)
    out = {(0, size)}
    if series.days is None:
        return out
    held = {}
    for moment in times:
        covered = [index for index, day in enumerate(series.days) if moment.covers(day)]
        if covered:
            held[moment] = (covered[0], covered[-1] + 1)
    edges = sorted(held.values())
    out.update(edges)
    # A change of a month is one since the month before.
    out.update((low - 1, high) for low, high in edges if low)
    for left in edges:
        out.update((start, right[1]) for right in edges for start in (left[0], left[1] - 1) if start < right[1])
    return out


def mentioned(text: str, known: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the entities that a text names, with the offset of the first mention."""
    found = {}
    for entity, names in known.items():
        places = [match.start() for name in names if (match := named(name, text))]
        if places:
            found[entity] = min(places)
    return found


def named(name: str, text: str) -> re.Match[str] | None:
    """Find a name in a text: as whole words, case-sensitive when the name is upper case."""
    if not name:
        return None
    flags = 0 if name.isupper() else re.IGNORECASE
    pattern = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])" if name.isascii() else re.escape(name)
    return re.search(pattern, text, flags)
