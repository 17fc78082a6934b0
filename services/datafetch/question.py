"""A question becomes a typed query. What is not understood is said; nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise

from services.datafetch import cues, formulas, grammar
from services.datafetch.entities import Found, Resolver
from services.datafetch.indicators import Matcher
from services.datafetch.model import Basis, Combination, Frequency, Match, Missing, Query, Statistic, Transform
from services.datafetch.periods import Period, in_fiscal
from services.datafetch.residue import (
    COMPANY_TAIL,
    ECONOMIES,
    chinese_leftovers,
    is_company,
    latin_leftovers,
    unknown_names,
)
from services.datafetch.semantic.layer import PARTICLES, Layer
from services.datafetch.semantic.names import Mention
from services.datafetch.semantic.schema import EntitySpec, IndicatorSpec
from services.datafetch.semantic.text import CJK, is_chinese, plain
from services.datafetch.units import find_unit, parse_unit

ACCEPT = 0.62
MAX_BEFORE, MAX_AFTER = 12, 16
JOINT = re.compile(r"\s*(?:和|与|、|及|以及|跟|,|，)\s*")
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
        names = [self._twin(name, shown) for name in names]
        rest = blank(rest, [*cues.spoken(rest), *(m.span() for m in GROWTH.finditer(rest))])
        self._leftovers(rest, found, mentions, names, kinds, shown, seen)
        entities = list(dict.fromkeys(item.ids[0] for item in found))
        if entities and not names and not seen.unmatched:
            names = self._defaults(kinds)
        names, mentions = self._shares(shown, mentions, names)
        indicators, transform = self._growth(shown, mentions, names, reading.transform)
        transform, indicators = self._offset(transform, indicators, reading)
        indicators = self._parts(shown, list(dict.fromkeys(indicators)))
        if self._is_cross(shown, entities, indicators):
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
        statistics = () if transform or ranking else self._statistics(shown, mentions, indicators, reading)
        if (unit == "fraction" or statistics) and parse_rate(unit):
            unit = ""
        seen.query = Query(
            tuple(entities),
            tuple(dict.fromkeys(indicators)),
            period.start,
            period.end,
            self._frequency(period, indicators, transform) or self._density(shown, statistics),
            transform=transform,
            unit=unit,
            statistics=statistics,
            combination=self._combination(shown, entities, indicators),
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
        for other in self._economies(rest, names):
            seen.missing.append(unknown_entity(other, ("United States",)))
            names.clear()
            mentions.clear()
            rest = ECONOMIES.sub(lambda match: "\0" * len(match[0]), rest)
        for name in unknown_names(rest):
            if not names and self._match_free(name, kinds, names, seen, quiet=True):
                continue
            if found and not names and not re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", rest):
                self._unknown(name, kinds, found, seen)
            elif not ECONOMIES.fullmatch(name):
                seen.missing.append(unknown_entity(name, tuple(self._layer.entity_names.nearest(name))))
        if not names and not is_chinese(shown):
            for words in latin_leftovers(rest):
                if any(words in item.subject or item.subject in words for item in seen.missing):
                    continue
                if not self._match_free(words, kinds, names, seen, quiet=True) and found:
                    self._unknown(words, kinds, found, seen)
        self._attached(shown, mentions, names, found, kinds, seen)
        for words, start, end in chinese_leftovers(rest):
            touching = [m for m in mentions if end == m.start or (start == m.end and not GROWTH.match(shown, m.end))]
            inside = [item for item in found if item.end == start or end == item.start]
            if inside and (is_company(words, rest, end) or COMPANY_TAIL.match(shown, inside[0].end)):
                self._longer(shown, rest, start, end, inside[0], found, seen)
            elif self._is_name(words, rest, start, end, found, names):
                seen.missing.append(unknown_entity(words, tuple(self._layer.entity_names.nearest(words))))
            elif touching:
                surface = shown[min(start, touching[0].start) : max(end, touching[0].end)]
                self._qualified(surface, touching[0], names, mentions, kinds, seen)
            elif not names and (found or mentions or is_chinese(shown)):
                self._match_free(words, kinds, names, seen)

    def _economies(self, rest: str, names: Sequence[str]) -> list[str]:
        """Economies that are named beside an indicator that is kept for another one."""
        if not names or not all("economy" in self._layer.indicators[name].kinds for name in names):
            return []
        return [match.group() for match in ECONOMIES.finditer(rest)]

    def _unknown(self, words: str, kinds: set[str], found: Sequence[Found], seen: Understanding) -> None:
        """Words for an indicator of someone that nothing is called."""
        if words in seen.unmatched:
            return
        near = [item.id for item in self._matcher.match(words, 5) if self._fits(item.id, kinds) and item.score > 0.2]
        owner = self._layer.entities[found[0].ids[0]]
        item = self._unknown_indicator(words, near)
        seen.missing.append(replace(item, detail=f"{item.detail}, asked of {owner.name}"))
        seen.unmatched.append(words)

    def _attached(
        self,
        shown: str,
        mentions: list[Mention],
        names: list[str],
        found: Sequence[Found],
        kinds: set[str],
        seen: Understanding,
    ) -> None:
        """ "Price-to-earnings" is no price: a name with a hyphen on is another name."""
        for mention in list(mentions):
            tied = re.match(r"-[A-Za-z]+(?:-[A-Za-z]+)*(?: (?:ratio|multiple))?", shown[mention.end :])
            if tied and mention in mentions and len(mentions) == len(names) and found:
                position = mentions.index(mention)
                names.pop(position)
                mentions.pop(position)
                self._unknown(shown[mention.start : mention.end + tied.end()], kinds, found, seen)

    def _is_name(
        self, words: str, rest: str, start: int, end: int, found: Sequence[Found], names: Sequence[str]
    ) -> bool:
        """Whether leftover words stand where a name would: as a company does, beside one, or as the only thing unknown."""
        if not found and is_company(words, rest, end):
            return True
        joined = any(
            JOINT.fullmatch(rest[end : item.start]) or JOINT.fullmatch(rest[item.end : start]) for item in found
        )
        if joined:
            return True
        needs = [name for name in names if "economy" not in self._layer.indicators[name].kinds]
        return not found and bool(needs) and len(needs) == len(names)

    def _twin(self, name: str, shown: str) -> str:
        """The yearly figures of an indicator, when these are asked for."""
        twin = self._layer.indicators[name].annual
        return twin if twin and cues.ANNUAL.search(shown) and not re.search(r"annuali[sz]ed", shown, re.I) else name

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
            if formulas.metric_type(spec) == "offset" or spec.default:
                continue
            if GROWTH.match(shown, mention.end) and not spec.text and transform in (Transform.NONE, Transform.YOY):
                known = self._layer.indicator_names.all(f"{mention.surface}增长率")
                grown[position] = known[0] if known else f"yoy({names[position]})"
        if grown != names:
            return grown, Transform.NONE
        if transform and any(self._layer.indicators[name].text for name in names):
            return grown, Transform.NONE
        return grown, transform

    def _offset(
        self, transform: Transform, indicators: list[str], reading: grammar.Reading
    ) -> tuple[Transform, list[str]]:
        """A change of a change is the change of what is under it; "on the period before" is the month for months."""
        specs = self._layer.indicators
        if transform in (Transform.YOY, Transform.QOQ, Transform.MOM):
            trees = [
                formulas.parse(specs[name].formula, name) if name in specs and specs[name].formula else None
                for name in indicators
            ]
            under = [
                formulas.leaves(tree) if tree is not None and formulas.metric_type(specs[name]) == "offset" else [name]
                for name, tree in zip(indicators, trees, strict=True)
            ]
            if transform == Transform.YOY and any(
                len(item) == 1 and item[0] != name for item, name in zip(under, indicators, strict=True)
            ):
                return Transform.NONE, indicators
            indicators = [item[0] for item in under]
        monthly = [name for name in indicators if name in specs and specs[name].frequency == Frequency.MONTHLY]
        if (
            transform == Transform.QOQ
            and len(monthly) == len(indicators)
            and reading.whole.grain != Frequency.QUARTERLY
        ):
            return Transform.MOM, indicators
        return transform, indicators

    def _statistics(
        self, shown: str, mentions: list[Mention], indicators: Sequence[str], reading: grammar.Reading
    ) -> tuple[Statistic, ...]:
        """What is asked of the whole period. Words inside an indicator's own name ask for nothing."""
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        text = blank(shown, own)
        if not specs or any(spec.text or spec.formula or spec.frequency == Frequency.ANNUAL for spec in specs):
            return ()
        found = cues.statistics(text) or self._flows(specs, reading)
        if not found and cues.LATEST.search(text) and not reading.periods:
            return (Statistic.LAST,)
        whole = reading.whole
        if not found and cues.ENDING.search(text) and whole.start is not None and not cues.EACH.search(text):
            return (Statistic.LAST,)
        if whole.start is not None and whole.start == whole.end:
            return ()
        return found

    def _flows(self, specs: Sequence[IndicatorSpec], reading: grammar.Reading) -> tuple[Statistic, ...]:
        """Flows since the year's start or over twelve months are added up."""
        runs = [p for p in reading.periods if p.relative and p.grain == Frequency.NATIVE and p.start and p.end]
        return (Statistic.SUM,) if runs and all(spec.flow for spec in specs) else ()

    def _density(self, shown: str, statistics: Sequence[Statistic]) -> Frequency:
        return Frequency.NATIVE if statistics else cues.density(shown)

    def _combination(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> Combination:
        """Two series against each other, when two are there and the words say so."""
        if self._is_cross(shown, entities, indicators):
            return Combination.CROSS
        if len(entities) * len(indicators) == 2 or (not entities and len(indicators) == 2):
            return cues.combination(shown)
        return Combination.NONE

    def _is_cross(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> bool:
        kinds = [self._layer.entities[ident].kind for ident in entities]
        return kinds == ["currency"] * 2 and list(indicators) == ["eur_rate"] and bool(cues.PER.search(shown))

    def _parts(self, shown: str, indicators: list[str]) -> list[str]:
        """Of a difference or a quotient and its two parts only the parts: they are set against each other."""
        stored = [
            name for name in indicators if name in self._layer.indicators and not self._layer.indicators[name].formula
        ]
        return stored if len(stored) == 2 and len(indicators) == 3 and cues.combination(shown) else indicators

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
    named = sorted((p.start, p.end) for p in periods if p.start and p.end and not p.fiscal and p.start != p.end)
    if len(named) < 2 or len(named) != len(periods) or whole.fiscal:
        return ()
    gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
    return tuple(named) if gaps else ()


def parse_rate(unit: str) -> bool:
    """Whether a unit is a way to write a share: statistics have theirs already."""
    read = parse_unit(unit) if unit else None
    return read is not None and read.fraction > 0


def ranked(query: Query, match: re.Match[str], indicator: str) -> Query:
    """The query over all entities of a kind, ordered."""
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
