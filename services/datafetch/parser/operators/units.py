"""The unit that a question asks its answer in."""

from __future__ import annotations

import re

from fathom.domain.text.numerals import parse_number as parse_count
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.parser.lexicon import cue, group
from fathom.services.datafetch.query.units import EN_MONEY, EN_SCALE, ZH_MONEY, ZH_SCALE, parse_unit

# 单位为亿元, 换算成美元, 多少万元, "in million USD", "as percent".
WANTED = re.compile(
    rf"(?:单位(?:是|为|:|：|用)?|以|用|按|换算成|折算成|折合成?|换成|多少(?:个)?|几(?:个)?|是|为|\()\s*((?:{ZH_SCALE})?(?:{ZH_MONEY})|{ZH_SCALE})"
    rf"(?:为单位|计算?|表示|的?单位|是?多少)?"
    rf"|\b(?:in|as)\s+((?:{EN_SCALE})s?\s*(?:of\s+)?(?:{EN_MONEY})?|{EN_MONEY}|percent|bps?|basis points)\b",
    re.I | re.A,
)


def find_rounding(text: str) -> tuple[int, tuple[int, int]] | None:
    """Return how many decimals an answer is asked with, and the span of the words, or None."""
    match = cue("rounding").search(text)
    digits = parse_count(group(match, "n")) if match else None
    return (digits, match.span()) if match and digits is not None else None


def find_unit(text: str) -> tuple[str, tuple[int, int]] | None:
    """Return the unit that a question asks its answer in, and its span, or None."""
    shown = plain(text)
    # Rates first, since 以…表示 is also a unit of money.
    for pattern in (cue("rate_wanted"), WANTED):
        match = pattern.search(shown)
        if match:
            word = next(filter(None, match.groups()))
            if word == "小数":
                word = "fraction"
            if parse_unit(word) is not None:
                return word, match.span()
    return None
