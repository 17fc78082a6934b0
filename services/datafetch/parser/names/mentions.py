"""First pass over a question: extract its unit, entities and indicators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from fathom.services.datafetch.catalog.layer import PARTICLES, Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.indicators.matching import Matcher
from fathom.services.datafetch.parser.names import coordination
from fathom.services.datafetch.parser.names.entities import Found, Resolver
from fathom.services.datafetch.parser.names.unmatched import Understanding
from fathom.services.datafetch.parser.operators import rankings
from fathom.services.datafetch.parser.operators.conditions import Conditions
from fathom.services.datafetch.parser.operators.grouping import Grouping
from fathom.services.datafetch.parser.operators.rankings import Ranking
from fathom.services.datafetch.parser.operators.units import find_rounding, find_unit
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Match, Missing

if TYPE_CHECKING:
    from fathom.services.datafetch.parser.operators.extraction import Asked

# Every rate is per euro, so the euro beside another currency names nothing: "against the euro", 兑欧元.
EURO = re.compile(
    r"(?:兑换?|对|每|一|1|/)?\s*欧元(?:兑换?|对|等于|折合|合)?|\b(?:(?:per|to|against|one|the|a)\s+)*(?:euros?|eur)\b",
    re.I | re.A,
)
# What may stand between a name and the words that only narrow it: "earnings of all ".
QUALIFIES = re.compile(r"\s*,?\s*(?:of|for|in|by)\s+(?:all\s+)?", re.I)
# A maturity alone, which is also a Treasury yield of the catalog: "30-year", 10年期.
MATURITY = re.compile(r"\d{1,2}[- ]?(?:years?|months?|yr|y)|[\d一二三五七十两]{1,3}(?:年|个月)期?", re.I)
# The gap between a maturity and the rate it belongs to: " fixed ". A joint such as "minus" separates two rates.
OF_MATURITY = re.compile(r" (?!(?:and|minus|less|vs|versus|to|over|or|against|plus) )(?:[a-z]+ )?|期?", re.I)
# The word right before "inflation" that selects a price index: "housing ", 食品.
OF_WHAT = re.compile(r"(?:(?<![\w-])(?P<w>[A-Za-z][A-Za-z-]{2,}) |(?P<w_>[\u3400-\u9fff]{2,4}))$")
INFLATION = re.compile(r"inflation(?: rate)?|通胀率?|通货膨胀率?", re.I)
# The words before a currency that is the unit of the answer: "in ", "into the ", 折合成, 等于多少.
MEASURED = re.compile(
    r"(?:\b(?:in|into|to|as|of)\s+(?:the\s+)?|(?:折|合|换|兑|成|以|用|按|值|计|等于|相当于|多少|几)\s*(?:算|合|换)?成?\s*(?:多少|几)?\s*(?:块|元)?\s*)$",
    re.I | re.A,
)


@dataclass
class Draft:
    """A partially parsed question; parsed spans of ``rest`` are blanked with NUL characters."""

    shown: str
    rest: str
    unit: str
    found: list[Found]
    mentions: list[Mention]
    names: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    ranking: Ranking | None = None
    currency: str = ""
    currency_span: tuple[int, int] | None = None
    conditions: Conditions | None = None
    grouping: Grouping | None = None
    asked: str = ""

    @property
    def entities(self) -> list[str]:
        """Return the entity ids without duplicates, in the order of the text."""
        return list(dict.fromkeys(item.ids[0] for item in self.found))


class Drafter:
    """An extractor of units, entities and indicators, based on the names of one semantic layer."""

    def __init__(self, layer: Layer, matcher: Matcher, resolver: Resolver, asked: Asked) -> None:
        self._layer, self._matcher, self._resolver, self._asked = layer, matcher, resolver, asked

    def draft(self, shown: str, as_of: date | None, seen: Understanding, kind: str = "") -> Draft:
        """Extract unit, entities, indicators and ranking, and blank each of them in ``rest``.

        ``as_of`` anchors relative periods, today by default. ``kind`` is the entity kind to rank over if the question
        names no entity. Matches and ambiguous names are added to ``seen``.
        """
        rounding = find_rounding(shown)
        unit, rest = self._unit(blank(shown, [rounding[1]]) if rounding else shown)
        if unit and self._is_rate(rest):
            # "How many yen for one pound": the currency is the subject, not a unit.
            unit, rest = "", shown
        found, rest = self._entities(rest, seen)
        # Before the indicators, so that the target currency does not count as an entity that they must apply to.
        found, currency = self._converted(found, shown)
        # A number is no name, though some ids consist of digits.
        mentions = [m for m in self._layer.loose_names.find_loosely(rest, PARTICLES) if not m.surface.isdecimal()]
        mentions = coordination.coordinated(shown, mentions, self._layer.loose_names)
        mentions = self._inflated(shown, self._priced(shown, self._whole(shown, mentions)))
        rest = blank(rest, [(m.start, m.end) for m in mentions])
        if mentions:
            # "Inflation" beside a named index only says that its growth is meant.
            rest = blank(rest, [m.span() for m in INFLATION.finditer(rest)])
        if not found:
            # Fuzzy matching must not take words of a period for a misspelt name.
            timeless = blank(rest, expressions.read(rest, as_of or date.today()).spans)
            found = self._taken(self._resolver.approximate(timeless), seen)
            rest = blank(rest, [(item.start, item.end) for item in found])
        draft = Draft(shown, rest, unit, found, mentions)
        if currency is not None:
            draft.currency, draft.currency_span = currency.ids[0], (currency.start, currency.end)
        # With a named entity "the best" selects a period, not an entity.
        draft.ranking = None if found else rankings.find(shown)
        if kind and not found and draft.ranking is None:
            draft.ranking = Ranking((0, 0), kind, 0, False)
        if draft.ranking:
            draft.rest = blank(rest, [draft.ranking.span])
        draft.kinds = {self._layer.entities[ident].kind for ident in draft.entities}
        if draft.ranking:
            draft.kinds.add(draft.ranking.kind)
        if "currency" in draft.kinds:
            draft.rest = blank(draft.rest, [m.span() for m in EURO.finditer(draft.rest)])
        self._chosen(draft, seen)
        return draft

    def _is_rate(self, rest: str) -> bool:
        """Return whether the text names, besides its unit, nothing but currencies or the euro."""
        named = [self._layer.entities[mention.id].kind for mention in self._layer.entity_names.find(rest)]
        others = [m for m in self._layer.indicator_names.find(rest) if m.id != "eur_rate"]
        return not others and set(named) <= {"currency"} and bool(named or EURO.search(rest))

    def _whole(self, shown: str, mentions: list[Mention]) -> list[Mention]:
        """Merge mentions that only qualify the previous one: "hourly earnings of production workers"."""
        kept: list[Mention] = []
        for mention in mentions:
            if kept and QUALIFIES.fullmatch(shown[kept[-1].end : mention.start]):
                # Merge only if the joined words still mean the first name and not the second.
                near = self._matcher.match(shown[kept[-1].start : mention.end], 2)
                if near and near[0].id == kept[-1].id and near[0].id not in mention.ids:
                    last = kept[-1]
                    kept[-1] = Mention(last.ids, last.start, mention.end, shown[last.start : mention.end])
                    continue
            kept.append(mention)
        return kept

    def _priced(self, shown: str, mentions: list[Mention]) -> list[Mention]:
        """Extend mentions by the word before them that selects a more specific indicator.

        "Housing inflation" is the growth of the housing CPI; in "30-year fixed mortgage rate" the maturity belongs to
        the mortgage rate, not to a Treasury yield.
        """
        kept: list[Mention] = []
        for mention in mentions:
            if (
                kept
                and MATURITY.fullmatch(kept[-1].surface)
                and OF_MATURITY.fullmatch(shown[kept[-1].end : mention.start])
            ):
                last = kept.pop()
                mention = Mention(mention.ids, last.start, mention.end, shown[last.start : mention.end])
            word = OF_WHAT.search(shown[: mention.start]) if INFLATION.fullmatch(mention.surface) else None
            if word:
                key = "w" if word["w"] else "w_"
                start, what = word.start(key), word[key]
                names = (f"{what} CPI", f"CPI {what}", f"{what}CPI")
                ids = next(filter(None, map(self._layer.indicator_names.find_all, names)), ())
                if ids:
                    mention = Mention(ids, start, word.end(key), what)
            kept.append(mention)
        return kept

    def _inflated(self, shown: str, mentions: list[Mention]) -> list[Mention]:
        """Drop "inflation" right after a price index, where it means the growth of that index."""
        kept: list[Mention] = []
        for mention in mentions:
            if kept and INFLATION.fullmatch(mention.surface) and not shown[kept[-1].end : mention.start].strip(" 的"):
                spec = self._layer.indicators[kept[-1].id]
                if "=100" in spec.unit:
                    continue
            kept.append(mention)
        return kept

    def _converted(self, found: list[Found], shown: str) -> tuple[list[Found], Found | None]:
        """Split off the target currency, a single currency beside other entities after words such as "in" or "按"."""
        money = [item for item in found if self._layer.entities[item.ids[0]].kind == "currency"]
        if len(money) != 1 or len(money) == len(found) or not MEASURED.search(shown[: money[0].start]):
            return found, None
        return [item for item in found if item is not money[0]], money[0]

    def _chosen(self, draft: Draft, seen: Understanding) -> None:
        """Choose an indicator for each mention.

        Generic words such as "rise", which name a default indicator, are dropped if the question names another
        indicator and no entity.
        """
        chosen = [(mention, self._choose(mention, draft.kinds, seen)) for mention in draft.mentions]
        specific = [name for _, name in chosen if name and not self._layer.indicators[name].default]
        # With an entity "price" or "rise" may well ask for its price beside the other indicator.
        if specific and not draft.found:
            chosen = [(mention, name) for mention, name in chosen if name in specific]
        draft.mentions = [mention for mention, name in chosen if name]
        draft.names = [
            self._asked.unadjusted(self._asked.twin(name, draft.shown), draft.shown) for _, name in chosen if name
        ]

    def _unit(self, text: str) -> tuple[str, str]:
        found = find_unit(text)
        return (found[0], blank(text, [found[1]])) if found else ("", text)

    def _entities(self, text: str, seen: Understanding) -> tuple[list[Found], str]:
        """Return the entities and the text without them; names inside a longer name of an indicator do not count."""
        found = self._resolver.exact(text)
        inside = self._layer.indicator_names.find(text)
        found = [
            item
            for item in found
            if not any(
                m.start <= item.start and item.end <= m.end and m.end - m.start > item.end - item.start for m in inside
            )
        ]
        kept = self._taken([self._cut(item, inside) for item in found], seen)
        return kept, blank(text, [(item.start, item.end) for item in kept])

    def _cut(self, item: Found, indicators: Sequence[Mention]) -> Found:
        """Shorten an entity name that overlaps the start of an indicator name: 美国|银行贷款利率.

        The shortened name must itself name an entity.
        """
        for mention in indicators:
            if item.start < mention.start < item.end < mention.end:
                ids = self._layer.entity_names.find_all(item.surface[: mention.start - item.start])
                if ids:
                    return Found(
                        ids, item.start, mention.start, item.surface[: mention.start - item.start], item.how, item.score
                    )
        return item

    def _taken(self, found: Sequence[Found], seen: Understanding) -> list[Found]:
        """Return the accepted entities and report ambiguous ones; ambiguous misspellings are rejected."""
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
        """Return the indicator of a mention that applies to the entity kinds, or "" if a default indicator does not."""
        specs = [self._layer.indicators[ident] for ident in mention.ids]
        if specs[0].default and kinds and not kinds & set(specs[0].kinds):
            # "Trend" and "rise" do not ask for a price of an entity without prices.
            return ""
        # Of several indicators with one name those of the entity's kind are meant; others are reported as alternatives.
        fitting = [spec for spec in specs if kinds & set(spec.kinds)] or specs
        others = tuple(spec.id for spec in specs if spec is not fitting[0])
        seen.matches.append(Match(mention.surface, fitting[0].id, 1.0, "exact", others[:5]))
        return fitting[0].id
