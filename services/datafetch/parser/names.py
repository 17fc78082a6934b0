"""Names in a question: the answer's unit, entities, the target currency, and indicators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention as NameMatch
from fathom.services.datafetch.catalog.resolving import Resolver
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import cue, find_spans, says
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.parser.operators import find_unit
from fathom.services.datafetch.query.model import Missing


class NameFinder:
    """A finder of names, based on the names of one semantic layer."""

    def __init__(self, layer: Layer, resolver: Resolver) -> None:
        self._layer, self._resolver = layer, resolver

    def find(self, draft: Draft, today: date | None) -> None:
        """Add the names to the mentions of a draft, and report ambiguous ones.

        ``today`` anchors relative periods, the current day by default.
        """
        # The unit first: the yuan of "in million yuan" is no currency that is asked for.
        rest = self._find_unit(draft)
        # "Chained 2012 dollars" are the unit of a series, no currency and no year.
        based = [Mention(MentionKind.PARAMETER, *m.span(), f"{m['y']}=100") for m in cue("base_year").finditer(rest)]
        based += [Mention(MentionKind.OUTPUT, *span, "constant prices") for span in find_spans(["real_unit"], rest)]
        draft.mentions += based
        draft.text, rest = (blank(text, [item.span for item in based]) for text in (draft.text, rest))
        found = self._find_entities(rest, draft)
        rest = blank(rest, [item.span for item in found])
        # Before the indicators, so that the target currency does not count as an entity that they must apply to.
        entities = self._split_currency(draft, found)
        named = self._find_indicators(draft.text, rest, has_entities=bool(found))
        rest = blank(rest, [item.span for item in named])
        if not found:
            # Words of a period are no misspelt name.
            hidden = periods.read(rest, today or date.today()).spans
            entities = self._accept(self._resolver.approximate(blank(rest, hidden)), draft)
        draft.mentions += entities
        draft.mentions += self._choose_indicators(named, draft, has_entities=bool(entities))
        if "currency" in draft.kinds:
            # Every rate is per euro, so the euro beside another currency names nothing: "against the euro", 兑欧元.
            euros = find_spans(["euro"], blank(rest, [item.span for item in draft.mentions]))
            draft.mentions += [Mention(MentionKind.OUTPUT, *span, "euro", 0.9) for span in euros]

    def _find_unit(self, draft: Draft) -> str:
        """Add the unit of the answer; return the text without it."""
        unit = find_unit(draft.text)
        # "How many yen for one pound": the currency is the subject, not a unit.
        if unit is None or self._is_rate(blank(draft.text, [unit[1]])):
            return draft.text
        draft.unit = unit[0]
        draft.mentions.append(Mention(MentionKind.OUTPUT, *unit[1], unit[0]))
        return blank(draft.text, [unit[1]])

    def _is_rate(self, rest: str) -> bool:
        """Return whether the text names, besides its unit, nothing but currencies or the euro."""
        kinds = {self._layer.entities[name.id].kind for name in self._layer.entity_names.find(rest)}
        others = any(name.id != "eur_rate" for name in self._layer.indicator_names.find(rest))
        return not others and kinds <= {"currency"} and bool(kinds or says("euro", rest))

    def _find_entities(self, text: str, draft: Draft) -> list[Mention]:
        """Return the entities; names inside a longer name of an indicator do not count."""
        longer = self._layer.indicator_names.find(text)
        found = []
        for item in self._resolver.exact(text):
            around = any(
                m.start <= item.start < item.end <= m.end and item.end - item.start < m.end - m.start for m in longer
            )
            if around or not self._is_noun(text, item):
                continue
            # A name that overlaps the start of an indicator's is cut, if the rest names an entity: 美国|银行贷款利率.
            for m in (one for one in longer if item.start < one.start < item.end < one.end):
                ids = self._layer.entity_names.find_all(text[item.start : m.start])
                item = replace(item, ids=tuple(ids), end=m.start) if ids else item
            found.append(item)
        return self._accept(found, draft)

    def _is_noun(self, text: str, item: NameMatch) -> bool:
        """Return whether a word that names a currency stands where one can: nobody "won" a currency."""
        words = text[item.start : item.end]
        if self._layer.entities[item.id].kind != "currency" or not (words.isascii() and words.islower()):
            return True
        ahead, behind = text[: item.start], text[item.end :]
        return " " in words or says("currency_ahead", ahead) or says("currency_behind", behind)

    def _accept(self, found: Sequence[NameMatch], draft: Draft) -> list[Mention]:
        """Return the accepted entities and report ambiguous ones; ambiguous misspellings are rejected."""
        sure = {item.id for item in found if len(item.ids) == 1}
        accepted = []
        for item in found:
            # "Oil (WTI)" says which of the two is meant.
            meant = next((ident for ident in item.ids if ident in sure), "")
            ids = (meant,) if meant else item.ids
            if len(ids) > 1:
                words = draft.text[item.start : item.end]
                names = tuple(f"{self._layer.entities[ident].name} ({ident})" for ident in ids[:5])
                choice = "say which is meant" if item.how == "typo" else f"{names[0]} was taken"
                detail = f"{words!r} can be {', '.join(names)}; {choice}"
                draft.missing.append(Missing(words, "UNKNOWN_ENTITY", detail, aspect="ambiguous name", nearest=names))
            # A misspelling of two names is neither of them; an exact name of two is taken as the better known one.
            if len(ids) == 1 or item.how != "typo":
                place = item.start, item.end
                accepted.append(Mention(MentionKind.ENTITY, *place, ids[0], item.confidence, item.how, ids[1:]))
        return accepted

    def _split_currency(self, draft: Draft, found: list[Mention]) -> list[Mention]:
        """Split off the target currency: a single currency beside other entities, after words such as "in" or 按."""
        money = [item for item in found if self._layer.entities[item.value].kind == "currency"]
        # Of several currencies each is asked for, and none is the unit of the others.
        if len(money) != 1 or len(money) == len(found) or not says("measured", draft.text[: money[0].start]):
            return found
        draft.currency = money[0].value
        draft.mentions.append(replace(money[0], kind=MentionKind.OUTPUT))
        return [item for item in found if item is not money[0]]

    def _find_indicators(self, text: str, rest: str, *, has_entities: bool) -> list[Mention]:
        """Return the indicators named in ``rest``, the part of ``text`` that means nothing else.

        Each has all ids of its name, the best one first.
        """
        named = self._layer.find_indicators(rest)
        # A number is no name, though some ids consist of digits; "price-to-earnings" is another name than a price.
        named = [m for m in named if not m.surface.isdecimal() and not re.match(r"-[A-Za-z]", text[m.end :])]
        found: list[NameMatch] = []
        for name in named:
            joined = self._join(text, found[-1], name, has_entities) if found else None
            found = [*found[:-1], joined] if joined is not None else [*found, name]
        return [Mention(MentionKind.INDICATOR, m.start, m.end, m.id, others=m.ids[1:]) for m in found]

    def _join(self, text: str, last: NameMatch, name: NameMatch, has_entities: bool) -> NameMatch | None:
        """Return what two neighbouring names are as one, or None if they are two."""
        gap, words = text[last.end : name.start], text[last.start : name.end]
        if cue("maturity").fullmatch(last.surface) and cue("of_maturity").fullmatch(gap):
            if has_entities and self._layer.indicators[name.id].default:
                # What is bought has no maturity: Apple's "5-year return" is that of five years.
                return name
            # In "30-year fixed mortgage rate" the maturity belongs to the mortgage rate, not to a Treasury yield.
            return NameMatch(name.ids, last.start, name.end, words)
        inflation = cue("inflation_word").fullmatch(name.surface) and not gap.strip(" 的,，")
        # "CPI inflation" and "PPI vs CPI, annual inflation" are the growth of those indices.
        return last if inflation and "=100" in self._layer.indicators[last.id].unit else None

    def _choose_indicators(self, found: Sequence[Mention], draft: Draft, *, has_entities: bool) -> list[Mention]:
        """Choose one indicator for each mention: of namesakes that of the entity kinds, and the variant asked for.

        Generic words such as "rise", which name a default indicator, are dropped if they do not apply to the entities,
        or if the question names another indicator and no entity.
        """
        chosen, kinds = [], draft.kinds
        for item in found:
            specs = [self._layer.indicators[ident] for ident in item.ids]
            # A bank's deposits and those of an economy have one name.
            fitting = [spec for spec in specs if kinds & set(spec.kinds)]
            # "Trend" and "rise" do not ask for a price of an entity without prices.
            if not specs[0].default or not kinds or specs[0] in fitting:
                spec = (fitting or specs)[0]
                others = tuple(one.id for one in specs if one is not spec)
                chosen.append((replace(item, value=spec.id, others=others), spec.default))
        specific = [item for item, is_default in chosen if not is_default]
        items = [item for item, _ in chosen] if has_entities or not specific else specific
        return [replace(item, value=self._choose_variant(item.value, draft.text)) for item in items]

    def _choose_variant(self, name: str, text: str) -> str:
        """Return the annual or unadjusted variant of an indicator if the question asks for it, else the same id."""
        specs = self._layer.indicators
        # "Annualized" describes a rate, not the length of the period that a value covers.
        if specs[name].annual and says("annual", text) and not re.search(r"annuali[sz]ed", text, re.I | re.A):
            name = specs[name].annual
        # FRED names the pairs so: cpiaucsl and cpiaucns, payems and paynsa.
        twins = (f"{name[:-2]}ns", f"{name[:-3]}nsa", f"{name}nsa", f"{name[:-2]}rnsa")
        unadjusted = (twin for twin in twins if twin in specs and "(NSA)" in specs[twin].unit)
        return next(unadjusted, name) if says("unadjusted", text) else name
