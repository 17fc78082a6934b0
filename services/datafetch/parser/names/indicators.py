"""Indicators named in a question: catalog names, the words that narrow them, and the choice between namesakes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.datafetch.catalog.layer import PARTICLES, Layer
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.names import Mention as NameMatch
from fathom.services.datafetch.parser.lexicon import cue
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.parser.names.coordination import complete_coordinated


def find_indicators(text: str, rest: str, layer: Layer, matcher: Matcher) -> list[Mention]:
    """Return the indicators named in ``rest``, the part of ``text`` that means nothing else.

    Each has all ids of its name, the best one first.
    """
    # A number is no name, though some ids consist of digits.
    named = [m for m in layer.loose_names.find_loosely(rest, PARTICLES) if not m.surface.isdecimal()]
    # "Price-to-earnings" is another name than a price.
    named = [m for m in named if not re.match(r"-[A-Za-z]", text[m.end :])]
    named = complete_coordinated(text, named, layer.loose_names)
    found: list[NameMatch] = []
    for name in named:
        last = found[-1] if found else None
        gap = text[last.end : name.start] if last else ""
        if last and cue("qualifies").fullmatch(gap):
            # "Hourly earnings of production workers": merge only if the joined words still mean the first name.
            near = matcher.match(text[last.start : name.end], 2)
            if near and near[0].id == last.id and near[0].id not in name.ids:
                found[-1] = NameMatch(last.ids, last.start, name.end, text[last.start : name.end])
                continue
        if last and cue("maturity").fullmatch(last.surface) and cue("of_maturity").fullmatch(gap):
            # In "30-year fixed mortgage rate" the maturity belongs to the mortgage rate, not to a Treasury yield.
            found.pop()
            name = NameMatch(name.ids, last.start, name.end, text[last.start : name.end])
        inflation = found and cue("inflation_word").fullmatch(name.surface) and not gap.strip(" 的,，")
        # "CPI inflation" and "PPI vs CPI, annual inflation" are the growth of those indices.
        if inflation and "=100" in layer.indicators[found[-1].id].unit:
            continue
        found.append(name)
    return [Mention(MentionKind.INDICATOR, m.start, m.end, m.id, others=m.ids[1:]) for m in found]


def choose_indicators(
    found: Sequence[Mention], kinds: set[str], text: str, layer: Layer, *, has_entities: bool
) -> list[Mention]:
    """Choose one indicator for each mention: of namesakes that of the entity kinds, and the variant asked for.

    Generic words such as "rise", which name a default indicator, are dropped if they do not apply to the entities, or
    if the question names another indicator and no entity.
    """
    chosen = []
    for item in found:
        specs = [layer.indicators[ident] for ident in item.ids]
        if specs[0].default and kinds and not kinds & set(specs[0].kinds):
            # "Trend" and "rise" do not ask for a price of an entity without prices.
            continue
        fitting = ([spec for spec in specs if kinds & set(spec.kinds)] or specs)[0]
        others = tuple(spec.id for spec in specs if spec is not fitting)
        chosen.append(replace(item, value=fitting.id, others=others))
    specific = [item for item in chosen if not layer.indicators[item.value].default]
    chosen = chosen if has_entities else specific or chosen
    return [replace(item, value=_choose_variant(item.value, text, layer)) for item in chosen]


def _choose_variant(name: str, text: str, layer: Layer) -> str:
    """Return the annual or unadjusted variant of an indicator if the question asks for it, else the same id."""
    specs = layer.indicators
    # "Annualized" describes a rate, not the length of the period that a value covers.
    if specs[name].annual and cue("annual").search(text) and not re.search(r"annuali[sz]ed", text, re.I | re.A):
        name = specs[name].annual
    if not cue("unadjusted").search(text):
        return name
    # FRED names the pairs so: cpiaucsl and cpiaucns, payems and paynsa.
    twins = (f"{name[:-2]}ns", f"{name[:-3]}nsa", f"{name}nsa", f"{name[:-2]}rnsa")
    return next((twin for twin in twins if twin in specs and "(NSA)" in specs[twin].unit), name)
