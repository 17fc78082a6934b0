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
from itertools import groupby, pairwise

from fathom.services.planner.answering.verification.causes import (
    explain_missing_cause,
    find_cause,
    find_causes,
    is_named_in,
)
from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels
from fathom.services.planner.answering.verification.comparison.comparisons import OF_THEM, ComparisonCheck
from fathom.services.planner.answering.verification.comparison.derived import find_derived, has_count
from fathom.services.planner.answering.verification.comparison.measuring import Tables
from fathom.services.planner.answering.verification.dates import Moment, find_moments, find_ranges
from fathom.services.planner.answering.verification.elliptical import complete_moments, find_shifted
from fathom.services.planner.answering.verification.events import (
    find_contradiction,
    find_direction,
    find_exchanged_word,
    find_names,
    is_unknown_name,
)
from fathom.services.planner.answering.verification.evidence import Source, find_unit_scale, index_line
from fathom.services.planner.answering.verification.lookup import (
    CHANGE,
    Match,
    add_acronyms,
    compare_numbers,
    find_matches,
    find_mentions,
    find_other_units,
    is_combined,
)
from fathom.services.planner.answering.verification.numbers import Number, is_close
from fathom.services.planner.answering.verification.units import TIMES
from fathom.services.planner.model.episode import Finding, FindingKind, MaterialKind

