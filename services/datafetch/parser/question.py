"""Rule-based parser from a natural-language question to a typed query; words it cannot parse are reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from fathom.domain.chat.negation import find_denials, find_exclusions
from fathom.domain.text.numerals import NUMBER_WORDS, parse_number
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.resolving import Resolver
from fathom.services.datafetch.catalog.text import blank, plain
from fathom.services.datafetch.parser import lexicon, periods
from fathom.services.datafetch.parser.acceptance import find_objections
from fathom.services.datafetch.parser.builder import STEP_MONTHS, build_query
from fathom.services.datafetch.parser.draft import Draft, list_specs, report_not_understood
from fathom.services.datafetch.parser.leftovers import Leftovers
from fathom.services.datafetch.parser.mention import (
    Mention,
    MentionKind,
    Span,
    list_unread,
    move_positions,
    overlap,
    select,
)
from fathom.services.datafetch.parser.names import NameFinder
from fathom.services.datafetch.parser.operators import find_conditions
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Match, Missing, Query, Transform
from fathom.services.datafetch.query.periods import label
from fathom.services.datafetch.query.planner import report_no_series

# A query has all values of one range of time; programs choose among them.
INEXPRESSIBLE = "no query here leaves something out or chooses values by a comparison"
# "Thirty-year": a maturity or the length of a window, which the catalog spells with digits.
LENGTH_IN_WORDS = re.compile(rf"\b({'|'.join(NUMBER_WORDS)})-(year|month|week|day)\b", re.I)
# May be a code in small letters, "nvda", of a kind whose codes are no English words as those of funds ("size") are.
CODE, CODED = re.compile(r"\b[a-z]{3,5}\b", re.A), ("stock", "commodity", "index")
# Operators that are no names either, once the periods are read.
SPOKEN = ("against", "rounding", "latest", "combinations.spread", "rivals.return", "statistics", "densities", "growth")


@dataclass
class Understanding:
    """The result of parsing a question: query, matches, missing items and what each word means.

    ``relative_words`` are those of the periods that count from today, with their days.
    """

    query: Query = field(default_factory=Query)
    missing: list[Missing] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    relative_words: list[tuple[str, str]] = field(default_factory=list)


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
        self.resolver = Resolver(layer, lexicon.load_known_words())
        self._names = NameFinder(layer, self.resolver)
        # "EURUSD", "eur-usd". With a slash on either side it is split already.
        codes = "|".join(["eur", *(spec.id.lower() for spec in layer.entities.values() if spec.kind == "currency")])
        self._pair = re.compile(rf"(?<![\w/])({codes})[ /-]?({codes})(?![\w/])", re.I | re.A)

    def read(self, question: str, today: date | None) -> Understanding:
        """Parse a question of 1 to 2,000 characters into a typed query with its matches and missing items.

        ``today`` anchors relative periods ("last year"); without it, and for the newest value ("the latest month"), the
        last day with data for the parsed entities and indicators does. A question with an exclusion or a negated
        comparison yields an empty query and one missing item per phrase.
        """
        text = self._normalise(question)
        # Conditions first: their numbers and words of periods must not become periods of the query.
        conditions = find_conditions(text)
        excluded = self._find_inexpressible(text, blank(text, [item.span for item in conditions]))
        refused = [*(item.span for item in conditions), *excluded]
        asked = blank(text, refused)
        draft = Draft(self._layer, asked, conditions)
        self._names.find(draft, today)
        rest = self._find_periods(draft, today)
        Leftovers(draft, self._matcher, rest).read()
        named = [item for item in select(draft.mentions, MentionKind.ENTITY, MentionKind.INDICATOR) if item.end]
        matches = [Match(text[slice(*m.span)], m.value, m.confidence, m.how, m.others[:5]) for m in named]
        self._complete(draft)
        self._report_joined(draft)
        seen = Understanding(build_query(draft), draft.missing, matches)
        # An open end has no day that a reader could be told.
        days = [one for one in draft.reading.periods if one.relative and one.start and one.end]
        seen.relative_words = [(text[slice(*one.span)], label(one)) for one in days]
        found = lexicon.find_words(blank(text, excluded), draft.mentions)
        # A move needs two points in time, and "compared with the end of 2020" names one.
        lone = [period.span for period in draft.reading.periods if period.edge and len(draft.reading.periods) == 1]
        moves = lexicon.list_words("relations", "moves")
        if lone and any(item.value in moves for item in select(found, MentionKind.MEASURE)):
            found.append(Mention(MentionKind.CONDITION, *lone[0], "base"))
        self._accept(text, found, seen)
        # Positions are those of the words as they were typed, for a caller who marks them.
        read = sorted([*found, *list_unread(excluded)], key=lambda item: item.start)
        seen.mentions = move_positions(read, text, question)
        if refused:
            # Answering only the rest would answer the opposite, so nothing is fetched.
            missing = [report_not_understood(text[slice(*span)].strip(), INEXPRESSIBLE) for span in sorted(refused)]
            return Understanding(missing=missing, mentions=seen.mentions)
        return seen

    def _normalise(self, question: str) -> str:
        """Return the question in plain characters, with pairs of names split and spellings as in the catalog."""
        # Blanks between Chinese characters are typing, not word limits, and would cut names in two.
        text = re.sub(r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", "", plain(question))
        text = re.sub(r"\b([Ll])abour\b", r"\1abor", text)
        text = blank(text, list(self._find_imperatives(text))).replace("\0", " ")
        named = self._layer.indicator_names.find(text)
        for match in reversed(list(lexicon.cue("abbreviated_length").finditer(text))):
            # A name of the catalog may hold an abbreviation: "10y-2y".
            if not any(overlap(match.span(), (name.start, name.end)) for name in named):
                # "10yr" is "10-year", "2 yrs" are "2 years".
                unit, gap = match["unit"].lower(), match["gap"] or "-"
                length = ("year" if unit[0] == "y" else "month") + ("s" if unit[-1] == "s" and gap == " " else "")
                text = text[: match.start()] + match["n"] + gap + length + text[match.end() :]
        text = CODE.sub(self._raise_code, text)
        text = LENGTH_IN_WORDS.sub(lambda match: f"{parse_number(match[1])}-{match[2]}", text)
        return self._pair.sub(lambda match: f"{match[1].upper()}/{match[2].upper()}", text)

    def _raise_code(self, match: re.Match[str]) -> str:
        """Return a word in capitals if it is a code and no word."""
        spec = self._layer.entities.get(match[0].upper())
        return spec.id if spec and spec.kind in CODED and match[0] not in lexicon.load_vocabulary() else match[0]

    def _find_imperatives(self, text: str) -> Iterator[Span]:
        """Yield the verbs that begin sentences and mean nothing here: "Write a report" names no company."""
        for match in lexicon.cue("imperative").finditer(text):
            word = lexicon.group(match, "w")
            named = self._layer.entity_names.find(word) or self._layer.indicator_names.find(word)
            if not named and word.lower() not in lexicon.load_vocabulary():
                yield match.end() - len(word), match.end()

    def _find_inexpressible(self, text: str, rest: str) -> list[Span]:
        """Return the spans of phrases that exclude something or negate a comparison, which no query can express.

        Phrases inside the names of entities and indicators do not count: "core CPI excluding food" is a name.
        """
        known = [*self._layer.find_indicators(text), *self._layer.entity_names.find(text)]
        within = [*((m.start, m.end) for m in known), *lexicon.find_spans(["unadjusted"], text)]
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
        # Relative periods end where the data of what is asked do, not where those of anything do.
        last = self._latest(draft.entities, [item.value for item in draft.indicators])
        newest = min(today or last, last)
        rest = blank(draft.text, [item.span for item in draft.mentions])
        transform, words = periods.find_transform(rest)
        words = words or self._find_annual_rates(draft, rest)
        draft.transform = transform or (Transform.YOY if words else Transform.NONE)
        draft.mentions += [Mention(MentionKind.MEASURE, *span, str(draft.transform)) for span in words]
        # "12-month change" and "50-day moving average" describe measures, not periods.
        hidden = [*(words if draft.transform in STEP_MONTHS else ()), *lexicon.find_spans(["against"], rest)]
        hidden += lexicon.find_spans(["window"], draft.text)
        draft.reading = periods.read(blank(rest, hidden), today or last, newest)
        draft.mentions += draft.reading.list_mentions()
        impossible = draft.reading.impossible.items()
        draft.missing += [Missing(text, "NO_DATA_IN_PERIOD", said, period=text) for text, said in impossible]
        rest = blank(rest, [*draft.reading.spans, *words])
        return blank(rest, lexicon.find_spans(SPOKEN, rest))

    def _find_annual_rates(self, draft: Draft, rest: str) -> list[Span]:
        """Return the spans of lengths of a year right before a price index or a growth: "twelve-month CPI"."""
        specs = [(item, self._layer.indicators[item.value]) for item in draft.indicators]
        rates = [one for one, spec in specs if "=100" in spec.unit or formulas.classify_metric(spec) == "offset"]
        return [match.span() for one in rates if (match := lexicon.cue("year_ahead").search(rest[: one.start]))]

    def _complete(self, draft: Draft) -> None:
        """Add default indicators of entities named without one, and drop indicators that do not apply."""
        # With words that no indicator fits a default figure would answer another question.
        if any(item.reason == "UNKNOWN_INDICATOR" for item in draft.missing):
            return
        specs = list_specs([item.value for item in draft.indicators], draft.layer)
        # The kinds of entities that have the figures; one of another kind has no column of them.
        covered = {kind for spec in specs for kind in spec.kinds}
        # "Capacity utilization of Apple" asks for no price of Apple besides, nor does "the CPI of Apple and the US".
        if specs and (
            lexicon.is_shared(draft.text, draft.mentions)
            or (covered == {"economy"} and not lexicon.says("together", draft.text))
        ):
            return
        # An entity whose kind has none of the named indicators still gets its default, beside those of the others.
        kinds = draft.kinds - covered - ({"economy"} if specs else set())
        defaults = [spec for spec in self._layer.indicators.values() if spec.default and kinds & set(spec.kinds)]
        draft.mentions += [Mention(MentionKind.INDICATOR, 0, 0, spec.id) for spec in defaults]

    def _report_joined(self, draft: Draft) -> None:
        """Report economies that are asked of beside a company of theirs, and have none of the figures."""
        specs = list_specs([item.value for item in draft.indicators], draft.layer)
        homes = {draft.layer.entities[name].market for name in draft.entities}
        # An economy that is said of its company says where it is; of others the planner reports it.
        for item in lexicon.find_joined(draft.text, draft.mentions):
            entity = draft.layer.entities[item.value]
            if entity.id in homes and specs and not any(entity.kind in spec.kinds for spec in specs):
                draft.missing.append(report_no_series(entity, specs))

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
