"""The unit that a question asks its answer in."""

from __future__ import annotations

import re

from fathom.domain.text.numerals import parse_number as parse_count
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.query.units import EN_MONEY, EN_SCALE, ZH_MONEY, ZH_SCALE, parse_unit

# 单位为亿元, 换算成美元, 多少万元, "in million USD", "as percent".
WANTED = re.compile(
    rf"(?:单位(?:是|为|:|：|用)?|以|用|按|换算成|折算成|折合成?|换成|多少(?:个)?|几(?:个)?|是|为|\()\s*((?:{ZH_SCALE})?(?:{ZH_MONEY})|{ZH_SCALE})"
    rf"(?:为单位|计算?|表示|的?单位|是?多少)?"
    rf"|\b(?:in|as)\s+((?:{EN_SCALE})s?\s*(?:of\s+)?(?:{EN_MONEY})?|{EN_MONEY}|percent|bps?|basis points)\b",
    re.I | re.A,
)
# 以百分比表示, 用基点, "in basis points": first, since 以…表示 is also a unit of money.
RATE_WANTED = re.compile(
    r"(?:以|用|按)\s*(百分比|百分数|%|基点|bps?|小数)\s*(?:表示|计|为单位)?|\bin (percent|basis points|bps?)\b",
    re.I | re.A,
)


# "rounded to two decimals", 保留两位小数, 精确到小数点后2位: how many digits the answer is to show.
DIGITS = r"(?P<n{0}>\d|one|two|three|four|[一二两三四])"
# The Chinese words come before the number and its 位, the English ones around it.
ROUNDING = re.compile(
    rf"(?:请|并|且|结果|答案)*(?:四舍五入)?(?:保留|精确)(?:至|到|为)?(?:小数点?)?(?:后|后面)?第?{DIGITS.format('')}位(?:小数)?"
    rf"|\b(?:round(?:ed|ing)?|keep|to|with) (?:it )?(?:to )?{DIGITS.format('_')} (?:decimals?|decimal places|digits)\b",
    re.I | re.A,
)


def find_rounding(text: str) -> tuple[int, tuple[int, int]] | None:
    """Return how many decimals an answer is asked with, and the span of the words, or None."""
    match = ROUNDING.search(text)
    digits = parse_count(match["n"] or match["n_"]) if match else None
    return (digits, match.span()) if match and digits is not None else None


def find_unit(text: str) -> tuple[str, tuple[int, int]] | None:
    """Return the unit that a question asks its answer in, and its span, or None."""
    shown = plain(text)
    for pattern in (RATE_WANTED, WANTED):
        match = pattern.search(shown)
        if match:
            word = next(filter(None, match.groups()))
            if word == "小数":
                word = "fraction"
            if parse_unit(word) is not None:
                return word, match.span()
    return None
