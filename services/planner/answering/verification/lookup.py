"""Search for a number in the material, with the date, entity and sign of each occurrence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Line, Series, Source, find_unit_scale
from fathom.services.planner.answering.verification.numbers import DOLLARS, DOLLARS_BY_COUNTRY, Number, is_close
from fathom.services.planner.answering.verification.units import (
    PERCENT,
    find_denominator,
    find_kind,
    find_time,
    has_unit,
    may_be_same,
    may_share_denominator,
    name_kind,
)
from fathom.services.planner.model.episode import MaterialKind

# A number such as 0 occurs in every row; more occurrences add nothing to the verdict.
MAX_MATCHES = 2_000
MAX_COMBINED = 12
# The key of a value in printed JSON or in a dictionary, such as ``"return_pct": ``.
KEY = re.compile(r"[\"']([^\"']{1,50})[\"']\s*:\s*$")
# The same, or a name before a colon or an equals sign: ``return_pct=12.3``, 就业人数(千人): 130513.
PRINTED_NAME = re.compile(r"([^\s,;{，；。:：=]{1,50}(?:\s?[(（][^)）]{1,20}[)）])?)[\"']?\s*[:：=]\s*$")
# Names of values that are changes, such as "return_1m", "YoY" or 涨跌幅: their sign is a direction.
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


def find_matches(number: Number, source: Source, known: dict[str, tuple[str, ...]]) -> list[Match]:
    """Return at most ``MAX_MATCHES`` occurrences in one source.

    An occurrence has a unit in which the number can be stated: "45%" is no price of 45 dollars.
    """
    found = list(match_lines(number, source, known))
    for series in source.series:
        if is_stateable(number, series):
            found.extend(match_series(number, source.number, series))
    return found[:MAX_MATCHES]


def match_lines(number: Number, source: Source, known: dict[str, tuple[str, ...]]) -> Iterator[Match]:
    """Yield occurrences in the lines and the description of a source."""
    for line in (source.about, *source.lines):
        for held in line.numbers:
            same = compare_printed(number, held, line)
            if same is None or not is_counted_alike(number, held, line):
                continue
            key = re.split(r"[,;{，；。]", line.text[max(0, held.start - 60) : held.start])[-1]
            named = frozenset(find_mentions(line.text, known))
            yield Match(source.number, line.moments, named, same, line, key, value=held.value)


def is_counted_alike(said: Number, held: Number, line: Line) -> bool:
    """Return whether a number of a text and one of a line may count the same thing per the same: no watts are hours."""
    if said.noun and held.noun and said.noun != held.noun:
        return False
    # A change by 0.25 percentage points is none by 0.25 %.
    if said.kind == held.kind == "%" and held.is_difference and not said.is_difference:
        return False
    return not said.per or may_share_denominator(said.per, find_denominator(line.text, held))


def compare_printed(said: Number, held: Number, line: Line) -> bool | None:
    """Compare a number with one of a line, in the unit that its name in the line states, such as ``return_pct``."""
    name = PRINTED_NAME.search(line.text[max(0, held.start - 60) : held.start])
    if name is None:
        return compare_numbers(said, held)
    kind = find_kind(name.group(1))
    if kind and name_kind(said) not in ("", kind):
        return None
    scale = find_unit_scale(name.group(1))
    if said.scaled and not held.scaled and scale != 1.0:
        held = replace(held, value=held.value * scale, tolerance=held.tolerance * scale)
    return compare_numbers(said, held)


def compare_numbers(said: Number, held: Number) -> bool | None:
    """Return False when the numbers are equal, True when they differ in sign only, None otherwise."""
    if (said.currency and (held.kind or not is_same_currency(said, held))) or (said.kind and held.currency):
        return None
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
    find_candidates = tuple((value, tolerance + slack) for value, tolerance in candidates)
    for value in values:
        if is_close(value, find_candidates):
            return False
    if not said.signed and any(is_close(-value, find_candidates) for value in values):
        return True
    return None


def is_same_currency(said: Number, held: Number) -> bool:
    """Return whether two numbers may be in one currency; a number that names none may be in any."""
    return not held.currency or may_be_same(said.currency, held.currency)


def is_stateable(number: Number, series: Series) -> bool:
    """Return whether a number can be a value of a column by its unit and by what it is counted per."""
    if number.time and (held := find_time(series.unit)) and number.time != held:
        return False
    own = DOLLARS_BY_COUNTRY.get(series.entity)
    if own and number.currency in DOLLARS and "$" in series.unit and not may_be_same(number.currency, own):
        return False
    return has_unit(number, series.unit) and may_share_denominator(number.per, series.per)


def find_other_units(number: Number, source: Source) -> list[str]:
    """Return the units of a source's columns that hold this number, but as another kind of value."""
    columns = [series for series in source.series if not is_stateable(number, series)]
    return [series.unit for series in columns if next(match_series(number, source.number, series), None) is not None]


