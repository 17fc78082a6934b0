"""Draft of a query: the mentions that the finders made of a question, for the query builder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import blank, is_chinese
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.parser.periods import Reading
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Missing, Transform

NOT_UNDERSTOOD = "NOT_UNDERSTOOD"


@dataclass
class Draft:
    """A question with its mentions.

    ``text`` is without conditions. ``unit`` and ``currency`` are those of the answer, ``reading`` holds the periods,
    ``transform`` the change over time that is asked for.
    """

    layer: Layer
    text: str
    mentions: list[Mention]
    unit: str = ""
    currency: str = ""
    reading: Reading = field(default_factory=Reading)
    transform: Transform = Transform.NONE
    missing: list[Missing] = field(default_factory=list)

    @property
    def entities(self) -> list[str]:
        """Return the entity ids without duplicates, in the order of the text."""
        # Columns come in the order in which a reader has named them.
        return list(dict.fromkeys(item.value for item in select(self.mentions, MentionKind.ENTITY)))

    @property
    def indicators(self) -> list[Mention]:
        return select(self.mentions, MentionKind.INDICATOR)

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of the entities that the question names."""
        return {self.layer.entities[ident].kind for ident in self.entities}

    def blank_names(self, text: str) -> str:
        """Return a text without the names of indicators, whose words are no operators; those of prices are."""
        # "Change in private inventories" is the name of a series, and asks for no change of it.
        named = [item for item in self.indicators if not self.layer.indicators[item.value].default]
        return blank(text, [item.span for item in named])


def list_specs(names: Sequence[str], layer: Layer) -> list[IndicatorSpec]:
    """Return the stored indicators that names and formulas refer to, without duplicates."""
    specs = layer.indicators
    # Units and frequencies are those of the stored series that a formula is made of.
    leaves = ([name] if name in specs else formulas.list_leaves(formulas.parse(name, "question")) for name in names)
    return [specs[name] for name in dict.fromkeys(name for found in leaves for name in found) if name in specs]


def is_rate(spec: IndicatorSpec) -> bool:
    return spec.unit.startswith(("%", "percentage"))


def report_not_understood(phrase: str, why: str) -> Missing:
    """Return a missing item for words of a question that the query does not express."""
    aspect = "未能理解" if is_chinese(phrase) else "not understood"
    return Missing(phrase, NOT_UNDERSTOOD, f"I do not understand {phrase!r} here: {why}", aspect=aspect)
