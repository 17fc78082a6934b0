"""Coverage check: words of a question that its query does not express are reported, never dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.datafetch.cues import UNADJUSTED
from services.datafetch.draft import Draft
from services.datafetch.model import Combination, Query, Statistic
from services.datafetch.residue import COMMON, STOP_WORDS, WORD, trimmed
from services.datafetch.semantic.layer import Layer
from services.datafetch.semantic.schema import IndicatorSpec
from services.datafetch.semantic.text import blank, normal

# Stop words for names that still ask for something when no rule has consumed them.
ASKING = frozenset(
    "moving ratio open opened opening adjusted unadjusted nominal rank second third fourth CEO Rank Net".split()  # noqa: SIM905
)
FUNCTION_WORDS = (STOP_WORDS | COMMON | {"economy", "people", "occurred", "happened"}) - ASKING
# Words of degree and method that a parsed statistic already expresses.
EXPRESSED: dict[frozenset[str], frozenset[str]] = {
    frozenset({Statistic.CAGR, Statistic.VOLATILITY, Statistic.DRAWDOWN, Statistic.RETURN}): frozenset(
        {
            "annualised",
            "annualized",
            "年化",
            "max",
            "maximum",
            "worst",
            "deepest",
            "biggest",
            "largest",
            "big",
            "deep",
            "bad",
        }
    ),
    frozenset({Statistic.MAX, Statistic.MIN}): frozenset({"max", "min", "worst", "best", "biggest", "largest"}),
    frozenset({Combination.RATIO}): frozenset({"ratio"}),
}
# "Three months before", "2 years after", 三个月前: a period counted from another one.
OFFSET = re.compile(
    r"\b(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve)[\s-](?:days?|weeks?|months?|quarters?|years?)"
    r"\s+(?:before|after|earlier|later|prior|ahead|following)\b"
    r"|第[二三四五六七八九十\d]{1,2}(?=[高低大小多少好差强弱快慢]|\0)|[\d一二两三四五六七八九十]{1,3}个?(?:天|日|周|月|季度|年)[之以]?[前后]",
    re.IGNORECASE,
)
SHARE = re.compile(r"\bper ?cent(?:age)? of(?=\s*(?:the\s+)?\0)", re.IGNORECASE)
# Names under which the catalog lists prices as the input of a measure that no query computes.
MEASURES = re.compile(r"sharpe|moving average|夏普(?:比率)?|(?:移动)?(?:均线|平均线)|beta", re.IGNORECASE)
DEGREE = re.compile(r"\bhow\s+$", re.IGNORECASE)
# Single characters that remain after trimming a Chinese run and only express a move, a price or a count.
SINGLE = frozenset("涨跌升降价兑除么数指出三四五六七八九十")
CHINESE = re.compile(r"[A-Za-z0-9&·]*[\u3400-\u9fff]+[A-Za-z0-9&·\u3400-\u9fff]*")
PIECES = re.compile(r"中位数|众数|分位数?")
# "Boeing … no, General Electric": words before an ellipsis are withdrawn.
TAKEN_BACK = re.compile(r"\s*(?:…|\.{3})")


def uncovered(draft: Draft, query: Query, layer: Layer) -> list[str]:
    """Return the words of a question that no part of its query expresses, in their order."""
    rest = draft.rest
    if "(nsa)" in units_of(query, layer):
        rest = blank(rest, [match.span() for match in UNADJUSTED.finditer(rest)])
    found = [(match.start(), match[0]) for match in OFFSET.finditer(rest)]
    if query.combination != Combination.RATIO and not any("/" in name for name in query.indicators):
        found += [(match.start(), match[0]) for match in SHARE.finditer(rest)]
    spelt = " ".join(map(normal, names_of(query, layer)))
    said = expressed(query)
    found += [(m.start, m.surface) for m in draft.mentions if MEASURES.fullmatch(m.surface)]
    if draft.ranking:
        said |= {"rank", "Rank"}
    found += [(at, words) for at, words in leftovers(rest, said) if not is_in(normal(words), spelt)]
    return [words for _, words in sorted(found)]


def leftovers(rest: str, said: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the unmatched content words of a blanked question with their positions."""
    for match in WORD.finditer(rest):
        word = match[0].strip("-'")
        lower = word.lower().removesuffix("'s")
        known = {word, lower, word.removesuffix("'s")} & (FUNCTION_WORDS | said) or DEGREE.search(
            rest, 0, match.start()
        )
        if len(word) > 1 and not known and not TAKEN_BACK.match(rest, match.end()):
            yield match.start(), word.removesuffix("'s")
    for run in CHINESE.finditer(rest):
        start, end = trimmed(rest, *run.span())
        # A single remaining character was cut out of a word by one-character phrases: 税前, 市值, 预计.
        if end - start == 1 and rest[start] not in SINGLE:
            start, end = max(run.start(), start - 1), min(run.end(), end + 1)
        elif end == start and (whole := PIECES.search(run[0])):
            # 中位数 consists of the phrases 中, 位 and 数, but is a word.
            start, end = run.start() + whole.start(), run.start() + whole.end()
        words = rest[start:end].lstrip("的")
        if len(words) > 1 and words not in said and not TAKEN_BACK.match(rest, end):
            yield start, words


def expressed(query: Query) -> set[str]:
    """Return the words that the statistics and the combination of a query express."""
    asked = {*query.statistics, query.combination, query.outer}
    return {word for kinds, words in EXPRESSED.items() if kinds & asked for word in words}


def names_of(query: Query, layer: Layer) -> Iterator[str]:
    """Yield all names of a query's indicators and entities."""
    for spec in specs_of(query, layer):
        yield from (spec.name, spec.name_zh, *layer.indicator_names.of(spec.id))
    for entity in (layer.entities[name] for name in query.entities if name in layer.entities):
        yield from (entity.name, entity.name_zh, *entity.aliases)


def units_of(query: Query, layer: Layer) -> str:
    return " ".join(spec.unit for spec in specs_of(query, layer)).lower()


def specs_of(query: Query, layer: Layer) -> list[IndicatorSpec]:
    """Return the indicators of a query, including those within expressions such as ``yoy(gdpc1)``."""
    names = dict.fromkeys(name for text in query.indicators for name in re.findall(r"[a-z]\w*", text))
    return [layer.indicators[name] for name in names if name in layer.indicators]


def is_in(words: str, names: str) -> bool:
    """Return whether words are part of the names, in singular or plural."""
    return words in names or (words.isascii() and words.removesuffix("s") in names)
