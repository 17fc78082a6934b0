"""Quantifiers of a text: all, none, most or so many of some periods or entities, one alone, and the first time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fathom.domain.text.numerals import NUMBER_WORDS, ONE_TO_TEN, parse_number

COUNT = rf"\d{{1,3}}|{'|'.join(NUMBER_WORDS)}"
UNIT = r"(?P<unit>year|quarter|month|day|session)s?\b"
OF_THE = r"(?:of\s+)?(?:(?:the|its|these|those)\s+)?"
PART = r"(?P<edge>(?:first|last)\s+)?"
MEMBERS = rf"{OF_THE}{PART}(?:(?P<size>{COUNT})\s+)?(?:(?:single|calendar)\s+)?(?:{UNIT})?"
ZH_COUNT = rf"\d{{1,3}}|[两{ONE_TO_TEN}]{{1,3}}"
ZH_UNITS = {"年": "year", "季度": "quarter", "月": "month", "日": "day"}
EVERY_VALUE = "day"
ZH_UNIT = r"(?P<unit>年|季度|月|日)"


class Quantifier(StrEnum):
    """Number of its members that a statement is about."""

    ALL = "all"
    NONE = "none"
    MOST = "most"
    COUNT = "count"
    ONLY = "only"
    FIRST = "first"


# A closed class in both languages. "In three months" may be a span of time: only "of" makes a number of them a count.
PATTERNS = tuple(
    (quantifier, re.compile(words, re.IGNORECASE))
    for quantifier, words in (
        (Quantifier.FIRST, r"\bfor the first time\b|\bfirst(?=\s+(?:time|\w+ed|fell|rose|went|was|stood)\b)"),
        (Quantifier.FIRST, r"首次|首度|第一次"),
        # Before a number, "only" says how little it is.
        (Quantifier.ONLY, r"\bonly\s+(?:in\s+|on\s+)?(?-i:(?=[A-Z]|(?:19|20)\d\d\b))"),
        (Quantifier.ONLY, rf"(?:只有|唯有|仅有?)在?(?=\d{{4}}年|[^\d\s约近不两{ONE_TO_TEN}])"),
        (Quantifier.ALL, rf"\b(?:each|every|all)\s+{MEMBERS}"),
        (Quantifier.ALL, rf"[每各](?:一|个)*(?:自然)?{ZH_UNIT}"),
        (Quantifier.ALL, r"\b(?:throughout|always|at all times)\b|始终|一直"),
        # 三个月都: of each of them. 月月走低: month by month.
        (Quantifier.ALL, rf"(?<=个){ZH_UNIT}份?(?=[^，。]{{0,6}}都)"),
        (Quantifier.ALL, r"(?P<unit>[年月日])(?P=unit)"),
        (
            Quantifier.COUNT,
            rf"(?<![\d.,])\b(?P<count>{COUNT})\s+(?:\w+\s+)?of\s+{OF_THE}(?:(?P<size>{COUNT})\s+)?(?:{UNIT})?",
        ),
        (
            Quantifier.COUNT,
            rf"(?P<size>{ZH_COUNT})个?(?P<unit>年|季度|月)?[^，。；]{{0,8}}?[中里]有?(?P<count>{ZH_COUNT})[个家年只项]",
        ),
        (Quantifier.MOST, rf"\bmost\s+of\s+(?:the\s+|its\s+)?{UNIT}|\b(?:a|the) majority of\b|多数|大部分"),
        (Quantifier.NONE, rf"\b(?:none|not\s+one)\s+{MEMBERS}|\bneither\b|从未|从来没有|无一"),
        (Quantifier.NONE, rf"\bno\s+(?:single\s+)?{UNIT}"),
        (Quantifier.NONE, rf"没有(?:一|任何|哪)个?{ZH_UNIT}"),
    )
)


@dataclass(frozen=True)
class Quantity:
    """A quantifier at offsets ``start`` to ``end`` of a text: ``count`` of ``size`` members, periods of a ``unit``."""

    start: int
    end: int
    quantifier: Quantifier
    unit: str = ""
    count: int = 0
    size: int = 0
    edge: str = ""
    """"first" or "last" where only so many at that end of a period are meant."""

    def hide(self, text: str) -> str:
        """Return the text with blanks in place of the quantifier."""
        return text[: self.start] + " " * (self.end - self.start) + text[self.end :]


def find_quantity(text: str) -> Quantity | None:
    """Return the only quantifier of a text; None without one or with several."""
    found: list[Quantity] = []
    for quantifier, pattern in PATTERNS:
        for match in pattern.finditer(text):
            if not any(one.start < match.end() and match.start() < one.end for one in found):
                found.append(read_quantity(match, quantifier))
    return found[0] if len(found) == 1 else None


def read_quantity(match: re.Match[str], quantifier: Quantifier) -> Quantity:
    """Return the quantifier of a match with its numbers and its unit."""
    held = {name: value.lower() for name, value in match.groupdict().items() if value}
    unit = held.get("unit", "")
    # What always holds does so for each value.
    if quantifier is Quantifier.ALL and not (match.re.groupindex):
        unit = EVERY_VALUE
    # Markets count their days by sessions.
    unit = "day" if unit == "session" else ZH_UNITS.get(unit, unit)
    count, size = (parse_number(held.get(name, "0")) or 0 for name in ("count", "size"))
    return Quantity(match.start(), match.end(), quantifier, unit, count, size, held.get("edge", "").strip())
