"""Rule-based parser from a natural-language question to a typed query; words it cannot parse are reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from fathom.domain.chat.negation import find_denials, find_exclusions
from fathom.domain.text.numerals import NUMBER_WORDS, parse_number
from fathom.services.datafetch.catalog.layer import PARTICLES, Layer
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.text import blank, is_chinese, plain
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.parser.acceptance import find_objections, settle_measures
from fathom.services.datafetch.parser.builder import STEP_MONTHS, build_query
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.entities import Resolver
from fathom.services.datafetch.parser.leftovers import Leftovers
from fathom.services.datafetch.parser.lexicon import (
    CHINESE_RUN,
    cue,
    find_spans,
    find_words,
    group,
    list_words,
    load_vocabulary,
    says,
)
from fathom.services.datafetch.parser.mention import (
    Mention,
    MentionKind,
    Span,
    is_free,
    list_unread,
    move_positions,
    overlap,
    select,
)
from fathom.services.datafetch.parser.names import NameFinder
from fathom.services.datafetch.parser.operators import find_conditions, find_grouping
from fathom.services.datafetch.parser.rewording import Meanings, Speller, mark, reword
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Match, Missing, Query, Transform
from fathom.services.datafetch.query.periods import label

NOT_UNDERSTOOD = "NOT_UNDERSTOOD"
# Each unread word costs a pass of the encoder, and a text with more of them is no question: the names in a cell's code
# have a hundred, which took seconds of a caller that waits five.
MOST_UNREAD = 24
# A query is a conjunction over single values and one range of time, so neither can be written in it.
INEXPRESSIBLE = "no query here can leave something out or deny a comparison for a whole period"
# "Thirty-year": a maturity or the length of a window, which the catalog spells with digits.
LENGTH_IN_WORDS = re.compile(rf"\b({'|'.join(NUMBER_WORDS)})-(year|month|week|day)\b", re.I)
# Operators that are no names either, once the periods are read.
SPOKEN = ("against", "latest", "combinations.spread", "rivals.return", "statistics", "densities", "growth")


@dataclass
class Understanding:
    """The result of parsing a question: query, matches, missing items and what each word means.

    ``reworded`` are the matches of words that were read as others, ``relative_words`` those of the periods that count
    from today, with their days.
    """

    query: Query = field(default_factory=Query)
    missing: list[Missing] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    reworded: list[Match] = field(default_factory=list)
    relative_words: list[tuple[str, str]] = field(default_factory=list)

    @property
    def unread(self) -> list[Span]:
        """Return the spans of the words that have no meaning here."""
        return [item.span for item in select(self.mentions, MentionKind.UNKNOWN)]

    @property
    def has_rereadable_words(self) -> bool:
        """Return whether some words are unread, and few enough to be compared by meaning."""
        return 0 < len(self.unread) <= MOST_UNREAD

    def find_phrases(self, text: str) -> list[Span]:
        """Return what may name an indicator: phrases refused as one, and unread words without any other name."""
        subjects = [item.subject for item in self.missing if item.reason == "UNKNOWN_INDICATOR"]
        refused = [(at, at + len(words)) for words in subjects if (at := text.find(words)) >= 0]
        is_nameless = not self.query.entities and not self.query.indicators
        trimmed = [trim(phrase, self.mentions) for phrase in refused]
        return list(dict.fromkeys([*trimmed, *(self.unread if is_nameless else ())]))


class Reader:
    """A question parser for one semantic layer."""

    def __init__(
        self,
        layer: Layer,
        matcher: Matcher,
        latest: Callable[[Sequence[str], Sequence[str]], date],
    ) -> None:
        """Take the names, and the function that returns the last day of some series."""
        self._layer, self._matcher, self._latest = layer, matcher, latest
        self.resolver = Resolver(layer)
        self._names = NameFinder(layer, matcher, self.resolver)
        self._speller = Speller(layer)
        # "EURUSD", "eur-usd". With a slash on either side it is split already.
        codes = "|".join(["eur", *(spec.id.lower() for spec in layer.entities.values() if spec.kind == "currency")])
        self._pair = re.compile(rf"(?<![\w/])({codes})[ /-]?({codes})(?![\w/])", re.I | re.A)

    def read(self, question: str, today: date | None, meanings: Meanings | None = None) -> Understanding:
        """Parse a question of 1 to 2,000 characters into a typed query with its matches and missing items.

        ``today`` anchors relative periods ("last year"); without it, and for the newest value ("the latest month"), the
        last day with data for the parsed entities and indicators does. A question with an exclusion or a negated
        comparison yields an empty query and one missing item per phrase. Words that nothing took are read again as what
        they misspell and, with ``meanings`` and for at most ``MOST_UNREAD`` of them, as what they mean; ``matches``
        says so.
        """
        text = self._normalise(question)
        seen = self._read(text, today)
        text, seen = self._reread(text, seen, today, list(self._speller.find(text, seen.unread)))
        if meanings is not None and seen.has_rereadable_words:
            strange = [span for span in seen.unread if not self._speller.knows(text[slice(*span)])]
            changes = meanings.find(text, strange, seen.find_phrases(text))
            text, seen = self._reread(text, seen, today, changes)
        if meanings is not None:
            name_whole_words(seen, text, meanings.cut(text))
        seen.mentions = move_positions(seen.mentions, text, question)
        return seen

    def _reread(
        self, text: str, seen: Understanding, today: date | None, changes: Sequence[Mention]
    ) -> tuple[str, Understanding]:
        """Return the reworded text and its reading if that is better, else what was given."""
        words = self._normalise(reword(text, changes)) if changes else text
        again = self._read(words, today) if changes else seen
        said = [item for item in changes if item.value.strip()]
        if not self._is_better(again, seen, said):
            return text, seen
        reworded = [Match(text[slice(*item.span)], item.value, item.confidence, item.how) for item in said]
        again.reworded = [*seen.reworded, *reworded]
        again.matches = [*again.reworded, *again.matches]
        again.mentions = mark(again.mentions, changes)
        # What is missing is named by the words of the question.
        for own, meant in ((text[slice(*item.span)], item.value) for item in said):
            again.missing = [
                replace(one, subject=one.subject.replace(meant, own), detail=one.detail.replace(meant, own))
                for one in again.missing
            ]
        return words, again

    def _is_better(self, again: Understanding, seen: Understanding, said: Sequence[Mention]) -> bool:
        """Return whether a reading of changed words is to be taken: fewer words are unread, and nothing is guessed."""
        if len(again.unread) >= len(seen.unread) or (seen.query.indicators and not again.query.indicators):
            return False
        # What means a rate of the economy is none of Apple's figures: "risk-free" beside a Sharpe ratio.
        kinds = {self._layer.entities[item.value].kind for item in select(seen.mentions, MentionKind.ENTITY)}
        named, guessed = ({item.value for item in select(one.mentions, MentionKind.INDICATOR)} for one in (seen, again))
        if kinds and any(kinds.isdisjoint(self._layer.indicators[ident].kinds) for ident in guessed - named):
            return False
        # A guess does not make a name specific: of "goods shipped to Mexico" neither imports nor exports are said.
        if any(item.how == "words" for item in again.mentions) > any(item.how == "words" for item in seen.mentions):
            return False
        # "Orders" as the word for ranks, in a question that ranks nothing: what a word means must have a place in it.
        refused = [one.subject for one in again.missing if one.reason == NOT_UNDERSTOOD]
        return not any(item.value in subject for item in said for subject in refused)

    def _read(self, text: str, today: date | None) -> Understanding:
        """Parse a normalised question; positions are those of the text."""
        # Conditions first: their numbers and words of periods must not become periods of the query.
        mentions = find_conditions(text)
        refused = self._find_inexpressible(text, blank(text, [item.span for item in mentions]))
        asked = blank(text, [*(item.span for item in mentions), *refused])
        # Before names and periods: "worst month" holds the word of one.
        mentions += find_grouping(asked)
        draft = Draft(self._layer, asked, blank(asked, [item.span for item in mentions]), mentions)
        self._names.find(draft, today)
        rest = self._find_periods(draft, today)
        Leftovers(draft, self._matcher, rest).read()
        named = [item for item in select(draft.mentions, MentionKind.ENTITY, MentionKind.INDICATOR) if item.end]
        matches = [Match(text[slice(*m.span)], m.value, m.confidence, m.how, m.others[:5]) for m in named]
        self._complete(draft)
        seen = Understanding(build_query(draft), draft.missing, matches)
        # An open end has no day that a reader could be told.
        days = [one for one in draft.reading.periods if one.relative and one.start and one.end]
        seen.relative_words = [(text[slice(*one.span)], label(one)) for one in days]
        found = find_words(blank(text, refused), draft.mentions)
        # A move needs two points in time, and "compared with the end of 2020" names one.
        lone = [period.span for period in draft.reading.periods if period.edge and len(draft.reading.periods) == 1]
        if lone and any(item.value in list_words("relations", "moves") for item in select(found, MentionKind.MEASURE)):
            found.append(Mention(MentionKind.CONDITION, *lone[0], "base"))
        self._accept(text, found, seen)
        found = settle_measures(found, seen.query, self._layer)
        seen.mentions = sorted([*found, *list_unread(refused)], key=lambda item: item.start)
        if refused:
            # Answering only the rest would answer the opposite, so nothing is fetched.
            missing = [report_not_understood(text[slice(*span)], INEXPRESSIBLE) for span in refused]
            return Understanding(missing=missing, mentions=seen.mentions)
        return seen

    def _normalise(self, question: str) -> str:
        """Return the question in plain characters, with pairs of names split and spellings as in the catalog."""
        # Blanks between Chinese characters are typing, not word limits, and would cut names in two.
        text = re.sub(r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", "", plain(question))
        text = re.sub(r"\b([Ll])abour\b", r"\1abor", text)
        text = blank(text, list(self._find_imperatives(text))).replace("\0", " ")
        named = self._layer.indicator_names.find(text)
        for match in reversed(list(cue("abbreviated_length").finditer(text))):
            # A name of the catalog may hold an abbreviation: "10y-2y".
            if not any(overlap(match.span(), (name.start, name.end)) for name in named):
                # "10yr" is "10-year", "2 yrs" are "2 years".
                unit, gap = match["unit"].lower(), match["gap"] or "-"
                length = ("year" if unit[0] == "y" else "month") + ("s" if unit[-1] == "s" and gap == " " else "")
                text = text[: match.start()] + match["n"] + gap + length + text[match.end() :]
        text = LENGTH_IN_WORDS.sub(lambda match: f"{parse_number(match[1])}-{match[2]}", text)
        return self._pair.sub(lambda match: f"{match[1].upper()}/{match[2].upper()}", text)

    def _find_imperatives(self, text: str) -> Iterator[Span]:
        """Yield the verbs that begin sentences and mean nothing here: "Write a report" names no company."""
        for match in cue("imperative").finditer(text):
            word = group(match, "w")
            named = self._layer.entity_names.find(word) or self._layer.indicator_names.find(word)
            if not named and word.lower() not in load_vocabulary():
                yield match.end() - len(word), match.end()

    def _find_inexpressible(self, text: str, rest: str) -> list[Span]:
        """Return the spans of phrases that exclude something or negate a comparison, which no query can express.

        Phrases inside the names of entities and indicators do not count: "core CPI excluding food" is a name.
        """
        known = [*self._layer.loose_names.find_loosely(text, PARTICLES), *self._layer.entity_names.find(text)]
        within = [*((m.start, m.end) for m in known), *find_spans(["unadjusted"], text)]
        return [
            (start, start + len(text[start:end].rstrip()))
            for start, end in sorted([*find_exclusions(text), *find_denials(rest)])
            # 英伟达以外 begins with a name and extends beyond it: the name itself is excluded.
            if not any(first < start < last or (first <= start and end <= last) for first, last in within)
        ]

    def _find_periods(self, draft: Draft, today: date | None) -> str:
        """Add the periods, relative to ``today`` or the last day with data; return the words that are left.

        Impossible dates such as "31 February" are reported as missing items.
        """
        last = self._latest(draft.entities, [item.value for item in draft.indicators])
        newest = min(today or last, last)
        rest = blank(draft.text, [item.span for item in draft.mentions])
        transform, words = periods.find_transform(rest)
        if not transform and (words := self._find_annual_rates(draft, rest)):
            transform = Transform.YOY
        draft.transform = transform
        draft.mentions += [Mention(MentionKind.MEASURE, *span, str(transform)) for span in words]
        # "12-month change" and "50-day moving average" describe measures, not periods.
        hidden = [*(words if transform in STEP_MONTHS else ()), *find_spans(["against"], rest)]
        hidden += find_spans(["window"], draft.text)
        draft.reading = periods.read(blank(rest, hidden), today or last, newest)
        draft.mentions += draft.reading.list_mentions()
        impossible = draft.reading.impossible.items()
        draft.missing += [Missing(text, "NO_DATA_IN_PERIOD", said, period=text) for text, said in impossible]
        rest = blank(rest, [*draft.reading.spans, *words])
        return blank(rest, find_spans(SPOKEN, rest))

    def _find_annual_rates(self, draft: Draft, rest: str) -> list[Span]:
        """Return the spans of lengths of a year right before a price index or a growth: "twelve-month CPI"."""
        specs = [(item, self._layer.indicators[item.value]) for item in draft.indicators]
        rates = [one for one, spec in specs if "=100" in spec.unit or formulas.classify_metric(spec) == "offset"]
        found = (cue("year_ahead").search(rest[: item.start]) for item in rates)
        return [match.span() for match in found if match]

    def _complete(self, draft: Draft) -> None:
        """Add default indicators of entities named without one, and drop indicators that do not apply."""
        # With words that no indicator fits a default figure would answer another question.
        if any(item.reason == "UNKNOWN_INDICATOR" for item in draft.missing):
            return
        specs, owners = draft.find_specs([item.value for item in draft.indicators]), draft.entities
        covered = {kind for spec in specs for kind in spec.kinds}
        is_foreign = specs and owners and covered == {"economy"} and "economy" not in draft.kinds
        if is_foreign and not says("together", draft.text):
            # "Capacity utilization of Apple" must not be answered with the figure for the country.
            owner, names = select(draft.mentions, MentionKind.ENTITY)[0], ", ".join(spec.name for spec in specs)
            said = f"{names} is kept for economies, not for {self._layer.entities[owner.value].name}"
            draft.missing.append(Missing(draft.text[slice(*owner.span)], "NO_MATCH", said, aspect=specs[0].id))
            draft.mentions = [item for item in draft.mentions if item.kind != MentionKind.INDICATOR]
            return
        # An entity whose kind has none of the named indicators still gets its default, beside those of the others.
        kinds = draft.kinds - covered - ({"economy"} if specs else set())
        defaults = [spec for spec in self._layer.indicators.values() if spec.default and kinds & set(spec.kinds)]
        draft.mentions += [Mention(MentionKind.INDICATOR, 0, 0, spec.id) for spec in defaults]

    def _accept(self, text: str, mentions: Sequence[Mention], seen: Understanding) -> None:
        """Report the words that the query leaves out; empty it when one of them changes what is asked."""
        # A word is reported once, by the more specific item.
        reported = " ".join(f"{item.subject} {item.aspect}" for item in seen.missing)
        query = seen.query
        for objection in find_objections(text, mentions, query, self._layer) if query.indicators else ():
            words = text[objection.start : objection.end]
            if words not in reported:
                seen.missing.append(report_not_understood(words, objection.reason))
                seen.query = Query() if objection.decisive else seen.query


def name_whole_words(seen: Understanding, text: str, words: Sequence[Span]) -> None:
    """Let unread Chinese characters be named with all of their word: 能力 for the 力 behind 盈利能.

    A single character of it that is a cue elsewhere is none in it: 成 in 成长.
    """
    known = [item for item in seen.mentions if item.kind != MentionKind.UNKNOWN and item.end - item.start != 1]
    wholes: dict[Span, Span] = {}
    for span in (one for one in seen.unread if is_chinese(text[slice(*one)])):
        spans = [span, *(word for word in words if overlap(word, span))]
        whole = (min(one[0] for one in spans), max(one[1] for one in spans))
        wholes[span] = whole if is_free(whole, known) and CHINESE_RUN.fullmatch(text, *whole) else span
    unread = list_unread(dict.fromkeys(wholes.get(span, span) for span in seen.unread))
    read = [item for item in seen.mentions if item.kind != MentionKind.UNKNOWN and is_free(item.span, unread)]
    seen.mentions = sorted([*read, *unread], key=lambda item: item.start)
    names = {text[slice(*span)]: text[slice(*whole)] for span, whole in wholes.items()}
    seen.missing = [replace(one, subject=names.get(one.subject, one.subject)) for one in seen.missing]


def trim(phrase: Span, mentions: Sequence[Mention]) -> Span:
    """Return a phrase without the words at its end that have a meaning of their own: 同比 in 医疗保健CPI同比."""
    start, end = phrase
    named = (MentionKind.INDICATOR, MentionKind.UNKNOWN)
    for item in sorted(mentions, key=lambda item: -item.end):
        if item.kind not in named and start < item.start and item.end == end:
            end = item.start
    return start, end


def report_not_understood(phrase: str, why: str) -> Missing:
    """Return a missing item for words of a question that the query does not express."""
    aspect = "未能理解" if is_chinese(phrase) else "not understood"
    return Missing(phrase, NOT_UNDERSTOOD, f"I do not understand {phrase!r} here: {why}", aspect=aspect)
