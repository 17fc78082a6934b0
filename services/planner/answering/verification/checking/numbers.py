"""The check of a number: that the cited material holds it, of this entity, time and direction, or lets it follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from fathom.services.planner.answering.verification.checking.material import CheckedMaterial
from fathom.services.planner.answering.verification.checking.verdict import Verdict, collect_sources, format_numbers
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.comparisons import OF_THEM
from fathom.services.planner.answering.verification.comparison.derived import find_derived, has_count
from fathom.services.planner.answering.verification.dates import Moment, find_moments, find_ranges
from fathom.services.planner.answering.verification.elliptical import complete_moments, find_shifted
from fathom.services.planner.answering.verification.events import find_direction
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.lookup import (
    CHANGE,
    Match,
    compare_numbers,
    find_matches,
    find_mentions,
    find_other_units,
    is_combined,
)
from fathom.services.planner.answering.verification.numbers import Number
from fathom.services.planner.answering.verification.units import TIMES
from fathom.services.planner.model.episode import FindingKind, MaterialKind

# Integers up to a dozen are counts ("three quarters", "12 months"), which occur in any material by chance.
SMALL = 12
# "1982-84".
YEARS = re.compile(r"\b(?:1[89]|20)\d\d[-–/]?$")
# "131 in June": the date directly behind a number binds it.
# Behind a bracket the next value begins: "in May (133) than in June (137)".
BOUND = re.compile(r"^[^,;.，；。)）]{0,24}?\b(?:in|on|at|as of|of|for)\s+(?:early |late |the )?$", re.IGNORECASE)
# "from 131": the first value of a change belongs to the time before the named one.
BASE = re.compile(r"\b(?:from|against|after|compared with)\s*$|(?:从|由)\s*$", re.IGNORECASE)
# Days of a month, with those before it on which markets may be closed.
LONGEST_SHIFT = 35
# "58 days", 58个月.
LONGEST_UNIT = 10
# Borders of clauses, within which an entity binds the numbers.
# A colon is one before two values of both: "better than Apple: -2.7% versus -7.0%".
CLAUSE = re.compile(
    r"[,;，；、。]|:(?=[^:]*\b(?:versus|against|vs)\b)|\b(?:while|whereas|and|but|versus|against|than)\b|而|但",
    re.IGNORECASE,
)


class NumberCheck:
    """Check of the numbers of an answer."""

    def __init__(self, material: CheckedMaterial) -> None:
        self._material = material

    def judge(
        self, number: Number, sentence: Sentence, read: Sequence[Source], before: Sentence | None = None
    ) -> Verdict:
        if self._is_exempt(number, sentence):
            return Verdict(True, held=number.value)
        times = find_times(sentence)
        found = [match for source in read for match in find_matches(number, source, self._material.known)]
        held = self._judge_found(number, sentence, found, times) if found else None
        if held is not None and held.accepted:
            return held
        # The number of some other day may be the change or the average of the days that are named.
        # "Which was steadier in 2017? Microsoft: its volatility was 14.8%": the period is that of the sentence before.
        spoken_of = times or (find_times(before) if before else [])
        made = self._derive_number(number, sentence, read, spoken_of)
        if made is not None and made.accepted:
            return made
        if times and (shifted := find_shifted(sentence.text, sentence.moments)):
            wider = [*times, *shifted]
            # A year of daily values has one that equals any number.
            short = [*times, *(one for one in shifted if one.days <= LONGEST_SHIFT)]
            near = self._judge_found(number, sentence, found, short) if found else None
            near = near if near and near.accepted else self._derive_number(number, sentence, read, wider)
            if near is not None and near.accepted:
                return replace(near, derived=True)
        if held is not None and held.kind is FindingKind.TIME and (span := self._find_span(number, sentence, times)):
            near = self._judge_found(number, sentence, found, [span])
            if near.accepted:
                return near
        bounds = [one for one in sentence.numbers if one is not number]
        if is_count(number, sentence) and any(has_count(number, bounds, source, times) for source in read):
            return Verdict(True, held=number.value)
        return held or made or self._judge_unfound(number, sentence, read)

    def _derive_number(
        self, number: Number, sentence: Sentence, read: Sequence[Source], times: Sequence[Moment]
    ) -> Verdict | None:
        """Return the verdict of a number by what follows from columns over some periods; None where nothing does.

        The columns that the sentence names come first. Its words may name another one than the number's, or none, as
        "energy prices" do beside core CPI.
        """
        first: Verdict | None = None
        named = self._material.choose_comparisons(read).tables.find_series(sentence.text)
        units = {one.unit for one in named}
        alike = [one for source in read for one in source.series if one.unit in units]
        for columns in (named, alike) if named else ((),):
            derived = [match for source in read for match in find_derived(number, source, times, columns, named)]
            made = self._judge_found(number, sentence, derived, times) if derived else None
            if made is not None and made.accepted:
                return replace(made, derived=True)
            first = first or made
        return first

    def _is_exempt(self, number: Number, sentence: Sentence) -> bool:
        """Return whether a number needs no source.

        These are small counts, numbers of the question or of a title, and numbers inside a date.
        """
        plain = not number.kind and not number.scaled and number.decimals == 0 and not number.signed
        around = sentence.text[max(0, number.start - 1) : number.start]
        if plain and abs(number.value) <= SMALL and around not in "$¥€£":
            return True
        if not number.kind and not number.scaled and YEARS.search(sentence.text[: number.start]):
            return True
        if any(compare_numbers(number, held) is not None for held in self._material.asked.numbers):
            return True
        dates = complete_moments(sentence.text, sentence.moments)
        if any(moment.start <= number.start < moment.stop for moment in dates):
            return True  # checked as a date
        named = (source.about for source in self._material.sources.values() if source.kind is not MaterialKind.PASSAGE)
        return plain and any(compare_numbers(number, held) is False for line in named for held in line.numbers)

    def _judge_unfound(self, number: Number, sentence: Sentence, read: Sequence[Source]) -> Verdict:
        """Return the verdict of a number that the cited material lacks; accepted if a cited table could not be read."""
        # The number may stand in the rows that could not be read: no finding without certainty.
        if any(source.partial for source in read):
            return Verdict(True, held=number.value)
        if any(is_combined(number, source) for source in read):
            return Verdict(True, held=number.value)
        if units := sorted({unit for source in read for unit in find_other_units(number, source)}):
            detail = f"the material has {number.text.rstrip('%％ ')} in {', '.join(units[:3])}, which is another unit"
            return Verdict(False, FindingKind.NUMBER, detail)
        others = self._material.list_others(read)
        holding = tuple(source.number for source in others if find_matches(number, source, self._material.known))
        if sentence.cited and holding:
            return Verdict(
                False,
                FindingKind.NUMBER,
                f"the cited material does not hold it, but {format_numbers(holding)} does",
                holding,
            )
        if sentence.cited:
            return Verdict(
                False, FindingKind.NUMBER, f"neither in {format_numbers(sentence.cited)} nor in other material"
            )
        return Verdict(False, FindingKind.UNSUPPORTED, "no material holds it")

    def _judge_found(self, number: Number, sentence: Sentence, found: list[Match], times: Sequence[Moment]) -> Verdict:
        """Return the verdict of a number by the entity, time and direction of its occurrences."""
        subjects = self._find_subjects(number, sentence)
        # Entity, then time, then direction: the first that does not fit says best what is wrong.
        of_subject = [m for m in found if not subjects or not m.entities or self._is_about(m.entities, subjects)]
        if not of_subject:
            owner = ", ".join(sorted({entity for match in found for entity in match.entities}))
            return Verdict(False, FindingKind.EVENT, f"this is the value of {owner}", collect_sources(found))
        in_time = [match for match in of_subject if self._is_timely(match, number, sentence, times)]
        if not in_time:
            days = sorted({moment.text for match in of_subject for moment in match.moments})
            return Verdict(
                False, FindingKind.TIME, f"this is the value of {', '.join(days[:3])}", collect_sources(of_subject)
            )
        way = 0 if number.signed else find_own_direction(number, sentence)
        if way and all(is_contrary(way, match) for match in in_time):
            return Verdict(
                False, FindingKind.EVENT, "the material has it in the other direction", collect_sources(in_time)
            )
        return Verdict(True, held=in_time[0].value)

    def _find_span(self, number: Number, sentence: Sentence, times: Sequence[Moment]) -> Moment | None:
        """Return the time between the first and the last date of a sentence for a number whose clause has none.

        "It fell to 91.52, then recovered to 69.2 on 27 February, above its level of October."
        """
        start, end = find_clause(sentence.text, number.start)
        dated = [one for one in times if one.first and one.last]
        if len({one.first for one in dated}) < 2 or any(start <= one.start < end for one in dated):
            return None
        first = min(one.first for one in dated if one.first)
        last = max(one.last for one in dated if one.last)
        return Moment(-1, -1, "", first, last)

    def _is_about(self, entities: frozenset[str], subjects: frozenset[str]) -> bool:
        """Return whether a value's entities are subjects, or parts of one by their names: "Acme" has "Acme digital"."""
        names = {name.casefold() for one in subjects for name in (one, *self._material.known.get(one, ()))}
        own = {name.casefold() for one in entities for name in (one, *self._material.known.get(one, ()))}
        return bool(entities & subjects) or any(part.startswith(f"{name} ") for name in names for part in own)

    def _find_subjects(self, number: Number, sentence: Sentence) -> frozenset[str]:
        """Return the entities that a number may belong to: the one of its clause, else all of the sentence."""
        start, end = find_clause(sentence.text, number.start)
        # "of the two shares about 47% against about 44%": the other one is not named.
        if OF_THEM.search(sentence.text):
            return frozenset()
        clause = find_mentions(sentence.text[start:end], self._material.known)
        # Two entities in one clause: the number may be of either.
        if len(clause) == 1:
            return frozenset(clause)
        mentioned = find_mentions(sentence.text, self._material.known)
        for header in (sentence.row_header, sentence.column_header):
            mentioned = mentioned or find_mentions(header, self._material.known)
        return frozenset(mentioned)

    def _is_timely(self, match: Match, number: Number, sentence: Sentence, times: Sequence[Moment]) -> bool:
        """Return whether an occurrence is of a named period; occurrences in passages always are."""
        # The dates of passages are checked on their own.
        if not match.moments or not times or self._material.sources[match.source].kind is MaterialKind.PASSAGE:
            return True
        bound = [m for m in times if m.start >= number.end and BOUND.match(sentence.text[number.end : m.start])]
        nearest = min((moment.start for moment in bound), default=0)
        wanted = [moment for moment in bound if moment.start == nearest] or list(times)
        if not bound and BASE.search(sentence.text[: number.start]):
            # "in April, from 151 to 130": the first value is of the time before.
            pairs = [(moment, held) for moment in wanted for held in match.moments]
            return any(m.meets(held) or (m.first or date.min) >= (held.last or date.min) for m, held in pairs)
        return any(moment.meets(held) for moment in wanted for held in match.moments)


