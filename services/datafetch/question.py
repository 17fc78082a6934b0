"""A question becomes a typed query. What is not understood is said; nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

from services.datafetch import grammar
from services.datafetch.entities import Found, Resolver
from services.datafetch.indicators import Matcher
from services.datafetch.model import Basis, Frequency, Match, Missing, Query, Transform
from services.datafetch.periods import Period, in_fiscal
from services.datafetch.residue import COMPANY_TAIL, chinese_leftovers, is_company, unknown_names
from services.datafetch.semantic.layer import PARTICLES, Layer
from services.datafetch.semantic.names import Mention
from services.datafetch.semantic.schema import EntitySpec, IndicatorSpec
from services.datafetch.semantic.text import CJK, is_chinese, plain
from services.datafetch.units import find_unit

ACCEPT = 0.62
MAX_BEFORE, MAX_AFTER = 12, 16
QUOTIENTS = [
    (
        re.compile(r"(?:占|与|和|同|跟|对|除以|/|比上?)\s*(?:其|总|全部)?\s*"),
        re.compile(r"\s*的?\s*(?:比值|之比|比例|比率|比重|百分比|占比|比)"),
    ),
    (re.compile(r"(?:占|除以|/)\s*"), re.compile("")),
    (re.compile(r"在\s*"), re.compile(r"(?:中|里|之中)?所?占?的?(?:比例|比率|比重|占比|百分比)")),
    (re.compile(r"\s+(?:to|as a (?:share|percentage) of|divided by|over|per)\s+", re.I), re.compile("")),
]
MARGIN = 0.04
GROWTH = re.compile(
    r"的?(?:年|同比)?(?:增长率|增速|增幅|增长幅度|增长(?!额)|变动率|变化率|涨幅)(?:是?多少)?|\s+(?:yoy|year[\s-]over[\s-]year|annual)?\s*growth(?:\s+rate)?\b",
    re.I,
)
RANKED = re.compile(
    r"(?P<way>最高|最大|最多|最低|最小|最少|排名前|前|top|highest|largest|biggest|lowest|smallest)\s*(?:的)?(?P<n>\d{1,3}|[一二三四五六七八九十]{1,2}|ten|five|three)?"
    r"\s*(?:家|名|位|只|个)?(?:的)?\s*(?P<kind>上市公司|公司|企业|股票|个股|stocks?|companies|company|currencies)",
    re.I,
)
ALL = re.compile(
    r"(?:哪家|哪些|哪个|所有|全部|各家?|each|every|which|all)\s*(?:的)?\s*(?:上市)?(?P<kind>公司|企业|股票|stocks?|companies|company)",
    re.I,
)


@dataclass
class Understanding:
    """What was read in a question."""

    query: Query = field(default_factory=Query)
    missing: list[Missing] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


class Reader:
    """Reads questions against one layer."""

    def __init__(self, layer: Layer, matcher: Matcher, latest: Callable[[Sequence[str], Sequence[str]], date]) -> None:
        self._layer, self._matcher, self._latest = layer, matcher, latest
        self._resolver = Resolver(layer)

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
        names = [self._choose(mention, kinds, seen) for mention in mentions]
        anchor = as_of or self._latest(entities, names)
        reading = grammar.read(rest, anchor)
        rest = blank(rest, reading.spans)
        for text in reading.impossible:
            seen.missing.append(
                Missing(text, "NO_DATA_IN_PERIOD", f"there is no such day, month or quarter as {text!r}", period=text)
            )
        self._leftovers(rest, found, mentions, names, kinds, shown, seen)
        entities = list(dict.fromkeys(item.ids[0] for item in found))
        if entities and not names and not seen.unmatched:
            names = self._defaults(kinds)
        names, mentions = self._shares(shown, mentions, names)
        indicators, transform = self._growth(shown, mentions, names, reading.transform)
        period = self._period(reading.whole, entities)
        seen.query = Query(
            tuple(entities),
            tuple(dict.fromkeys(indicators)),
            period.start,
            period.end,
            self._frequency(period, indicators, transform),
            transform=transform,
            unit=unit,
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
        fitting = [spec for spec in specs if kinds & set(spec.kinds)] or specs
        others = tuple(spec.id for spec in specs if spec is not fitting[0])
        seen.matches.append(Match(mention.surface, fitting[0].id, 1.0, "exact", others[:5]))
        return fitting[0].id

    def _ranking(self, text: str, entities: Sequence[str]) -> re.Match[str] | None:
        return None if entities else RANKED.search(text)

    def _leftovers(
        self,
        rest: str,
        found: list[Found],
        mentions: list[Mention],
        names: list[str],
        kinds: set[str],
        shown: str,
        seen: Understanding,
    ) -> None:
        """What is left of the question: unknown names, words for an indicator that the dictionary lacks, qualifiers."""
        for name in unknown_names(rest):
            if not self._match_free(name, kinds, names, seen, quiet=True):
                nearest = tuple(self._layer.entity_names.nearest(name))
                seen.missing.append(unknown_entity(name, nearest))
        for words, start, end in chinese_leftovers(rest):
            touching = [m for m in mentions if end == m.start or (start == m.end and not GROWTH.match(shown, m.end))]
            inside = [item for item in found if item.end == start or end == item.start]
            if inside and (is_company(words, rest, end) or COMPANY_TAIL.match(shown, inside[0].end)):
                self._longer(shown, rest, start, end, inside[0], found, seen)
            elif not found and is_company(words, rest, end):
                seen.missing.append(unknown_entity(words, tuple(self._layer.entity_names.nearest(words))))
            elif touching:
                surface = shown[min(start, touching[0].start) : max(end, touching[0].end)]
                self._qualified(surface, touching[0], names, mentions, kinds, seen)
            elif not names and (found or mentions or is_chinese(shown)):
                self._match_free(words, kinds, names, seen)

    def _longer(
        self, shown: str, rest: str, start: int, end: int, inside: Found, found: list[Found], seen: Understanding
    ) -> None:
        """A known name inside a longer one is another company, unless the longer one is known but for a slip."""
        if inside not in found:
            return
        first, last = min(start, inside.start), max(end, inside.end)
        while first and CJK.match(rest[first - 1]) and inside.start - first < MAX_BEFORE:
            first -= 1
        while last < len(rest) and (CJK.match(rest[last]) or rest[last] in "()") and last - inside.end < MAX_AFTER:
            last += 1
        region = "\0" * first + shown[first:last]
        position = found.index(inside)
        near = [
            item
            for item in self._resolver.approximate(region)
            if item.start <= inside.start
            and item.end >= inside.end
            and item.end - item.start > inside.end - inside.start
        ]
        if len(near) == 1 and not near[0].ambiguous:
            found[position] = near[0]
            seen.matches.append(Match(near[0].surface, near[0].ids[0], near[0].score, near[0].how))
            return
        whole = shown[min(start, inside.start) : max(end, inside.end)]
        seen.missing.append(unknown_entity(whole, (self._layer.entities[inside.ids[0]].name,)))
        found.pop(position)

    def _qualified(
        self,
        surface: str,
        mention: Mention,
        names: list[str],
        mentions: list[Mention],
        kinds: set[str],
        seen: Understanding,
    ) -> None:
        """ "Overseas revenue" is not revenue: a word that clings to an indicator makes it another one."""
        position = mentions.index(mention)
        if position >= len(names):
            return
        near = [item for item in self._matcher.match(surface) if self._fits(item.id, kinds)]
        if near and near[0].score >= 0.8 and near[0].id != names[position]:
            seen.matches.append(
                Match(surface, near[0].id, near[0].score, near[0].how, tuple(item.id for item in near[1:4]))
            )
            names[position] = near[0].id
            return
        seen.missing.append(self._unknown_indicator(surface, [item.id for item in near]))
        seen.unmatched.append(surface)
        names.pop(position)
        mentions.pop(position)

    def _match_free(
        self, words: str, kinds: set[str], names: list[str], seen: Understanding, *, quiet: bool = False
    ) -> bool:
        """Takes an indicator by likeness only when it is alike enough and nothing else is as near."""
        near = [item for item in self._matcher.match(words) if self._fits(item.id, kinds)]
        if near and near[0].score >= ACCEPT and (len(near) < 2 or near[0].score - near[1].score >= MARGIN):
            names.append(near[0].id)
            seen.matches.append(
                Match(words, near[0].id, near[0].score, near[0].how, tuple(item.id for item in near[1:4]))
            )
            return True
        if not quiet:
            seen.missing.append(self._unknown_indicator(words, [item.id for item in near[:3] if item.score > 0.2]))
            seen.unmatched.append(words)
        return False

    def _fits(self, ident: str, kinds: set[str]) -> bool:
        return not kinds or bool(kinds & set(self._layer.indicators[ident].kinds))

    def _unknown_indicator(self, words: str, near: Sequence[str]) -> Missing:
        names = tuple(shown_name(self._layer.indicators[ident], words) for ident in near[:3])
        return Missing(
            words, "UNKNOWN_INDICATOR", f"no indicator here is called {words!r}", aspect=words, nearest=names
        )

    def _defaults(self, kinds: set[str]) -> list[str]:
        """A name alone asks for what its kind is known by."""
        return [spec.id for spec in self._layer.indicators.values() if spec.default and kinds & set(spec.kinds)]

    def _shares(self, shown: str, mentions: list[Mention], names: list[str]) -> tuple[list[str], list[Mention]]:
        """ "R&D to profit" of two indicators that stand together is their quotient, when no name says it better."""
        if len(names) == len(mentions) == 2 and not any(self._layer.indicators[name].text for name in names):
            between, behind = shown[mentions[0].end : mentions[1].start], shown[mentions[1].end :]
            if any(joint.fullmatch(between) and tail.match(behind) for joint, tail in QUOTIENTS):
                return [f"({names[0]}) / ({names[1]})"], []
        return names, mentions

    def _growth(
        self, shown: str, mentions: list[Mention], names: list[str], transform: Transform
    ) -> tuple[list[str], Transform]:
        """Words of growth right after an indicator belong to it; others to all indicators."""
        grown = list(names)
        for position, mention in enumerate(mentions[: len(names)]):
            spec = self._layer.indicators[names[position]]
            if GROWTH.match(shown, mention.end) and not spec.text and transform in (Transform.NONE, Transform.YOY):
                known = self._layer.indicator_names.all(f"{mention.surface}增长率")
                grown[position] = known[0] if known else f"yoy({names[position]})"
        if grown != names:
            return grown, Transform.NONE
        if transform and any(self._layer.indicators[name].text for name in names):
            return grown, Transform.NONE
        return grown, transform

    def _period(self, period: Period, entities: Sequence[str]) -> Period:
        first: EntitySpec | None = self._layer.entities[entities[0]] if entities else None
        return in_fiscal(period, self._layer.calendar(first))

    def _frequency(self, period: Period, indicators: Sequence[str], transform: Transform) -> Frequency:
        """As stored, unless a change from period to period needs a density of its own."""
        if transform == Transform.QOQ:
            return Frequency.QUARTERLY
        return Frequency.MONTHLY if transform == Transform.MOM else Frequency.NATIVE


def apart(periods: Sequence[Period], whole: Period) -> tuple[tuple[date, date], ...]:
    """Periods named one by one, when they leave something out of the whole: "2021 against 2019" is two years."""
    named = sorted((p.start, p.end) for p in periods if p.start and p.end and not p.fiscal)
    if len(named) < 2 or len(named) != len(periods) or whole.fiscal:
        return ()
    gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
    return tuple(named) if gaps else ()


def ranked(query: Query, match: re.Match[str], indicator: str) -> Query:
    """The query over all entities of a kind, ordered."""
    from dataclasses import replace

    way, count = match["way"].lower(), match["n"]
    kind = "currency" if match["kind"].lower().startswith("currenc") else "stock"
    descending = way not in ("最低", "最小", "最少", "lowest", "smallest")
    return replace(
        query, kind=kind, order=indicator, descending=descending, limit=(grammar.number(count) or 1) if count else 1
    )


def unknown_entity(name: str, nearest: tuple[str, ...]) -> Missing:
    """What is said of a name that stands for nothing here."""
    detail = f"no company, index, fund, currency or economy called {name!r} has data here"
    return Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest)


def shown_name(spec: IndicatorSpec, like: str) -> str:
    """An indicator's name in the language of the text."""
    return spec.name_zh if spec.name_zh and is_chinese(like) else spec.name


def blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with the spans as NUL characters: positions stay, words do not join."""
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text
