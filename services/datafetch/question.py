"""A question becomes a typed query. What is not understood is said; nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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

TOGETHER = re.compile(r"和|与|、|及|对比|比较|相比|,|，|\b(?:and|versus|vs|against|compare[ds]?|with)\b", re.I | re.A)


@dataclass
class Draft:
    """A question half read: ``rest`` is what nothing has explained yet, its known words as NUL characters."""

    shown: str
    rest: str
    unit: str
    found: list[Found]
    mentions: list[Mention]
    names: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    ranking: re.Match[str] | None = None

    @property
    def entities(self) -> list[str]:
        """Ids, once each."""
        return list(dict.fromkeys(item.ids[0] for item in self.found))


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
        draft = self._named(re.sub(r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", "", plain(question)), as_of, seen)
        reading = self._timed(draft, as_of, seen)
        self._left.read(draft.rest, draft.found, draft.mentions, draft.names, draft.kinds, draft.shown, seen)
        self._completed(draft, seen)
        seen.query = self._query(draft, reading, seen)
        return seen

    def _named(self, shown: str, as_of: date | None, seen: Understanding) -> Draft:
        """The unit, the entities and the indicators that a question names, each taken out of what is left."""
        unit, rest = self._unit(shown)
        found, rest = self._entities(rest, seen)
        mentions = [m for m in self._layer.loose_names.find_loosely(rest, PARTICLES) if not m.surface.isdecimal()]
        rest = blank(rest, [(m.start, m.end) for m in mentions])
        if not found:
            timeless = blank(rest, grammar.read(rest, as_of or date.today()).spans)
            found = self._taken(self._resolver.approximate(timeless), seen)
            rest = blank(rest, [(item.start, item.end) for item in found])
        draft = Draft(shown, rest, unit, found, mentions)
        draft.ranking = None if found else RANKED.search(shown)
        if draft.ranking:
            draft.rest = blank(rest, [draft.ranking.span()])
        draft.kinds = {self._layer.entities[ident].kind for ident in draft.entities}
        if draft.ranking:
            draft.kinds.add("stock")
        self._chosen(draft, seen)
        return draft

    def _chosen(self, draft: Draft, seen: Understanding) -> None:
        """An indicator for each mention; words like "rise" name a price only where nothing else is named."""
        chosen = [(mention, self._choose(mention, draft.kinds, seen)) for mention in draft.mentions]
        specific = [name for _, name in chosen if name and not self._layer.indicators[name].default]
        if specific and not draft.found:
            chosen = [(mention, name) for mention, name in chosen if name in specific]
        draft.mentions = [mention for mention, name in chosen if name]
        draft.names = [self._asked.twin(name, draft.shown) for _, name in chosen if name]

    def _timed(self, draft: Draft, as_of: date | None, seen: Understanding) -> grammar.Reading:
        """The periods, told from the last day with data; what they and other phrases cover is taken out."""
        anchor = as_of or self._latest(draft.entities, draft.names)
        rest = draft.rest
        reading = grammar.read(blank(rest, [m.span() for m in cues.AGAINST.finditer(rest)]), anchor)
        rest = blank(rest, reading.spans)
        draft.rest = blank(rest, [*cues.spoken(rest), *(m.span() for m in cues.GROWTH.finditer(rest))])
        for text in reading.impossible:
            said = f"there is no such day, month or quarter as {text!r}"
            seen.missing.append(Missing(text, "NO_DATA_IN_PERIOD", said, period=text))
        return reading

    def _completed(self, draft: Draft, seen: Understanding) -> None:
        """A name alone, or beside an indicator of others, asks for what its kind is known by."""
        if seen.unmatched:
            return
        if draft.entities and not draft.names:
            draft.names = self._defaults(draft.kinds)
        elif self._foreign(draft):
            owner, names = draft.found[0], [self._layer.indicators[name].name for name in draft.names]
            said = f"{', '.join(names)} is kept for economies, not for {self._layer.entities[owner.ids[0]].name}"
            seen.missing.append(Missing(owner.surface, "NO_MATCH", said, aspect=draft.names[0]))
            draft.names, draft.mentions = [], []
        elif draft.names and draft.mentions:
            covered = {kind for name in draft.names for kind in self._layer.indicators[name].kinds} | {"economy"}
            draft.names = [*draft.names, *self._defaults(draft.kinds - covered)]

    def _foreign(self, draft: Draft) -> bool:
        """Whether all that is asked of a company belongs to economies: its capacity use is not that of the country."""
        economy = {"economy"}
        owned = draft.names and all(set(self._layer.indicators[name].kinds) == economy for name in draft.names)
        return bool(owned and draft.kinds and economy.isdisjoint(draft.kinds) and not TOGETHER.search(draft.shown))

    def _query(self, draft: Draft, reading: grammar.Reading, seen: Understanding) -> Query:
        """What is asked of the names over the periods."""
        shown, entities = draft.shown, draft.entities
        names, mentions = self._asked.shares(shown, draft.mentions, draft.names)
        indicators, transform = self._asked.growth(shown, mentions, names, reading.transform)
        transform, indicators = self._asked.offset(transform, indicators, reading)
        indicators = self._asked.parts(shown, list(dict.fromkeys(indicators)))
        crossed = self._asked.is_cross(shown, entities, indicators)
        if crossed and self._turned(shown, entities, seen):
            entities = entities[::-1]
        if transform == Transform.TTM and reading.whole.relative:
            transform = Transform.NONE
        ranking = draft.ranking
        statistics = () if transform or ranking else self._asked.statistics(shown, mentions, indicators, reading)
        period = self._period(reading.whole, entities)
        query = Query(
            tuple(entities),
            () if reading.impossible else tuple(dict.fromkeys(indicators)),
            period.start,
            period.end,
            self._asked.frequency(period, indicators, transform) or self._asked.density(shown, statistics),
            transform=transform,
            unit="" if crossed or (statistics and parse_rate(draft.unit)) else draft.unit,
            statistics=statistics,
            combination=self._asked.combination(shown, entities, indicators),
            periods=apart(reading.periods, period),
            basis=Basis.FISCAL if period.fiscal else Basis.CALENDAR,
        )
        return ranked(query, ranking, names[0]) if ranking and names and query.indicators else query

    def _turned(self, shown: str, entities: Sequence[str], seen: Understanding) -> bool:
        """Whether the first of two currencies is the one that is priced: "USD/JPY", "一美元兑多少日元" are yen per dollar."""
        one = [item.id for item in seen.matches if re.search(rf"(?:一|1|\bone)\s*{re.escape(item.surface)}", shown)]
        return one[0] == entities[0] if one else not re.search(r"\bper\b|每", shown)

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
