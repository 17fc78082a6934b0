"""Model-free verification of the numbers, dates and events of an answer against the cited material.

Accepted are: values that round to the stated number in any of its units (see ``Number.candidates``), in a cell of the
whole sheet, in printed output or in a passage; numbers and dates of the question; the arithmetic of two accepted
numbers of one sentence; extremes, means and changes of a cited column. Unitless integers up to 12 are counts and not
checked. Statements that cannot be parsed, such as paraphrased events, produce no finding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from services.planner.answering.claims import Sentence, sentences_of
from services.planner.answering.dates import Moment, moments_in, ranges
from services.planner.answering.evidence import Source, line_of
from services.planner.answering.happenings import (
    contradiction,
    direction_before,
    exchanged,
    strange_names,
    unknown_name,
)
from services.planner.answering.lookup import CHANGE, Match, matches, mentioned, same_number
from services.planner.answering.numbers import Number, close
from services.planner.model import Doubt, Kind, Mark

SMALL = 12
BOUND = re.compile(r"^[^,;.，；。]{0,24}?\b(?:in|on|at|as of|of|for)\s+(?:early |late |the )?$", re.IGNORECASE)
BASE = re.compile(r"\b(?:from|against|after|compared with)\s*$|(?:从|由)\s*$", re.IGNORECASE)
CLAUSE = re.compile(r"[,;，；、。]|\b(?:while|whereas|and|but|versus|against|than)\b|而|但", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """Outcome of the check of one number: accepted, or the reason why not."""

    accepted: bool
    kind: Doubt = Doubt.NUMBER
    detail: str = ""
    found_in: tuple[int, ...] = ()
    held: float = 0.0
    """The value in the material if found there, else in the text."""


class Verifier:
    """Verifier of answers to one question; ``verify`` is pure and accepts any text."""

    def __init__(self, question: str, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._asked = line_of(question)
        self._known: dict[str, tuple[str, ...]] = {}
        for source in sources:
            self._known.update(source.aliases)
        self._corpus = {source.number: source.text.lower() for source in sources}

    def verify(self, markdown: str) -> tuple[Mark, ...]:
        """Return all findings in the order of the text."""
        out: list[Mark] = []
        for sentence in sentences_of(markdown):
            out.extend(self._sentence(sentence))
        as_written = (replace(mark, text=markdown[mark.start : mark.end]) for mark in out)
        return tuple(sorted(as_written, key=lambda mark: (mark.start, mark.end)))

    def _sentence(self, sentence: Sentence) -> list[Mark]:
        cited = [self._sources[number] for number in sentence.cited if number in self._sources]
        read = cited or list(self._sources.values())
        marks = [
            mark for moment in sentence.moments if (mark := self._date(moment, sentence, read, bool(cited))) is not None
        ]
        verdicts = [(number, self._number(number, sentence, read)) for number in sentence.numbers]
        held = [verdict.held for _, verdict in verdicts if verdict.accepted]
        for number, verdict in verdicts:
            if not verdict.accepted and not (verdict.kind is not Doubt.EVENT and derived(number, held)):
                marks.append(self._mark(sentence, number.start, number.end, verdict))
        marked = {(mark.start, mark.end) for mark in marks}
        passages = [source for source in cited if source.kind is Kind.PASSAGE]
        if passages and sentence.own and not sentence.heading:
            marks += [mark for mark in self._events(sentence, cited, passages) if (mark.start, mark.end) not in marked]
        return marks

    def _mark(self, sentence: Sentence, start: int, end: int, verdict: Verdict) -> Mark:
        place = (sentence.start + start, sentence.start + end)
        return Mark(*place, verdict.kind, sentence.text[start:end], verdict.detail, sentence.cited, verdict.found_in)

    def _number(self, number: Number, sentence: Sentence, read: Sequence[Source]) -> Verdict:
        if self._exempt(number, sentence):
            return Verdict(True, held=number.value)
        times = ranges(sentence.text, list(sentence.moments))
        found = [match for source in read for match in matches(number, source, times, self._known)]
        if not found:
            return self._elsewhere(number, sentence, read, times)
        return self._fitting(number, sentence, found, times)

    def _exempt(self, number: Number, sentence: Sentence) -> bool:
        """Return whether a number needs no source.

        These are small counts, numbers of the question or of a title, and numbers inside a date.
        """
        plain = not number.kind and not number.scaled and number.decimals == 0 and not number.signed
        around = sentence.text[max(0, number.start - 1) : number.start]
        if plain and abs(number.value) <= SMALL and around not in "$¥€£":
            return True
        if any(same_number(number, held) is not None for held in self._asked.numbers):
            return True
        if any(moment.start <= number.start < moment.stop for moment in sentence.moments):
            return True  # checked as a date
        named = (source.about for source in self._sources.values() if source.kind is not Kind.PASSAGE)
        return plain and any(same_number(number, held) is False for line in named for held in line.numbers)

    def _elsewhere(
        self, number: Number, sentence: Sentence, read: Sequence[Source], times: Sequence[Moment]
    ) -> Verdict:
        """Return the verdict of a number that the cited material lacks; accepted if a cited table could not be read."""
        if any(source.partial for source in read):
            return Verdict(True, held=number.value)
        others = [source for source in self._sources.values() if source not in read]
        holding = tuple(s.number for s in others if any(not m.derived for m in matches(number, s, times, self._known)))
        if sentence.cited and holding:
            return Verdict(
                False, Doubt.NUMBER, f"the cited material does not hold it, but {names(holding)} does", holding
            )
        if sentence.cited:
            return Verdict(False, Doubt.NUMBER, f"neither in {names(sentence.cited)} nor in other material")
        return Verdict(False, Doubt.UNSUPPORTED, "no material holds it")

    def _fitting(self, number: Number, sentence: Sentence, found: list[Match], times: Sequence[Moment]) -> Verdict:
        """Return the verdict of a number by the entity, time and direction of its occurrences."""
        subjects = self._subjects(number, sentence)
        of_subject = [m for m in found if not subjects or not m.entities or m.entities & subjects]
        if not of_subject:
            owner = ", ".join(sorted({entity for match in found for entity in match.entities}))
            return Verdict(False, Doubt.EVENT, f"this is the value of {owner}", cited_by(found))
        in_time = [match for match in of_subject if self._timely(match, number, sentence, times)]
        if not in_time:
            days = sorted({moment.text for match in of_subject for moment in match.moments})
            return Verdict(False, Doubt.TIME, f"this is the value of {', '.join(days[:3])}", cited_by(of_subject))
        way = 0 if number.signed else direction_before(sentence.text, number.start)
        if way and all(against(way, match) for match in in_time):
            return Verdict(False, Doubt.EVENT, "the material has it in the other direction", cited_by(in_time))
        return Verdict(True, held=in_time[0].value)

    def _subjects(self, number: Number, sentence: Sentence) -> frozenset[str]:
        """Return the entities that a number may belong to: the one of its clause, else all of the sentence."""
        cuts = [0, *(match.end() for match in CLAUSE.finditer(sentence.text)), len(sentence.text)]
        start = max(cut for cut in cuts if cut <= number.start)
        end = min(cut for cut in cuts if cut > number.start)
        clause = mentioned(sentence.text[start:end], self._known)
        if len(clause) == 1:
            return frozenset(clause)
        return frozenset(mentioned(sentence.text, self._known))

    def _timely(self, match: Match, number: Number, sentence: Sentence, times: Sequence[Moment]) -> bool:
        """Return whether an occurrence is of a named period; occurrences in passages always are."""
        # The dates of passages are checked on their own.
        if not match.moments or not times or self._sources[match.source].kind is Kind.PASSAGE:
            return True
        bound = [m for m in times if m.start >= number.end and BOUND.match(sentence.text[number.end : m.start])]
        nearest = min((moment.start for moment in bound), default=0)
        wanted = [moment for moment in bound if moment.start == nearest] or list(times)
        if not bound and BASE.search(sentence.text[: number.start]):
            # "in April, from 151 to 130": the first value is of the time before.
            pairs = [(moment, held) for moment in wanted for held in match.moments]
            return any(m.meets(held) or (m.first or date.min) >= (held.last or date.min) for m, held in pairs)
        return any(moment.meets(held) for moment in wanted for held in match.moments)

    def _date(self, moment: Moment, sentence: Sentence, read: Sequence[Source], cited: bool) -> Mark | None:
        if any(supports(held, moment) for held in self._asked.moments):
            return None
        if any(supports(held, moment) for source in read for held in source.moments):
            return None
        if any(source.partial for source in read):
            return None
        year = [number for number in sentence.numbers if number.start == moment.start and len(moment.text) == 4]
        if year and any(matches(year[0], source, (), self._known) for source in read):
            return None
        others = [source for source in self._sources.values() if source not in read]
        holding = tuple(s.number for s in others if any(supports(held, moment) for held in s.moments))
        if not self._sources:
            return self._mark(
                sentence, moment.start, moment.stop, Verdict(False, Doubt.UNSUPPORTED, "no material holds it")
            )
        detail = (
            f"the cited material has no such date, but {names(holding)} does"
            if holding
            else "no material has this date"
        )
        kind = Doubt.TIME if cited else Doubt.UNSUPPORTED
        if not cited and holding:
            return None
        return self._mark(sentence, moment.start, moment.stop, Verdict(False, kind, detail, holding))

    def _is_name(self, word: str) -> bool:
        """Return whether some material capitalises the word inside a sentence."""
        inner = re.compile(rf"(?<=[a-z,] ){re.escape(word)}(?![a-z])")
        return any(inner.search(line.text) for source in self._sources.values() for line in source.lines)

    def _events(self, sentence: Sentence, cited: Sequence[Source], passages: Sequence[Source]) -> list[Mark]:
        """Return findings for names absent from the cited material and for contradicted statements."""
        marks = []
        corpus = "\n".join([self._asked.text.lower(), *(self._corpus[source.number] for source in cited)])
        for match in strange_names(sentence.text, sentence.heading, self._is_name):
            if unknown_name(match.group(), corpus):
                others = tuple(n for n, text in self._corpus.items() if not unknown_name(match.group(), text))
                detail = f"{match.group()!r} does not occur in the cited material"
                marks.append(
                    self._mark(sentence, match.start(), match.end(), Verdict(False, Doubt.EVENT, detail, others))
                )
        why = contradiction(sentence.text, passages)
        if why:
            stripped = sentence.text.rstrip()
            start = len(sentence.text) - len(sentence.text.lstrip())
            marks.append(self._mark(sentence, start, len(stripped), Verdict(False, Doubt.EVENT, why)))
        lines = [line for source in passages for line in source.lines]
        other = exchanged(sentence.text, lines, corpus) if not marks else None
        if other is not None:
            word, held = other
            detail = f"the text says {word.group()!r}, the material {held!r}"
            marks.append(self._mark(sentence, word.start(), word.end(), Verdict(False, Doubt.EVENT, detail)))
        return marks


def names(numbers: Sequence[int]) -> str:
    """Format numbers as "[1], [2]"."""
    return ", ".join(f"[{number}]" for number in numbers)


def cited_by(found: Sequence[Match]) -> tuple[int, ...]:
    return tuple(sorted({match.source for match in found}))


def supports(held: Moment, said: Moment) -> bool:
    """Return whether a period of the material confirms one of the text by lying within it."""
    if said.month_day is not None:
        return said.meets(held) and (held.month_day is not None or held.first == held.last)
    if held.first is None or held.last is None or said.first is None or said.last is None:
        return False
    return said.first <= held.first and held.last <= said.last


def against(way: int, match: Match) -> bool:
    """Return whether an occurrence states the opposite direction."""
    if match.line is not None and not match.opposite and not CHANGE.search(match.key):
        held = match.line.numbers
        place = next((number.start for number in held if match.line.text[: number.start].endswith(match.key)), 0)
        there = direction_before(match.line.text, place)
        return there not in (0, way) and not match.line.text.lstrip().startswith("{")
    if match.opposite:
        return way > 0
    signed_change = CHANGE.search(match.key) is not None and (match.derived or match.line is not None)
    return way < 0 and signed_change


def derived(number: Number, values: Sequence[float]) -> bool:
    """Return whether the number is the difference, sum, ratio or change of two other values."""
    for left in values:
        for right in values:
            if left == right:
                continue
            made = [abs(left - right), left + right]
            if right:
                made += [left / right, abs(left / right - 1) * (100 if number.kind == "%" else 1)]
            if any(close(value, [(abs(number.value), number.tolerance)]) for value in made):
                return True
    return False


def dated(text: str) -> list[Moment]:
    """Return the dates of a text and their ranges."""
    return ranges(text, moments_in(text))
