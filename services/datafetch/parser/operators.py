"""Operators of questions: conditions on values, densities, and the answer's unit."""

from __future__ import annotations

import re
from types import MappingProxyType

from fathom.domain.chat.negation import Denial, denial_ahead
from fathom.services.datafetch.catalog.text import blank, plain
from fathom.services.datafetch.parser.lexicon import choose, cue, cues, group, says
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span
from fathom.services.datafetch.query.model import Frequency
from fathom.services.datafetch.query.units import EN_MONEY, EN_SCALE, ZH_MONEY, ZH_SCALE, parse_unit

OPPOSITES = MappingProxyType({">": "<=", ">=": "<", "<": ">=", "<=": ">"})
# Bare numbers in this range may be years.
YEARS = range(1900, 2100)
# 单位为亿元, 换算成美元, 多少万元, "in million USD", "as percent".
UNIT_WANTED = re.compile(
    rf"(?:单位(?:是|为|:|：|用)?|以|用|按|换算成|折算成|折合成?|换成|多少(?:个)?|几(?:个)?|是|为|\()\s*((?:{ZH_SCALE})?(?:{ZH_MONEY})|{ZH_SCALE})"
    rf"(?:为单位|计算?|表示|的?单位|是?多少)?"
    rf"|\b(?:in|as)\s+((?:{EN_SCALE})s?\s*(?:of\s+)?(?:{EN_MONEY})?|{EN_MONEY}|percent|bps?|basis points)\b",
    re.I | re.A,
)


def find_conditions(text: str) -> list[Mention]:
    """Return the comparisons with amounts, such as "above 5 %", of which no query here is made."""
    found: list[Mention] = []
    rest = text
    for operator, pattern in cues("bounds").items():
        for match in list(pattern.finditer(rest)):
            if not _is_year(match):
                # With its denial, if there is one: "never above 4 %". Not above is at most; never is said of a period.
                denial, start = denial_ahead(text, match.start()) or (None, match.start())
                value = OPPOSITES.get(operator, operator) if denial is Denial.NOT else operator
                found.append(Mention(MentionKind.CONDITION, start, match.end(), value))
                rest = blank(rest, [(start, match.end())])
    return found


def _is_year(match: re.Match[str]) -> bool:
    """Return whether the number of a comparison is a year rather than an amount: "over 2019"."""
    number, has_unit = group(match, "n"), group(match, "u") or group(match, "s")
    # "Over 2019" is a period; "over 2,019", "over 2019 points" and "over 5" are amounts.
    return says("of_years", match[0]) and not has_unit and number.isdecimal() and int(number) in YEARS


def find_density(text: str) -> Frequency:
    """Return the output frequency that a text asks for, or ``NATIVE``."""
    return Frequency(choose("densities", text))


def find_unit(text: str) -> tuple[str, Span] | None:
    """Return the unit that a question asks its answer in, and its span, or None."""
    # Rates first, since 以…表示 is also a unit of money.
    for pattern in (cue("rate_wanted"), UNIT_WANTED):
        match = pattern.search(plain(text))
        # 小数 is a share of one, as 0.05 is for 5 %.
        word = next(filter(None, match.groups())).replace("小数", "fraction") if match else ""
        if match and parse_unit(word) is not None:
            return word, match.span()
    return None
