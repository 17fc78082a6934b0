"""Groups of entities named together: "the five factor ETFs", "big pharma", 因子ETF(动量、质量…)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.domain.text.numerals import NUMBER_WORDS, ONE_TO_TEN, parse_number
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.parser.mention import Mention, MentionKind, is_free

# A number before a group, with its measure word: 五只, "the five".
COUNT = re.compile(
    rf"(?:all\s+)?(?:the\s+)?(?P<n>\d+|\b(?:{'|'.join(NUMBER_WORDS)})\b|[两{ONE_TO_TEN}])\s*[只个家支种]?\s*$", re.I
)
# A list in parentheses behind a group, and what parts its items.
LISTED, PARTS = re.compile(r"\s*\(([^()]{2,200})\)"), re.compile(r"\s*(?:[、,;和及与]|\band\b)\s*(?:and\s+)?")


def find_groups(text: str, layer: Layer, exact: Sequence[Mention]) -> Iterator[Mention]:
    """Yield a mention of each member of the groups that a text names.

    ``exact`` are the entities named in full. A group whose number differs from the one said is not meant, nor one that
    shares words with one of them, as in "momentum factor ETF". A group of which members are named only says what they
    are, and so does the list in parentheses behind a group that has as many members.
    """
    owned = [item for item in exact if layer.entities[item.value].kind != "economy"]
    for group in layer.group_names.find(text):
        if not is_free(Mention(MentionKind.ENTITY, group.start, group.end, ""), owned):
            continue
        members = layer.list_members(group.id)
        count = COUNT.search(text[: group.start])
        if count and parse_number(count["n"]) != len(members):
            continue
        start, end = count.start() if count else group.start, group.end
        listed = LISTED.match(text, end)
        if listed and len(PARTS.split(listed[1].strip())) == len(members):
            end = listed.end()
        if not set(members).isdisjoint(item.value for item in exact):
            yield Mention(MentionKind.OUTPUT, start, group.end, "described", 0.9)
        else:
            yield from (Mention(MentionKind.ENTITY, start, end, ident, 0.9, "group") for ident in members)
