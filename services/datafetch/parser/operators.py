"""Operators of questions: conditions on values, statistics of groups, rankings, densities, and the answer's unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.domain.chat.negation import Denial, denial_ahead
from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.catalog.text import blank, plain
from fathom.services.datafetch.parser.lexicon import choose, cue, cues, group, says
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span, join_spans
from fathom.services.datafetch.query.model import Frequency, Statistic
from fathom.services.datafetch.query.units import EN_MONEY, EN_SCALE, SCALES, ZH_MONEY, ZH_SCALE, parse_unit

ORDER = list(Frequency)
# Bare numbers in this range may be years.
YEARS = range(1900, 2100)
# The complement on one value, not the mirror: "not above 3" is at most 3.
DENIED = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}
# What a condition chooses, by the phrases that say so; the first that a question holds counts.
PICKS = {"counts": "count", "first": "first", "last_time": "last", "who": "who", "currencies": "who"}
# 单位为亿元, 换算成美元, 多少万元, "in million USD", "as percent".
UNIT_WANTED = re.compile(
    rf"(?:单位(?:是|为|:|：|用)?|以|用|按|换算成|折算成|折合成?|换成|多少(?:个)?|几(?:个)?|是|为|\()\s*((?:{ZH_SCALE})?(?:{ZH_MONEY})|{ZH_SCALE})"
    rf"(?:为单位|计算?|表示|的?单位|是?多少)?"
    rf"|\b(?:in|as)\s+((?:{EN_SCALE})s?\s*(?:of\s+)?(?:{EN_MONEY})?|{EN_MONEY}|percent|bps?|basis points)\b",
    re.I | re.A,
)


@dataclass(frozen=True)
class Bound:
    """One comparison with a number.

    ``rate`` marks a percentage, ``points`` percentage or basis points; ``moved`` is 1 for a rise, -1 for a fall and 0
    for a level.
    """

    operator: str
    value: float
    rate: bool = False
    points: bool = False
    moved: int = 0

    def __str__(self) -> str:
        unit = " percentage points" if self.points else " %" if self.rate else ""
        return f"{self.operator} {self.value:.15g}{unit}"


@dataclass(frozen=True)
class Conditions:
    """The filters of a question.

    ``pick`` is "rows", "count", "first", "last" or "who"; ``kind`` is the entity kind to choose from ("stock",
    "currency") if ``pick`` is "who"; ``every`` is the length of the periods that are counted or listed.
    """

    bounds: tuple[Bound, ...] = ()
    pick: str = "rows"
    kind: str = ""
    every: Frequency = Frequency.NATIVE


@dataclass(frozen=True)
class Grouping:
    """The statistics of a query, of each period of a length if there is one.

    ``every`` is that length, ``outer`` the statistic over these periods, ``count`` the number of periods to return.
    """

    statistics: tuple[Statistic, ...] = ()
    every: Frequency = Frequency.NATIVE
    outer: Statistic | None = None
    count: int = 0


@dataclass(frozen=True)
class Ranking:
    """A ranking of all entities of a kind; ``low`` is ascending, and a ``count`` of 0 stands for all."""

    kind: str
    count: int
    low: bool


def find_conditions(text: str) -> list[Mention]:
    """Return the filters of a normalised text, such as "> 5 %" and "count"; the meaning of each is all of them."""
    found = _find_bounds(text)
    rest = blank(text, [span for span, _ in found])
    said = {name: match for name in (*PICKS, "when") if (match := cue(name).search(rest))}
    found = found or _find_sign(rest, set(said))
    if not found:
        return []
    lengths = (choose("lengths", said[name][0]) for name in ("counts", "when") if name in said)
    every = Frequency(next(filter(None, lengths), ""))
    if every:
        said.pop("who", None)
    if {"first", "when"} <= set(said) and not says("when", text[said["first"].end() :]) and not says("whenever", rest):
        del said["first"]
    pick = next((value for name, value in PICKS.items() if name in said), "rows")
    labels: dict[Span, str] = {}
    for span, bound in found:
        # "Between 2 and 3" is one span with two bounds.
        labels[span] = f"{labels[span]}, {bound}" if span in labels else str(bound)
    labels |= {match.span(): pick for match in said.values()}
    kind = "" if pick != "who" else "currency" if "currencies" in said else "stock"
    meaning = Conditions(tuple(bound for _, bound in found), pick, kind, every)
    return [Mention(MentionKind.CONDITION, *span, value, meaning=meaning) for span, value in labels.items()]


def _find_sign(rest: str, said: set[str]) -> list[tuple[Span, Bound]]:
    """Return a condition without a number: "negative", "up days"."""
    signs = [(pattern, Bound(sign, 0.0)) for sign, pattern in cues("signs").items() if said - {"who", "currencies"}]
    if said & {"counts", "when"}:
        moves = {"1": Bound(">", 0.0, rate=True, moved=1), "-1": Bound("<", 0.0, rate=True, moved=-1)}
        signs += [(pattern, moves[way]) for way, pattern in cues("moves").items()]
    for pattern, bound in signs:
        match = pattern.search(rest)
        stated = _apply_denial(rest, match.start(), bound) if match else None
        if match and stated:
            return [((stated[0], match.end()), stated[1])]
    return []


def _find_bounds(text: str) -> list[tuple[Span, Bound]]:
    """Return the comparisons with numbers and their spans: "between 2 % and 3 %" gives ``>=`` and ``<=``."""
    between = cue("between").search(text)
    if between:
        low, high = (_parse_amount(group(between, name)) for name in ("low", "high"))
        # "Between 2019 and 2021" is a period; "between 2 and 3 billion" has one scale.
        years = any(bound.value in YEARS and not bound.rate and not scale for bound, scale in (low, high))
        if not years or says("in_units", between[0]):
            factor = 1.0 if low[1] else SCALES[high[1]]
            rate = low[0].rate or high[0].rate
            first = replace(low[0], operator=">=", value=low[0].value * factor, rate=rate)
            return [(between.span(), bound) for bound in (first, replace(high[0], operator="<=", rate=rate))]
    found: list[tuple[Span, Bound]] = []
    rest = text
    for operator, pattern in (*cues("bounds").items(), *cues("bounds_behind").items()):
        for match in list(pattern.finditer(rest)):
            bound, scale = _parse_amount(match[0])
            stated = _apply_denial(text, match.start(), replace(bound, operator=operator))
            if stated is None or (not scale and _is_year(match, bound)):
                continue
            # Look before the negation, if there is one: 跌幅没有超过5%.
            ahead = text[: stated[0]]
            moved = -1 if says("fallen", ahead) else 1 if says("risen", ahead) else 0
            span = (stated[0], match.end())
            found.append((span, replace(stated[1], moved=moved)))
            rest = blank(rest, [span])
    return found


def _apply_denial(text: str, start: int, bound: Bound) -> tuple[int, Bound] | None:
    """Return the bound after negation and the start of its phrase: "not above" is ``<=``.

    Return None for a negation over the whole period ("never above"), which no filter on single values expresses: it
    would find the values that pass, not whether all do.
    """
    how, first = denial_ahead(text, start) or (None, start)
    denied = replace(bound, operator=DENIED[bound.operator]) if how else bound
    return None if how is Denial.NEVER else (first, denied)


def _parse_amount(words: str) -> tuple[Bound, str]:
    """Parse the first amount in some words and return its scale ("billion") too.

    Basis points are converted to percentage points.
    """
    match = cue("an_amount").search(words)
    if match is None:
        raise AssertionError(f"the pattern of a condition holds no amount: {words!r}")
    unit, scale = choose("amount_units", match["u"] or ""), (match["s"] or "").lower()
    value = float(match["n"].replace(",", "").replace("$", "")) * SCALES[scale] / (100 if unit == "basis" else 1)
    return Bound("", value, bool(unit), unit in ("points", "basis")), scale


def _is_year(match: re.Match[str], amount: Bound) -> bool:
    """Return whether a number is a year rather than an amount: "over 2019", "2010年以上"."""
    bare = not amount.rate and not group(match, "u")
    # "Over 2019" means during 2019; "above 2019" is a level of an index.
    begins = re.match(r"\s*(?:over|under|beyond)\b", match[0], re.I) is not None
    return bare and amount.value in YEARS and (begins or match.string[match.end() : match.end() + 1] == "年")


def find_grouping(text: str) -> list[Mention]:
    """Return a nested statistic, such as "the three worst months", as a measure, a frequency and a condition."""
    outer = choose("groupings", text)
    match = cue(f"groupings.{outer}").search(text) if outer else None
    if match is None:
        return []
    inner = Statistic.CHANGE if says("counted_things", match[0]) else Statistic.RETURN
    every = Frequency(choose("group_lengths", group(match, "e"), whole=True))
    # The number may stand before the match ("the three worst months"): 16 characters hold it and an article.
    ahead = text[max(0, match.start() - 16) : match.end()]
    counted = cue("several").search(match[0]) or cue("several").search(ahead)
    number = group(counted, "n") if counted else ""
    start = min(match.start(), text.index(number)) if number else match.start()
    found = Grouping((inner,), every, Statistic(outer), (parse_number(number) or 1) if number else 1)
    labels = {MentionKind.MEASURE: inner, MentionKind.FREQUENCY: every, MentionKind.CONDITION: f"{outer} {found.count}"}
    # The name that stands between "which day" and "fell most" is read by others.
    gap = next((match.span(key) for key, words in match.groupdict().items() if key.startswith("gap") and words), None)
    spans = [(start, gap[0]), (gap[1], match.end())] if gap else [(start, match.end())]
    return [Mention(kind, *span, str(value), meaning=found) for span in spans for kind, value in labels.items()]


def find_ranking(text: str) -> list[Mention]:
    """Return a ranking, such as "the three best stocks"."""
    name = choose("rankings", text)
    match = cue(f"rankings.{name}").search(text) if name else None
    if match is None:
        return []
    count = 0 if name == "sorted" else parse_number(group(match, "n") or "1") or 1
    low = cue("lowest").fullmatch(match["way"]) is not None or says("orders.ascending", text)
    found = Ranking(choose("ranked_kinds", match["kind"]), count, low)
    # What stands between is read by others: "which stock rose most", "the five best tech stocks".
    keys = [key for key, words in match.groupdict().items() if key.rstrip("_") in ("way", "kind", "n") and words]
    # Particles and measure words between them are part of the phrase.
    spans = join_spans(sorted(match.span(key) for key in keys), text, " -的前家名位只个支")
    value = f"{'bottom' if low else 'top'} {count} {found.kind}"
    return [Mention(MentionKind.CONDITION, *span, value, meaning=found) for span in spans]


def find_density(text: str) -> Frequency:
    """Return the output frequency that a text asks for, or ``NATIVE``."""
    return Frequency(choose("densities", text))


def find_group_length(text: str, statistics: Sequence[Statistic], native: Frequency) -> Frequency:
    """Return the period length that statistics are computed for, or ``NATIVE`` for the whole period.

    "Annual returns" gives ``ANNUAL``. Except for returns and changes, the length must be coarser than ``native``.
    """
    # A single end is not a frequency: "up to the end of September".
    text = re.sub(r"(?<![每各逐按])[年月季](?:度)?[末底]", "\0", text)
    found = find_density(text) or (Frequency.ANNUAL if says("per_year", text) else Frequency.NATIVE)
    if not statistics or not found or set(statistics) & {Statistic.CAGR, Statistic.LAST}:
        return Frequency.NATIVE
    # The mean of the only value of a month is the series itself; its change is not.
    is_move = set(statistics) <= {Statistic.RETURN, Statistic.CHANGE}
    return found if ORDER.index(found) >= ORDER.index(native) + (not is_move) else Frequency.NATIVE


def find_rounding(text: str) -> tuple[int, Span] | None:
    """Return how many decimals an answer is asked with, and the span of the words, or None."""
    match = cue("rounding").search(text)
    digits = parse_number(group(match, "n")) if match else None
    return (digits, match.span()) if match and digits is not None else None


def find_unit(text: str) -> tuple[str, Span] | None:
    """Return the unit that a question asks its answer in, and its span, or None."""
    # Rates first, since 以…表示 is also a unit of money.
    for pattern in (cue("rate_wanted"), UNIT_WANTED):
        match = pattern.search(plain(text))
        word = next(filter(None, match.groups())).replace("小数", "fraction") if match else ""
        if match and parse_unit(word) is not None:
            return word, match.span()
    return None