def find_clause(text: str, place: int) -> tuple[int, int]:
    """Return the span of the clause of a place."""
    cuts = [0, *(match.end() for match in CLAUSE.finditer(text)), len(text)]
    return max(cut for cut in cuts if cut <= place), min(cut for cut in cuts if cut > place)


def find_own_direction(number: Number, sentence: Sentence) -> int:
    """Return the direction that is told of a number: a word before another one of its kind is of that one.

    "It rose 295.1% in 2016 after a fall of 55.6%".
    """
    others = [one.end for one in sentence.numbers if one.kind == number.kind != "" and one.end <= number.start]
    start = max(others, default=0)
    return find_direction(sentence.text[start:], number.start - start)


def is_count(number: Number, sentence: Sentence) -> bool:
    """Return whether a number counts days, months or the like."""
    plain = not number.kind and not number.scaled and not number.currency and number.decimals == 0
    behind = sentence.text[number.end : number.end + LONGEST_UNIT]
    return plain and any(pattern.match(behind.lstrip(" 个")) for pattern in TIMES.values())


def find_times(sentence: Sentence) -> list[Moment]:
    """Return the periods that a sentence's numbers may refer to; for a cell without a date, those of its headers."""
    for text in (sentence.text, sentence.row_header, sentence.column_header):
        moments = list(sentence.moments) if text is sentence.text else find_moments(text)
        if moments:
            times = find_ranges(text, complete_moments(text, moments))
            # Outside of the cell: no date of a header stands before or behind one of its numbers.
            return times if text is sentence.text else [replace(time, start=-1, stop=-1) for time in times]
    return []


def is_contrary(way: int, match: Match) -> bool:
    """Return whether an occurrence states the opposite direction."""
    if match.line is not None and not match.opposite and not CHANGE.search(match.key):
        held = match.line.numbers
        place = next((number.start for number in held if match.line.text[: number.start].endswith(match.key)), 0)
        there = find_direction(match.line.text, place)
        # A line of JSON is data: words in it are names of fields, no statement.
        return there not in (0, way) and not match.line.text.lstrip().startswith("{")
    if match.opposite:
        return way > 0
    signed_change = CHANGE.search(match.key) is not None and (match.derived or match.line is not None)
    return way < 0 and signed_change
