"""Rule-based parser from a natural-language question to a typed query; tokens it cannot parse are reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise

from fathom.domain.chat.negation import find_denials, find_exclusions
from fathom.services.datafetch.catalog.layer import PARTICLES, Layer
from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.catalog.text import blank, plain
from fathom.services.datafetch.parser.acceptance import find_objections, join_adjacent
from fathom.services.datafetch.parser.collection import collect_mentions
from fathom.services.datafetch.parser.indicators.matching import Matcher
from fathom.services.datafetch.parser.mention import Mention, MentionKind, move_positions
from fathom.services.datafetch.parser.names.entities import Resolver
from fathom.services.datafetch.parser.names.mentions import Draft, Drafter
from fathom.services.datafetch.parser.names.unmatched import Leftovers, Understanding, not_understood
from fathom.services.datafetch.parser.operators import conditions, cue_words, rankings
from fathom.services.datafetch.parser.operators import grouping as groups
from fathom.services.datafetch.parser.operators.changes import Changes
from fathom.services.datafetch.parser.operators.extraction import VALUES, Asked, parse_rate
from fathom.services.datafetch.parser.selection import Selection
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Basis, Missing, Query, Statistic, Transform
from fathom.services.datafetch.query.periods import Period, in_fiscal

STEP_MONTHS = {Transform.YOY: 12, Transform.QOQ: 3, Transform.MOM: 1}
# A query is a conjunction over single values and one range of time, so neither can be written in it.
INEXPRESSIBLE = "no query here can leave something out or deny a comparison for a whole period"
# Statistics that people compare between two periods without saying "each": one over both would be no answer.
EACH_PERIOD = {Statistic.LAST, Statistic.RETURN, Statistic.SUM, Statistic.MEAN, Statistic.CHANGE}
# The catalog's main currencies, to split pairs written as one word: EURUSD.
CODES = "eur|usd|jpy|gbp|cny|hkd|chf|aud|cad|nzd|krw|sgd|sek|nok|mxn|inr|brl|try|zar|thb"
# "EURUSD", "eur-usd". With a slash on either side it is split already.
PAIR = re.compile(rf"(?<![\w/])({CODES})[ -]?({CODES})(?![\w/])", re.I | re.A)
TO = re.compile(r"\b(\w+)-to-(\w+)\b")
# Words that put an economy's figure beside a company's on purpose: "Apple and the CPI", 与, "against".
TOGETHER = re.compile(r"和|与|、|及|对比|比较|相比|,|，|\b(?:and|versus|vs|against|compare[ds]?|with)\b", re.I | re.A)


class Reader:
    """A question parser for one semantic layer."""

    def __init__(self, layer: Layer, matcher: Matcher, latest: Callable[[Sequence[str], Sequence[str]], date]) -> None:
        self._layer, self._latest = layer, latest
        self._resolver = Resolver(layer)
        self._left, self._asked = Leftovers(layer, matcher, self._resolver), Asked(layer)
        self._changes = Changes(layer)
        self._selection = Selection(layer, self._asked)
        self._drafter = Drafter(layer, matcher, self._resolver, self._asked)

    @property
    def resolver(self) -> Resolver:
        return self._resolver

    def read(self, question: str, as_of: date | None) -> Understanding:
        """Parse a question of 1 to 2,000 characters into a typed query with its matches and missing items.

        ``as_of`` anchors relative periods ("last year"); without it the last day with data for the parsed entities and
        indicators does. A question with an exclusion or a negated comparison yields an empty query and one missing item
        per phrase.
        """
        seen = Understanding()
        # Blanks between Chinese characters are typing, not word limits, and would cut names in two.
        shown = paired(re.sub(r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", "", plain(question)))
        shown = TO.sub(self._apart, shown)
        normal = shown
        # Conditions are read and blanked first: their numbers and words of periods must not become periods of the
        # query.
        asked = conditions.find(shown)
        refused = self._inexpressible(shown, blank(shown, asked.spans) if asked else shown)
        shown = blank(shown, [*(asked.spans if asked else ()), *refused])
        words = shown
        # "The last day of March" must not be parsed as a period of one trading day.
        shown = cue_words.LAST_DAY.sub(
            lambda m: "\0" * len(m[0]), cue_words.FIRST_DAY.sub(lambda m: "\0" * len(m[0]), shown)
        )
        # Before names and periods: "worst month" holds the word of a period and a superlative.
        grouping = groups.find(shown)
        shown = blank(shown, [grouping.span]) if grouping else shown
        # Names before periods, as the data of the names anchor relative periods ("last quarter").
        draft = self._drafter.draft(shown, as_of, seen, asked.kind if asked else "")
        draft.conditions, draft.grouping, draft.asked = asked, grouping, words
        reading = self._timed(draft, as_of, seen)
        self._left.read(draft.rest, draft.found, draft.mentions, draft.names, draft.kinds, draft.shown, seen)
        self._completed(draft, seen)
        seen.query = self._query(draft, reading, seen)
        defaults = frozenset(spec.id for spec in self._layer.indicators.values() if spec.default)
        found = collect_mentions(blank(normal, refused), draft, reading, seen.matches, defaults)
        self._accept(normal, found, seen)
        found += [Mention(MentionKind.UNKNOWN, *span, "", 0.0) for span in refused]
        seen.mentions = move_positions(sorted(found, key=lambda item: item.start), normal, question)
        if refused:
            # Answering only the rest would answer the opposite, so nothing is fetched.
            missing = [not_understood(normal[slice(*span)], INEXPRESSIBLE) for span in refused]
            return Understanding(missing=missing, mentions=seen.mentions)
        return seen

    def _accept(self, text: str, mentions: Sequence[Mention], seen: Understanding) -> None:
        """Report the words that the query leaves out; empty it when one of them changes what is asked."""
        if not seen.query.indicators:
            return
        # A word is reported once, by the more specific item.
        told = " ".join(f"{item.subject} {item.aspect}" for item in seen.missing)
        for objection in join_adjacent(text, find_objections(text, mentions, seen.query, self._layer)):
            words = text[objection.start : objection.end]
            if words not in told:
                seen.missing.append(not_understood(words, objection.reason))
                if objection.decisive:
                    seen.query = Query()

    def _inexpressible(self, shown: str, rest: str) -> list[tuple[int, int]]:
        """Return the spans of phrases that exclude something or negate a comparison, which no query can express.

        Phrases inside the names of entities and indicators do not count.
        """
        known = [*self._layer.loose_names.find_loosely(shown, PARTICLES), *self._layer.entity_names.find(shown)]
        # "Core CPI excluding food" is the name of an indicator.
        within = [(m.start, m.end) for m in known] + [m.span() for m in cue_words.UNADJUSTED.finditer(shown)]
        spans = [*find_exclusions(shown), *find_denials(rest)]
        return [
            (start, start + len(shown[start:end].rstrip()))
            for start, end in sorted(spans)
            # 英伟达以外 begins with a name and extends beyond it: the name itself is excluded.
            if not any(first < start < last or (first <= start and end <= last) for first, last in within)
        ]

    def _apart(self, match: re.Match[str]) -> str:
        """Split "gold-to-oil ratio" into "gold to oil" when both words are entities.

        Keep other hyphenated names such as "price-to-earnings".
        """
        names = self._layer.entity_names
        return f"{match[1]} to {match[2]}" if names.find_all(match[1]) and names.find_all(match[2]) else match[0]

    def _timed(self, draft: Draft, as_of: date | None, seen: Understanding) -> expressions.Reading:
        """Parse the periods relative to ``as_of`` or the last day with data, and blank their spans in ``draft.rest``.

        Impossible dates such as "31 February" are reported as missing items. Phrases of comparison, statistics and
        growth are blanked too.
        """
        # The last day with data, not the clock: bundled series end years ago, and "last year" would be empty.
        anchor = as_of or self._latest(draft.entities, draft.names)
        rest = draft.rest
        transform, words = expressions.transform_of(rest)
        # "12-month change" describes a measure, not a period.
        measures = words if transform in STEP_MONTHS else []
        reading = expressions.read(
            blank(
                rest,
                [
                    *measures,
                    *(m.span() for m in cue_words.AGAINST.finditer(rest)),
                    *(m.span() for m in cue_words.WINDOW.finditer(draft.shown)),
                ],
            ),
            anchor,
        )
        reading = replace(reading, transform=transform)
        # Words of growth are blanked with the periods, so that they are not reported as unknown names.
        rest = blank(rest, [*reading.spans, *words])
        draft.rest = blank(rest, [*cue_words.spoken(rest), *(m.span() for m in cue_words.GROWTH.finditer(rest))])
        for text, said in reading.impossible.items():
            seen.missing.append(Missing(text, "NO_DATA_IN_PERIOD", said, period=text))
        return reading

    def _completed(self, draft: Draft, seen: Understanding) -> None:
        """Add default indicators of entities named without one, and drop indicators that do not apply."""
        # With words that no indicator fits a default figure would answer another question.
        if seen.unmatched:
            return
        if (draft.entities or draft.ranking) and not draft.names:
            draft.names = self._defaults(draft.kinds)
        elif self._foreign(draft):
            owner, names = draft.found[0], [self._layer.indicators[name].name for name in draft.names]
            said = f"{', '.join(names)} is kept for economies, not for {self._layer.entities[owner.ids[0]].name}"
            seen.missing.append(Missing(owner.surface, "NO_MATCH", said, aspect=draft.names[0]))
            draft.names, draft.mentions = [], []
        elif draft.names and draft.mentions:
            # An entity whose kind has none of the named indicators still gets its default, beside those of the others.
            covered = {kind for name in draft.names for kind in self._layer.indicators[name].kinds} | {"economy"}
            draft.names = [*draft.names, *self._defaults(draft.kinds - covered)]

    def _foreign(self, draft: Draft) -> bool:
        """Return whether all indicators belong to economies while all entities are something else."""
        # "Capacity utilization of Apple" must not be answered with the figure for the country.
        economy = {"economy"}
        owned = draft.names and all(set(self._layer.indicators[name].kinds) == economy for name in draft.names)
        return bool(
            owned
            and draft.found
            and draft.kinds
            and economy.isdisjoint(draft.kinds)
            and not TOGETHER.search(draft.shown)
        )

    def _query(self, draft: Draft, reading: expressions.Reading, seen: Understanding) -> Query:
        """Build the typed query from the draft and its periods."""
        shown, entities = draft.shown, draft.entities
        names, mentions = self._asked.shares(shown, draft.mentions, draft.names)
        spans = expressions.transform_of(shown)[1]
        asked = reading.transform
        if not asked and cue_words.ANNUAL_CHANGE.search(shown) and not self._changes.of_prices(names):
            asked = Transform.YOY
        # From here the order matters: each step sees the formulas that the one before has made of the indicators.
        names, transform = self._changes.bound(shown, mentions, names, asked, spans)
        indicators, transform = self._changes.growth(shown, mentions, names, transform)
        transform, indicators = self._changes.offset(transform, indicators, reading)
        indicators = self._asked.parts(shown, list(dict.fromkeys(indicators)))
        if transform != Transform.QOQ:
            indicators = self._changes.yearly(shown, indicators, reading)
        crossed = self._asked.is_cross(shown, entities, indicators)
        if crossed and self._turned(shown, entities, seen):
            entities = entities[::-1]
        transform = self._changes.stepped(shown, transform, indicators)
        # The words were read as the period up to today; the transform would sum a year before each of its dates.
        if transform == Transform.TTM and reading.whole.relative:
            transform = Transform.NONE
        ranking = draft.ranking
        # The superlative of a ranking is no maximum.
        said = blank(shown, [ranking.span]) if ranking else shown
        wanted = self._selection.wanted(
            said, mentions, indicators, reading, transform, draft.grouping, draft.conditions
        )
        statistics, every = wanted.statistics, wanted.every
        if ranking:
            # Only the default indicator (the price) is ranked by a statistic of its period; others are ranked by their
            # value.
            single = all(spec.default for spec in map(self._layer.indicators.get, indicators) if spec)
            statistics = rankings.statistics_of(shown, statistics, ranking) if single else ()
        period = self._period(reading.whole, entities)
        if transform in STEP_MONTHS:
            reading, period = self._later(reading, period, transform)
        if set(statistics) & {Statistic.RETURN, Statistic.CHANGE, Statistic.CAGR}:
            reading, period = self._selection.between(shown, reading, period)
            period = self._asked.ends(reading, period, indicators)
        combined = self._asked.combination(shown, entities, indicators)
        combined = self._selection.comparable(entities, indicators, combined, seen)
        unit = self._selection.in_points(shown, indicators, statistics) or draft.unit
        # "Revenue in million yuan and its growth": an amount's unit says nothing of a rate.
        is_growth = transform in STEP_MONTHS
        unit = "" if is_growth and not parse_rate(unit) else unit
        query = Query(
            tuple(entities),
            # Without indicators nothing is fetched: an answer for other dates than the impossible one would mislead.
            () if reading.impossible else tuple(dict.fromkeys(indicators)),
            period.start,
            period.end,
            self._asked.frequency(period, indicators, transform, combined)
            or self._asked.density(shown, mentions, statistics),
            transform=transform,
            # A unit converts the values below a statistic: "return in %" must not ask for prices in per cent.
            unit="" if crossed or (set(statistics) - {Statistic.CHANGE} - VALUES and parse_rate(unit)) else unit,
            currency="" if is_growth else draft.currency,
            statistics=statistics,
            combination=combined,
            periods=() if every else apart(reading.periods, period, shown, statistics),
            tail=0 if statistics else max((p.rows for p in reading.periods), default=0),
            basis=Basis.FISCAL if period.fiscal else Basis.CALENDAR,
            every=every,
            outer=wanted.outer,
            limit=wanted.count,
        )
        query = self._selection.newest(draft.asked, query, reading)
        if ranking and names and query.indicators:
            query = rankings.ranked(query, ranking, names[0], shown)
        return self._selection.conditioned(query, draft.conditions, seen) if draft.conditions else query

    def _later(
        self, reading: expressions.Reading, period: Period, transform: Transform
    ) -> tuple[expressions.Reading, Period]:
        """Keep the later of two periods that lie exactly one step of the transform apart.

        "Q4 against Q3: quarterly growth" asks for the growth of Q4; Q3 is only its base.
        """
        if len(reading.periods) != 2:
            return reading, period
        one, two = sorted(reading.periods, key=lambda item: item.start or date.min)
        # Fiscal periods are not shifted to calendar dates yet and cannot be compared.
        if one.end is None or two.end is None or one.grain != two.grain or one.fiscal:
            return reading, period
        months = (two.end.year - one.end.year) * 12 + two.end.month - one.end.month
        if months != STEP_MONTHS[transform]:
            return reading, period
        return replace(reading, periods=(two,)), two

    def _turned(self, shown: str, entities: Sequence[str], seen: Understanding) -> bool:
        """Return whether the first of two currencies is the one being priced.

        "USD/JPY" and "一美元兑多少日元" are yen per dollar.
        """
        # Without "one" the first currency is the one priced, unless "per" or 每 says that it prices the other.
        one = [item.id for item in seen.matches if re.search(rf"(?:一|1|\bone)\s*{re.escape(item.surface)}", shown)]
        return one[0] == entities[0] if one else not re.search(r"\bper\b|每(?!个?(?:交易|[日天周月季年]))", shown)

    def _defaults(self, kinds: set[str]) -> list[str]:
        """Return the ids of the default indicators of the given entity kinds."""
        return [spec.id for spec in self._layer.indicators.values() if spec.default and kinds & set(spec.kinds)]

    def _period(self, period: Period, entities: Sequence[str]) -> Period:
        first: EntitySpec | None = self._layer.entities[entities[0]] if entities else None
        return in_fiscal(period, self._layer.get_calendar(first))


def paired(text: str) -> str:
    """Split joined currency codes ("EURUSD" → "EUR/USD") and normalise "labour" to "labor", the catalog's spelling."""
    text = re.sub(r"\b([Ll])abour\b", r"\1abor", text)
    return PAIR.sub(lambda match: f"{match[1].upper()}/{match[2].upper()}", text)


def apart(
    periods: Sequence[Period], whole: Period, shown: str, statistics: Sequence[Statistic]
) -> tuple[tuple[date, date], ...]:
    """Return the ranges of periods listed one by one ("2021 against 2019"), or ``()`` when one range covers them all.

    Ranges are returned if there is a gap between them. Adjacent ones are returned only if a statistic is asked for
    each: the question says so ("respectively"), or all statistics are in ``EACH_PERIOD``.
    """
    named = sorted(
        # A single day is kept only if it was listed: otherwise it is the bound of a range.
        (p.start, p.end)
        for p in periods
        if p.start and p.end and not p.fiscal and (p.start != p.end or p.listed)
    )
    if len(named) < 2 or len(named) != len(periods) or whole.fiscal:
        return ()
    # Adjacent periods (2020 and 2021) are one range for a series, without a day lost between them.
    gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
    each = all(p.listed for p in periods) and (
        cue_words.SEVERALLY.search(shown) is not None or (bool(statistics) and set(statistics) <= EACH_PERIOD)
    )
    return tuple(named) if gaps or (statistics and each) else ()
