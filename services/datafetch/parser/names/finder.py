"""The finder of names: unit, entities, target currency, indicators and ranking of a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.text import blank, is_chinese
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import cue
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.parser.names.entities import Resolver, make_entity
from fathom.services.datafetch.parser.names.groups import find_groups
from fathom.services.datafetch.parser.names.indicators import choose_indicators, find_indicators
from fathom.services.datafetch.parser.operators.groupings import Ranking, find_ranking
from fathom.services.datafetch.parser.operators.units import find_rounding, find_unit
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Missing


class NameFinder:
    """A finder of names, based on the names of one semantic layer."""

    def __init__(self, layer: Layer, matcher: Matcher, resolver: Resolver) -> None:
        self._layer, self._matcher, self._resolver = layer, matcher, resolver

    def find(self, draft: Draft, as_of: date | None) -> None:
        """Add the names to the mentions of a draft, and report ambiguous ones.

        ``as_of`` anchors relative periods, today by default.
        """
        rest = self._find_unit(draft)
        # "Chained 2012 dollars" are the unit of a series, no currency and no year.
        draft.mentions += [
            Mention(MentionKind.OUTPUT, *m.span(), "constant prices") for m in cue("real_unit").finditer(rest)
        ]
        draft.text = blank(draft.text, [m.span() for m in cue("real_unit").finditer(rest)])
        rest = blank(rest, [m.span() for m in cue("real_unit").finditer(rest)])
        groups = list(find_groups(rest, self._layer, self._resolver.exact(rest)))
        if self._is_ranked(draft.text, [item.value for item in groups]):
            groups = []
        rest = blank(rest, [item.span for item in groups])
        found = [*self._find_entities(rest, draft), *select(groups, MentionKind.ENTITY)]
        draft.mentions += select(groups, MentionKind.OUTPUT)
        rest = blank(rest, [item.span for item in found])
        # Before the indicators, so that the target currency does not count as an entity that they must apply to.
        entities = self._split_currency(draft, found)
        named = find_indicators(draft.text, rest, self._layer, self._matcher)
        rest = blank(rest, [item.span for item in named])
        if not found:
            # "Inflation" beside a named index only says that its growth is meant; words of a period are no misspelt
            # name.
            hidden = [m.span() for m in cue("inflation_word").finditer(rest)] if named else []
            hidden += expressions.read(rest, as_of or date.today()).spans
            entities = self._accept(self._resolver.approximate(blank(rest, hidden)), draft)
        draft.mentions += entities
        # With a named entity "the best" selects a period, not an entity.
        if not entities:
            kind = draft.conditions.kind if draft.conditions else ""
            everyone = [Mention(MentionKind.CONDITION, 0, 0, "", meaning=Ranking(kind, 0, False))] if kind else []
            draft.mentions += find_ranking(draft.text) or everyone
        draft.mentions += choose_indicators(named, draft.kinds, draft.text, self._layer, has_entities=bool(entities))
        if "currency" in draft.kinds:
            # Every rate is per euro, so the euro beside another currency names nothing: "against the euro", 兑欧元.
            rest = blank(rest, [item.span for item in draft.mentions])
            draft.mentions += [Mention(MentionKind.OUTPUT, *m.span(), "euro", 0.9) for m in cue("euro").finditer(rest)]

    def _find_unit(self, draft: Draft) -> str:
        """Add the unit and the rounding of the answer; return the text without them."""
        rounding = find_rounding(draft.text)
        rest = blank(draft.text, [rounding[1]]) if rounding else draft.text
        if rounding:
            draft.mentions.append(Mention(MentionKind.OUTPUT, *rounding[1], f"{rounding[0]} decimals"))
        unit = find_unit(rest)
        # "How many yen for one pound": the currency is the subject, not a unit.
        if unit is None or self._is_rate(blank(rest, [unit[1]])):
            return draft.text if unit else rest
        draft.unit = unit[0]
        draft.mentions.append(Mention(MentionKind.OUTPUT, *unit[1], unit[0]))
        return blank(rest, [unit[1]])

    def _is_rate(self, rest: str) -> bool:
        """Return whether the text names, besides its unit, nothing but currencies or the euro."""
        named = [self._layer.entities[name.id].kind for name in self._layer.entity_names.find(rest)]
        others = [name for name in self._layer.indicator_names.find(rest) if name.id != "eur_rate"]
        return not others and set(named) <= {"currency"} and bool(named or cue("euro").search(rest))

    def _find_entities(self, text: str, draft: Draft) -> list[Mention]:
        """Return the entities; names inside a longer name of an indicator do not count."""
        longer = self._layer.indicator_names.find(text)
        found = []
        for item in self._resolver.exact(text):
            around = any(
                m.start <= item.start and item.end <= m.end and m.end - m.start > item.end - item.start for m in longer
            )
            if around or not self._is_noun(text, item) or self._cuts_word(text, item):
                continue
            # A name that overlaps the start of an indicator's is cut, if the rest names an entity: 美国|银行贷款利率.
            for m in longer:
                ids = self._layer.entity_names.find_all(text[item.start : m.start]) if m.start > item.start else ()
                if ids and m.start < item.end < m.end:
                    item = make_entity(ids, item.start, m.start)
            found.append(item)
        return self._accept(found, draft)

    def _is_noun(self, text: str, item: Mention) -> bool:
        """Return whether a word that names a currency stands where one can: nobody "won" a currency."""
        words = text[item.start : item.end]
        if self._layer.entities[item.value].kind != "currency" or not (words.isascii() and words.islower()):
            return True
        ahead, behind = cue("currency_ahead"), cue("currency_behind")
        return bool(" " in words or ahead.search(text[: item.start]) or behind.match(text[item.end :]))

    def _is_ranked(self, text: str, members: Sequence[str]) -> bool:
        """Return whether a question ranks a whole kind of entities, which are the members of a group."""
        kinds = {item.meaning.kind for item in find_ranking(text) if isinstance(item.meaning, Ranking)}
        return {one.id for one in self._layer.entities.values() if one.kind in kinds} == set(members)

    def _cuts_word(self, text: str, item: Mention) -> bool:
        """Return whether an ambiguous Chinese name begins inside another word of the catalogue: 油价 in 汽油价格."""
        pair = text[max(item.start - 1, 0) : item.start + 1]
        return bool(item.others) and len(pair) == 2 and is_chinese(pair) and self._layer.name_words.has(pair)

    def _accept(self, found: Sequence[Mention], draft: Draft) -> list[Mention]:
        """Return the accepted entities and report ambiguous ones; ambiguous misspellings are rejected."""
        sure = {item.value for item in found if not item.others}
        # "Oil (WTI)" says which of the two is meant.
        told = [next((ident for ident in item.ids if item.others and ident in sure), "") for item in found]
        found = [
            replace(item, value=ident, others=()) if ident else item for item, ident in zip(found, told, strict=True)
        ]
        for item in found:
            if item.others:
                words = draft.text[item.start : item.end]
                names = tuple(f"{self._layer.entities[ident].name} ({ident})" for ident in item.ids[:5])
                choice = "say which is meant" if item.how == "typo" else f"{names[0]} was taken"
                detail = f"{words!r} can be {', '.join(names)}; {choice}"
                draft.missing.append(Missing(words, "UNKNOWN_ENTITY", detail, aspect="ambiguous name", nearest=names))
        return [item for item in found if not (item.others and item.how == "typo")]

    def _split_currency(self, draft: Draft, found: list[Mention]) -> list[Mention]:
        """Split off the target currency: a single currency beside other entities, after words such as "in" or 按."""
        money = [item for item in found if self._layer.entities[item.value].kind == "currency"]
        if len(money) != 1 or len(money) == len(found) or not cue("measured").search(draft.text[: money[0].start]):
            return found
        draft.currency = money[0].value
        draft.mentions.append(replace(money[0], kind=MentionKind.OUTPUT))
        return [item for item in found if item is not money[0]]