# Integers up to a dozen are counts ("three quarters", "12 months"), which occur in any material by chance.
SMALL = 12
# "131 in June": the date directly behind a number binds it.
# Behind a bracket the next value begins: "in May (133) than in June (137)".
BOUND = re.compile(r"^[^,;.，；。)）]{0,24}?\b(?:in|on|at|as of|of|for)\s+(?:early |late |the )?$", re.IGNORECASE)
# "from 131": the first value of a change belongs to the time before the named one.
BASE = re.compile(r"\b(?:from|against|after|compared with)\s*$|(?:从|由)\s*$", re.IGNORECASE)
# Days of a month, with those before it on which markets may be closed.
LONGEST_SHIFT = 35
# "58 days", 58个月.
LONGEST_UNIT = 10
# Headers of columns whose numbers are percentages.
PERCENT_MARKS = ("%", "％", "percent", "per cent", "百分")
# Borders of clauses, within which an entity binds the numbers.
# A colon is one before two values of both: "better than Apple: -2.7% versus -7.0%".
CLAUSE = re.compile(
    r"[,;，；、。]|:(?=[^:]*\b(?:versus|against|vs)\b)|\b(?:while|whereas|and|but|versus|against|than)\b|而|但",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Verdict:
    """Outcome of the check of one number: accepted, or the reason why not."""

    accepted: bool
    kind: FindingKind = FindingKind.NUMBER
    detail: str = ""
    found_in: tuple[int, ...] = ()
    held: float = 0.0
    """The value in the material if found there, else in the text."""
    derived: bool = False
    """True for a value that no cell or line holds, but that follows from a column."""


class Verifier:
    """Verifier of answers to one question; ``verify`` is pure and accepts any text."""

    def __init__(self, question: str, sources: Sequence[Source], labels: ClauseLabels | None = None) -> None:
        """Create the verifier; without ``labels`` of clauses, causes are found by their conjunctions only."""
        self._labels = labels or ClauseLabels()
        self._sources = {source.number: source for source in sources}
        self._asked = index_line(question)
        self._known: dict[str, tuple[str, ...]] = {}
        for source in sources:
            self._known.update(source.aliases)
        self._known = add_acronyms(self._known)
        self._checks: dict[tuple[int, ...], ComparisonCheck] = {}
        names = (name for words in self._known.values() for name in words)
        self._names = "\n".join([question, *(source.about.text for source in sources), *names])
        self._corpus = {source.number: source.text.lower() for source in sources}

    def verify(self, markdown: str) -> tuple[Finding, ...]:
        """Return all findings in the order of the text."""
        out: list[Finding] = []
        sentences = parse_sentences(markdown)
        for before, sentence in pairwise([None, *sentences]):
            if sentence is not None and not sentence.row:
                is_near = before is not None and before.paragraph == sentence.paragraph
                out.extend(self._verify_sentence(sentence, before if is_near else None))
        for _, cells in groupby((s for s in sentences if s.row), key=lambda cell: cell.paragraph):
            out.extend(self._verify_table(list(cells)))
        as_written = (replace(mark, text=markdown[mark.start : mark.end]) for mark in out)
        return tuple(sorted(as_written, key=lambda mark: (mark.start, mark.end)))

    def _verify_sentence(self, sentence: Sentence, before: Sentence | None) -> list[Finding]:
        cited = [self._sources[number] for number in sentence.cited if number in self._sources]
        # Without a citation anything may support the sentence; that it lacks one is a finding of its own.
        read = cited or list(self._sources.values())
        marks = [
            mark
            for moment in sentence.moments
            if (mark := self._verify_date(moment, sentence, read, bool(cited))) is not None
        ]
        verdicts = [(number, self._verify_number(number, sentence, read, before)) for number in sentence.numbers]
        held = [verdict.held for _, verdict in verdicts if verdict.accepted]
        shares = [verdict.held for number, verdict in verdicts if verdict.accepted and number.kind == "%"]
        for number, verdict in verdicts:
            lacking = lacks_points(number, shares)
            made = is_derived(number, held) and not lacking
            if verdict.derived and lacking:
                verdict = Verdict(False, detail="the difference of two percentages is in percentage points")
            if not verdict.accepted and not (verdict.kind is not FindingKind.EVENT and made):
                marks.append(self._make_finding(sentence, number.start, number.end, verdict))
        marks += self._verify_claims(sentence, read)
        marked = {(mark.start, mark.end) for mark in marks}
        passages = [source for source in cited if source.kind is MaterialKind.PASSAGE]
        # Events are compared only with a passage that the sentence itself cites: words of other passages differ by
        # nature.
        if passages and sentence.own and not sentence.heading:
            marks += [
                mark for mark in self._verify_events(sentence, cited, passages) if (mark.start, mark.end) not in marked
            ]
        return marks

    def _verify_claims(self, sentence: Sentence, read: Sequence[Source]) -> list[Finding]:
        """Return findings for a cause that no source gives and for a comparison that the numbers contradict."""
        if sentence.heading or sentence.row:
            return []
        marks = []
        has_document = any(source.kind is MaterialKind.PASSAGE for source in read)
        # What cites a missing item alone says what there is not, and lists the nearest names that there are.
        tells_lack = all(source.kind is MaterialKind.MISSING for source in read)
        # Events that cite a document are checked only where their similarity to it is known.
        unknown = has_document and not self._labels.told
        for cause in find_causes(sentence, self._labels, unknown or tells_lack) if self._sources else ():
            words = sentence.text[slice(*cause)]
            similarity = self._labels.told.get(words)
            if has_document and similarity is None and find_cause(words) is None:
                continue
            # A list of names says nothing of a cause, whatever the classifier makes of names that it does not know.
            if not is_named_in(words, self._names) and (why := explain_missing_cause(words, read, similarity)):
                marks.append(self._make_finding(sentence, *cause, Verdict(False, FindingKind.EVENT, why)))
        check = self._choose_check(read)
        for false in check.find(sentence):
            marks.append(
                self._make_finding(sentence, false.start, false.end, Verdict(False, FindingKind.EVENT, false.why))
            )
        return marks

    def _choose_check(self, read: Sequence[Source]) -> ComparisonCheck:
        """Return the check of comparisons against some sources, or against all tables where these have none."""
        of_tables = [source for source in read if source.series]
        # A calculation is made from the tables of the run, and names neither their columns nor their days.
        if not of_tables and not any(source.kind is MaterialKind.PASSAGE for source in read):
            of_tables = [source for source in self._sources.values() if source.series]
        used = [*of_tables, *(source for source in read if not source.series)]
        # Answers cite the same few sources again and again.
        key = tuple(source.number for source in used)
        if key not in self._checks:
            self._checks[key] = ComparisonCheck(Tables(used, self._known), self._known)
        return self._checks[key]

    def _verify_table(self, cells: Sequence[Sentence]) -> list[Finding]:
        """Return the findings of a Markdown table, each at its cell.

        Differences and ratios of accepted numbers of the same row, and sums and means of those of the same column, need
        no source of their own.
        """
        marks: list[Finding] = []
        checked: list[tuple[Sentence, Number, Verdict]] = []
        for cell in cells:
            # Cells without a citation rest on anything that the run has found or computed.
            cited = [self._sources[number] for number in cell.cited if number in self._sources]
            read = cited or list(self._sources.values())
            dates = (self._verify_date(moment, cell, read, bool(cited)) for moment in cell.moments)
            marks += [mark for mark in dates if mark is not None]
            checked += [(cell, number, self._verify_cell_number(number, cell, read)) for number in cell.numbers]
        for cell, number, verdict in checked:
            if verdict.accepted or verdict.kind is FindingKind.EVENT:
                accepted = verdict.accepted
            else:
                held = [
                    (other, express_as_written(stated, done.held))
                    for other, stated, done in checked
                    if done.accepted and other is not cell
                ]
                row = [value for other, value in held if other.place[0] == cell.place[0]]
                column = [value for other, value in held if other.place[1] == cell.place[1]]
                accepted = is_derived(number, row) or is_total(number, column)
            if not accepted:
                marks.append(self._make_finding(cell, number.start, number.end, verdict))
        return marks

    def _verify_cell_number(self, number: Number, cell: Sentence, read: Sequence[Source]) -> Verdict:
        """Return the verdict of a cell's number, also in the unit that its column's header states."""
        verdicts = [self._verify_number(variant, cell, read) for variant in list_units(number, cell.column_header)]
        return next((verdict for verdict in verdicts if verdict.accepted), verdicts[-1])

    def _make_finding(self, sentence: Sentence, start: int, end: int, verdict: Verdict) -> Finding:
        place = (sentence.start + start, sentence.start + end)
        return Finding(*place, verdict.kind, sentence.text[start:end], verdict.detail, sentence.cited, verdict.found_in)

    def _verify_number(
        self, number: Number, sentence: Sentence, read: Sequence[Source], before: Sentence | None = None
    ) -> Verdict:
        if self._is_exempt(number, sentence):
            return Verdict(True, held=number.value)
        times = find_times(sentence)
        found = [match for source in read for match in find_matches(number, source, self._known)]
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
        named = self._choose_check(read).tables.find_series(sentence.text)
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
        if any(compare_numbers(number, held) is not None for held in self._asked.numbers):
            return True
        dates = complete_moments(sentence.text, sentence.moments)
        if any(moment.start <= number.start < moment.stop for moment in dates):
            return True  # checked as a date
        named = (source.about for source in self._sources.values() if source.kind is not MaterialKind.PASSAGE)
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
        others = [source for source in self._sources.values() if source not in read]
        holding = tuple(source.number for source in others if find_matches(number, source, self._known))
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
        of_subject = [m for m in found if not subjects or not m.entities or m.entities & subjects]
        if not of_subject:
            owner = ", ".join(sorted({entity for match in found for entity in match.entities}))
            return Verdict(False, FindingKind.EVENT, f"this is the value of {owner}", collect_sources(found))
        in_time = [match for match in of_subject if self._is_timely(match, number, sentence, times)]
        if not in_time:
            days = sorted({moment.text for match in of_subject for moment in match.moments})
            return Verdict(
                False, FindingKind.TIME, f"this is the value of {', '.join(days[:3])}", collect_sources(of_subject)
            )
        way = 0 if number.signed else find_direction(sentence.text, number.start)
        if way and all(is_contrary(way, match) for match in in_time):
            return Verdict(
                False, FindingKind.EVENT, "the material has it in the other direction", collect_sources(in_time)
            )
        return Verdict(True, held=in_time[0].value)

    def _find_subjects(self, number: Number, sentence: Sentence) -> frozenset[str]:
        """Return the entities that a number may belong to: the one of its clause, else all of the sentence."""
        cuts = [0, *(match.end() for match in CLAUSE.finditer(sentence.text)), len(sentence.text)]
        start = max(cut for cut in cuts if cut <= number.start)
        end = min(cut for cut in cuts if cut > number.start)
        # "of the two shares about 47% against about 44%": the other one is not named.
        if OF_THEM.search(sentence.text):
            return frozenset()
        clause = find_mentions(sentence.text[start:end], self._known)
        # Two entities in one clause: the number may be of either.
        if len(clause) == 1:
            return frozenset(clause)
        mentioned = find_mentions(sentence.text, self._known)
        for header in (sentence.row_header, sentence.column_header):
            mentioned = mentioned or find_mentions(header, self._known)
        return frozenset(mentioned)

    def _is_timely(self, match: Match, number: Number, sentence: Sentence, times: Sequence[Moment]) -> bool:
        """Return whether an occurrence is of a named period; occurrences in passages always are."""
        # The dates of passages are checked on their own.
        if not match.moments or not times or self._sources[match.source].kind is MaterialKind.PASSAGE:
            return True
        bound = [m for m in times if m.start >= number.end and BOUND.match(sentence.text[number.end : m.start])]
        nearest = min((moment.start for moment in bound), default=0)
        wanted = [moment for moment in bound if moment.start == nearest] or list(times)
        if not bound and BASE.search(sentence.text[: number.start]):
            # "in April, from 151 to 130": the first value is of the time before.
            pairs = [(moment, held) for moment in wanted for held in match.moments]
            return any(m.meets(held) or (m.first or date.min) >= (held.last or date.min) for m, held in pairs)
        return any(moment.meets(held) for moment in wanted for held in match.moments)

    def _verify_date(self, moment: Moment, sentence: Sentence, read: Sequence[Source], cited: bool) -> Finding | None:
        if any(is_confirmed(held, moment) for held in self._asked.moments):
            return None
        if any(is_confirmed(held, moment) for source in read for held in source.moments):
            return None
        if any(source.partial for source in read):
            return None
        year = [number for number in sentence.numbers if number.start == moment.start and len(moment.text) == 4]
        if year and any(find_matches(year[0], source, self._known) for source in read):
            return None
        others = [source for source in self._sources.values() if source not in read]
        holding = tuple(s.number for s in others if any(is_confirmed(held, moment) for held in s.moments))
        if not self._sources:
            return self._make_finding(
                sentence, moment.start, moment.stop, Verdict(False, FindingKind.UNSUPPORTED, "no material holds it")
            )
        detail = (
            f"the cited material has no such date, but {format_numbers(holding)} does"
            if holding
            else "no material has this date"
        )
        kind = FindingKind.TIME if cited else FindingKind.UNSUPPORTED
        # The date is true; that the sentence cites nothing is reported elsewhere.
        if not cited and holding:
            return None
        return self._make_finding(sentence, moment.start, moment.stop, Verdict(False, kind, detail, holding))

    def _is_name(self, word: str) -> bool:
        """Return whether some material capitalises the word inside a sentence."""
        inner = re.compile(rf"(?<=[a-z,] ){re.escape(word)}(?![a-z])")
        return any(inner.search(line.text) for source in self._sources.values() for line in source.lines)

    def _verify_events(self, sentence: Sentence, cited: Sequence[Source], passages: Sequence[Source]) -> list[Finding]:
        """Return findings for names absent from the cited material and for contradicted statements."""
        marks = []
        corpus = "\n".join([self._asked.text.lower(), *(self._corpus[source.number] for source in cited)])
        for match in find_names(sentence.text, sentence.heading, self._is_name):
            if is_unknown_name(match.group(), corpus):
                others = tuple(n for n, text in self._corpus.items() if not is_unknown_name(match.group(), text))
                detail = f"{match.group()!r} does not occur in the cited material"
                marks.append(
                    self._make_finding(
                        sentence, match.start(), match.end(), Verdict(False, FindingKind.EVENT, detail, others)
                    )
                )
        why = find_contradiction(sentence.text, passages)
        if why:
            stripped = sentence.text.rstrip()
            start = len(sentence.text) - len(sentence.text.lstrip())
            marks.append(self._make_finding(sentence, start, len(stripped), Verdict(False, FindingKind.EVENT, why)))
        lines = [line for source in passages for line in source.lines]
        # The weakest sign and the most expensive to compute: only when nothing else was found.
        other = find_exchanged_word(sentence.text, lines, corpus) if not marks else None
        if other is not None:
            word, held = other
            detail = f"the text says {word.group()!r}, the material {held!r}"
            marks.append(
                self._make_finding(sentence, word.start(), word.end(), Verdict(False, FindingKind.EVENT, detail))
            )
        return marks


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


def list_units(number: Number, header: str) -> list[Number]:
    """Return the number in the unit that a column's header states, such as "%" or "USD bn", and as it stands."""
    scale = find_unit_scale(header)
    if number.kind or number.scaled:
        return [number]
    if any(mark in header.lower() for mark in PERCENT_MARKS):
        return [replace(number, kind="%"), number]
    if scale != 1.0:
        scaled = replace(number, value=number.value * scale, tolerance=number.tolerance * scale, scaled=True)
        return [scaled, number]
    return [number]


def express_as_written(number: Number, held: float) -> float:
    """Return a value of the material in the unit of the text: 8.06 % for a fraction of 0.0806."""
    for factor in (1.0, 100.0, 1e4):
        for value in (held * factor, -held * factor):
            if is_close(value, [(number.value, number.tolerance)]):
                return value
    return number.value


def lacks_points(number: Number, shares: Sequence[float]) -> bool:
    """Return whether a number in percent is a difference of two percentages, which is one in percentage points."""
    if number.kind != "%" or number.is_difference:
        return False
    differences = [abs(left - right) for left in shares for right in shares if left != right]
    return any(is_close(value, [(abs(number.value), number.tolerance)]) for value in differences)


def is_total(number: Number, values: Sequence[float]) -> bool:
    """Return whether the number is the sum or the mean of at least two values."""
    if len(values) < 2:
        return False
    made = [sum(values), sum(values) / len(values)]
    return any(is_close(value, number.candidates()) for value in made)


def format_numbers(numbers: Sequence[int]) -> str:
    """Format numbers as "[1], [2]"."""
    return ", ".join(f"[{number}]" for number in numbers)


def collect_sources(found: Sequence[Match]) -> tuple[int, ...]:
    return tuple(sorted({match.source for match in found}))


def is_confirmed(held: Moment, said: Moment) -> bool:
    """Return whether a period of the material confirms one of the text by lying within it."""
    if said.month_day is not None:
        return said.meets(held) and (held.month_day is not None or held.first == held.last)
    if held.first is None or held.last is None or said.first is None or said.last is None:
        return False
    return said.first <= held.first and held.last <= said.last


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


def is_derived(number: Number, values: Sequence[float]) -> bool:
    """Return whether the number is the difference, sum, ratio or change of two other values."""
    for left in values:
        for right in values:
            if left == right:
                continue
            made = [abs(left - right), left + right]
            if right and not number.is_difference:
                made += [left / right, abs(left / right - 1) * (100 if number.kind == "%" else 1)]
            # Basis points are hundredths of the percentages that they part.
            wanted = number.candidates()[1:] if number.kind == "bp" else [(number.value, number.tolerance)]
            if any(is_close(value, [(abs(said), slack) for said, slack in wanted]) for value in made):
                return True
    return False