def match_series(number: Number, source: int, series: Series) -> Iterator[Match]:
    """Yield cells of a column that hold the number, unchanged or in the scale of its unit."""
    in_percent = find_kind(series.unit) == PERCENT
    # A difference is no level, except in a column of differences.
    if (
        number.is_difference
        and number.kind == "%"
        and in_percent
        and "point" not in series.unit
        and not CHANGE.search(series.name)
    ):
        return
    for value, tolerance in express_in(number, in_percent):
        # The text says "1.2 billion"; a column in millions holds 1,200 and one in units the number itself.
        for scale in list_scales(number, series):
            wanted, slack = value / scale, tolerance / scale * (1 + 1e-9) + 1e-12 * abs(value / scale)
            same = abs(series.values - wanted) <= slack
            turned = abs(series.values + wanted) <= slack
            for hits, opposite in ((same, False), (turned & ~same, True)):
                if opposite and number.signed:
                    continue
                for index in hits.nonzero()[0][:MAX_MATCHES]:
                    day = series.days[index] if series.days is not None else None
                    held = float(series.values[index])
                    yield Match(source, to_moments(day), find_entity(series), opposite, key=series.name, value=held)


def express_in(number: Number, in_percent: bool) -> tuple[tuple[float, float], ...]:
    """Return the candidates of a number for a column: in percent, 12 % is 12 and 12 basis points are 0.12."""
    if not in_percent or not number.kind:
        return number.candidates()
    factor = 0.01 if number.kind == "bp" else 1.0
    return replace(number, kind="", value=number.value * factor, tolerance=number.tolerance * factor).candidates()


def list_scales(number: Number, series: Series) -> set[float]:
    """Return the scales in which a column may hold a number: "142 million" are 142,000 of a column in thousands.

    A number that names what it counts, as in "142,497 persons", states the full amount.
    """
    if number.scaled or (series.scale != 1.0 and (number.noun or number.currency)):
        return {series.scale}
    return {1.0, series.scale}


def to_moments(day: date | None) -> tuple[Moment, ...]:
    return (Moment(0, 0, day.isoformat(), day, day),) if day is not None and day != date.min else ()


def find_entity(series: Series) -> frozenset[str]:
    return frozenset({series.entity}) if series.entity else frozenset()


def is_combined(number: Number, source: Source) -> bool:
    """Return whether a number is the difference or ratio of two values of one measure in a calculation's output.

    Values belong to one measure when they have the same key ("return_pct" of two shares), or stand alone in lines of
    their own. At most ``MAX_COMBINED`` values per measure are combined: among many, some pair equals any number.
    """
    measures: dict[str, list[float]] = {}
    for line in source.lines if source.kind is MaterialKind.CODE else ():
        for held in line.numbers:
            name = KEY.search(line.text[max(0, held.start - 60) : held.start])
            key = name.group(1) if name else "" if len(line.numbers) == 1 else None
            if key is not None:
                measures.setdefault(key, []).append(held.value)
    if number.kind == "%" and not number.is_difference:
        measures = {key: values for key, values in measures.items() if find_kind(key) != PERCENT}
    return any(has_pair(number, values) for values in measures.values() if 1 < len(values) <= MAX_COMBINED)


def has_pair(number: Number, values: Sequence[float]) -> bool:
    """Return whether two of the values have this difference or ratio; a fraction may be stated in percent."""
    pairs = [(left, right) for left in values for right in values if left != right]
    made = [abs(left - right) for left, right in pairs]
    if not number.kind:
        made += [abs(left / right) for left, right in pairs if right]
    wanted = [(abs(value), tolerance) for value, tolerance in number.candidates()]
    return any(is_close(value, wanted) for value in made)


def find_mentions(text: str, known: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the entities that a text names, with the offset of the first mention."""
    found = {}
    for entity, names in known.items():
        places = [match.start() for name in names if (match := find_name(name, text))]
        if places:
            found[entity] = min(places)
    return found


def add_acronyms(known: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the names with the acronyms that only one entity has in its names: "WTI" of "WTI crude"."""
    acronyms = {
        entity: {word for name in names for word in name.split() if word.isupper() and word.isalpha() and len(word) > 1}
        for entity, names in known.items()
    }
    held = [word for words in acronyms.values() for word in words]
    return {
        entity: tuple(dict.fromkeys([*names, *sorted(word for word in acronyms[entity] if held.count(word) == 1)]))
        for entity, names in known.items()
    }


def find_name(name: str, text: str) -> re.Match[str] | None:
    """Find a name in a text: as whole words, case-sensitive when the name is upper case."""
    if not name:
        return None
    # Tickers such as ALL or IT are words in lower case.
    flags = 0 if name.isupper() else re.IGNORECASE
    pattern = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])" if name.isascii() else re.escape(name)
    return re.search(pattern, text, flags)
