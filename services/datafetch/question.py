"""A question becomes a typed query. What is not understood is said; nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise

from services.datafetch import cues, grammar
from services.datafetch.asked import Asked, parse_rate
from services.datafetch.entities import Found, Resolver
from services.datafetch.indicators import Matcher
from services.datafetch.leftovers import Leftovers, Understanding
from services.datafetch.model import Basis, Match, Missing, Query, Transform
from services.datafetch.periods import Period, in_fiscal
from services.datafetch.readings import number
from services.datafetch.semantic.layer import PARTICLES, Layer
from services.datafetch.semantic.names import Mention
from services.datafetch.semantic.schema import EntitySpec
from services.datafetch.semantic.text import blank, plain
from services.datafetch.units import find_unit

RANKED = re.compile(
    r"(?P<way>最高|最大|最多|最低|最小|最少|排名前|前|top|highest|largest|biggest|lowest|smallest)\s*(?:的)?(?P<n>\d{1,3}|[一二三四五六七八九十]{1,2}|ten|five|three)?"
    r"\s*(?:家|名|位|只|个)?(?:的)?\s*(?P<kind>上市公司|公司|企业|股票|个股|stocks?|companies|company|currencies)",
    re.I | re.A,
)


class Reader:
    """Reads questions against one layer."""

    def __init__(self, layer: Layer, matcher: Matcher, latest: Callable[[Sequence[str], Sequence[str]], date]) -> None:
        self._layer, self._matcher, self._latest = layer, matcher, latest
        self._resolver = Resolver(layer)
        self._left, self._asked = Leftovers(layer, matcher, self._resolver), Asked(layer)

    @property
    def resolver(self) -> Resolver:
        return self._resolver

    def read(self, question: str, as_of: date | None) -> Understanding:
        """The typed query of a question of 1 to 2,000 characters."""
        seen = Understanding()
        shown = re.sub(r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", "", plain(question))
        unit, rest = self._unit(shown)
        found, rest = self._entities(rest, seen)
        mentions = self._layer.loose_names.find_loosely(rest, PARTICLES)
        mentions = [m for m in mentions if not self._is_period(rest, m)]
        rest = blank(rest, [(m.start, m.end) for m in mentions])
        if not found:
            unperiod = blank(rest, grammar.read(rest, as_of or date.today()).spans)
            found = self._taken(self._resolver.approximate(unperiod), seen)
            rest = blank(rest, [(item.start, item.end) for item in found])
        entities = list(dict.fromkeys(item.ids[0] for item in found))
        ranking = self._ranking(shown, entities)
        if ranking:
            rest = blank(rest, [ranking.span()])
        kinds = {self._layer.entities[ident].kind for ident in entities} or ({"stock"} if ranking else set())
        chosen = [(mention, self._choose(mention, kinds, seen)) for mention in mentions]
        specific = [name for _, name in chosen if name and not self._layer.indicators[name].default]
        if specific and not entities:
            chosen = [(mention, name) for mention, name in chosen if name in specific]
        mentions, names = [m for m, name in chosen if name], [name for _, name in chosen if name]
        anchor = as_of or self._latest(entities, names)
        reading = grammar.read(blank(rest, [m.span() for m in cues.AGAINST.finditer(rest)]), anchor)
        rest = blank(rest, reading.spans)
        for text in reading.impossible:
            seen.missing.append(
                Missing(text, "NO_DATA_IN_PERIOD", f"there is no such day, month or quarter as {text!r}", period=text)
            )
        names = [self._asked.twin(name, shown) for name in names]
        rest = blank(rest, [*cues.spoken(rest), *(m.span() for m in cues.GROWTH.finditer(rest))])
        self._left.read(rest, found, mentions, names, kinds, shown, seen)
        entities = list(dict.fromkeys(item.ids[0] for item in found))
        if entities and not names and not seen.unmatched:
            names = self._defaults(kinds)
        elif names and mentions and not seen.unmatched:
            # Of "the unemployment rate and the S&P 500" the second asks for what its kind is known by.
            covered = {kind for name in names for kind in self._layer.indicators[name].kinds} | {"economy"}
            names = [*names, *self._defaults(kinds - covered)]
        names, mentions = self._asked.shares(shown, mentions, names)
        indicators, transform = self._asked.growth(shown, mentions, names, reading.transform)
        transform, indicators = self._asked.offset(transform, indicators, reading)
        indicators = self._asked.parts(shown, list(dict.fromkeys(indicators)))
        if self._asked.is_cross(shown, entities, indicators):
            unit = ""
            one = [
                ident
                for item in seen.matches
                for ident in (item.id,)
                if re.search(rf"(?:一|1|\bone)\s*{re.escape(item.surface)}", shown)
            ]
            if one[:1] == entities[:1] if one else not re.search(r"\bper\b|每", shown):
                entities.reverse()  # "USD/JPY" and "美元兑日元" are yen for one dollar.
        period = self._period(reading.whole, entities)
        if transform == Transform.TTM and reading.whole.relative:
            transform = Transform.NONE
        statistics = () if transform or ranking else self._asked.statistics(shown, mentions, indicators, reading)
        if (unit == "fraction" or statistics) and parse_rate(unit):
            unit = ""
        seen.query = Query(
            tuple(entities),
            tuple(dict.fromkeys(indicators)),
            period.start,
            period.end,
            self._asked.frequency(period, indicators, transform) or self._asked.density(shown, statistics),
            transform=transform,
            unit=unit,
            statistics=statistics,
            combination=self._asked.combination(shown, entities, indicators),
            periods=apart(reading.periods, period),
            basis=Basis.FISCAL if period.fiscal else Basis.CALENDAR,
        )
        if ranking and not entities and names:
            seen.query = ranked(seen.query, ranking, names[0])
        if reading.impossible:
            seen.query = Query(seen.query.entities, ())
        return seen

    def _unit(self, text: str) -> tuple[str, str]:
        found = find_unit(text)
        return (found[0], blank(text, [found[1]])) if found else ("", text)

    def _entities(self, text: str, seen: Understanding) -> tuple[list[Found], str]:
        """The entities, and the text without them. Names of indicators win over names of entities inside them."""
        found = self._resolver.exact(text)
        inside = self._layer.indicator_names.find(text)
        found = [
            item
            for item in found
            if not any(
                m.start <= item.start and item.end <= m.end and m.end - m.start > item.end - item.start for m in inside
            )
        ]
        kept = self._taken(found, seen)
        return kept, blank(text, [(item.start, item.end) for item in kept])

    def _taken(self, found: Sequence[Found], seen: Understanding) -> list[Found]:
        """What is taken as meant; ambiguity is noted, and slips of the pen that could be several names are not taken."""
        kept = []
        for item in found:
            if item.ambiguous and item.how == "typo":
                seen.missing.append(self._candidates(item))
                continue
            kept.append(item)
            seen.matches.append(Match(item.surface, item.ids[0], item.score, item.how, item.ids[1:6]))
            if item.ambiguous:
                seen.missing.append(self._candidates(item, taken=True))
        return kept

    def _candidates(self, item: Found, *, taken: bool = False) -> Missing:
        names = tuple(f"{self._layer.entities[ident].name} ({ident})" for ident in item.ids[:5])
        detail = f"{item.surface!r} can be {', '.join(names)}" + (
            f"; {names[0]} was taken" if taken else "; say which is meant"
        )
        return Missing(item.surface, "UNKNOWN_ENTITY", detail, aspect="ambiguous name", nearest=names)

    def _is_period(self, text: str, mention: Mention) -> bool:
        return mention.surface.isdecimal()

    def _choose(self, mention: Mention, kinds: set[str], seen: Understanding) -> str:
        """Of several indicators of one name the one that the entities have."""
        specs = [self._layer.indicators[ident] for ident in mention.ids]
        if specs[0].default and kinds and not kinds & set(specs[0].kinds):
            # "Trend", "rise" and the like are no wish for a price where there is none.
            return ""
        fitting = [spec for spec in specs if kinds & set(spec.kinds)] or specs
        others = tuple(spec.id for spec in specs if spec is not fitting[0])
        seen.matches.append(Match(mention.surface, fitting[0].id, 1.0, "exact", others[:5]))
        return fitting[0].id

    def _ranking(self, text: str, entities: Sequence[str]) -> re.Match[str] | None:
        return None if entities else RANKED.search(text)

    def _defaults(self, kinds: set[str]) -> list[str]:
        """A name alone asks for what its kind is known by."""
        return [spec.id for spec in self._layer.indicators.values() if spec.default and kinds & set(spec.kinds)]

    def _period(self, period: Period, entities: Sequence[str]) -> Period:
        first: EntitySpec | None = self._layer.entities[entities[0]] if entities else None
        return in_fiscal(period, self._layer.calendar(first))


def apart(periods: Sequence[Period], whole: Period) -> tuple[tuple[date, date], ...]:
    """Periods named one by one, when they leave something out of the whole: "2021 against 2019" is two years."""
    named = sorted((p.start, p.end) for p in periods if p.start and p.end and not p.fiscal and p.start != p.end)
    if len(named) < 2 or len(named) != len(periods) or whole.fiscal:
        return ()
    gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
    return tuple(named) if gaps else ()


def ranked(query: Query, match: re.Match[str], indicator: str) -> Query:
    """The query over all entities of a kind, ordered."""
    way, count = match["way"].lower(), match["n"]
    kind = "currency" if match["kind"].lower().startswith("currenc") else "stock"
    descending = way not in ("最低", "最小", "最少", "lowest", "smallest")
    return replace(query, kind=kind, order=indicator, descending=descending, limit=(number(count) or 1) if count else 1)
