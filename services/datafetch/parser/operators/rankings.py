"""Rankings of all entities of a kind: "2021年涨幅最大的三只股票", "which stock had the worst return"."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.query.model import Query, Statistic

WAYS = "hardest|highest|largest|biggest|lowest|smallest|best|worst|strongest|weakest|most|least"
KINDS = "stocks?|companies|company|currencies|currency|shares?"
COUNT = r"\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten"
PATTERNS = [
    re.compile(
        # 涨幅最大的三只股票, 排名前10的公司.
        r"(?P<way>最高|最大|最多|最好|最强|最低|最小|最少|最差|最弱|最惨|最糟|最猛|最狠|最凶|最厉害|排名前|前)\s*(?:的)?(?:前)?(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,2})?\s*(?:家|名|位|只|个|支)?(?:的)?\s*"
        r"(?P<kind>上市公司|公司|企业|股票|个股|货币)"
    ),
    # 哪三只股票跌得最惨: the kind before the superlative, at most twelve characters apart, which is one clause.
    re.compile(r"(?P<kind>哪(?P<n>\d{1,2}|[一两二三四五六七八九十])?[只家支个种]?(?:股票|个股|公司|企业|货币)).{0,12}?(?P<way>最高|最大|最多|最好|最强|最低|最小|最少|最差|最弱|最惨|最糟|最猛|最狠|最凶|最厉害)"),
    re.compile(
        # "the three best performing stocks", "top 5 companies".
        rf"\b(?:(?P<m>{COUNT})\s+)?(?P<way>top|{WAYS})[\s-]*(?:(?P<n>{COUNT})\s+)?(?:[\w-]+\s+){{0,2}}?(?P<kind>{KINDS})\b", re.I | re.A
    ),
    # "which stock had the worst return".
    re.compile(rf"\bwhich\s+(?:(?P<n>{COUNT})\s+)?(?P<kind>{KINDS})\b.{{0,40}}?\b(?P<way>{WAYS})\b", re.I | re.A),
]  # fmt: skip
WORST = re.compile(r"worst|最差|最惨|最糟", re.I)
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip
LOW = ("最低", "最小", "最少", "最差", "最弱", "最惨", "最糟", "lowest", "smallest", "worst", "weakest", "least")
# Words on which a ranking of currencies is one of strength: "appreciated most", 走强.
STRENGTH = re.compile(
    r"升值|贬值|走强|走弱|最强|最弱|涨|跌|\b(?:apprecia|deprecia|strength|weak|strong|gain|lost|lose|fell|rose|best|worst|perform)",
    re.I,
)
WEAKNESS = re.compile(r"贬值|走弱|跌|\b(?:deprecia|weaken|lost|lose|fell|fall)", re.I)
# A ranking by how much was lost: 跌幅, "losers", "declined".
LOSS = re.compile(r"跌幅|跌得|亏损|\b(?:loss|losses|losers?|lost|fell|decline[ds]?|drop(?:ped|s)?)\b", re.I | re.A)


@dataclass(frozen=True)
class Ranking:
    """A ranking in a text: position, entity kind, number of results, and ``low`` for ascending order."""

    span: tuple[int, int]
    kind: str
    count: int
    low: bool


def find(text: str) -> Ranking | None:
    """Parse a ranking, such as "the three best stocks", or return None."""
    for pattern in PATTERNS:
        match = pattern.search(text)
        if match:
            count = parse_number(match.groupdict().get("n") or match.groupdict().get("m") or "1") or 1
            kind = "currency" if re.search("currenc|货币", match["kind"], re.I) else "stock"
            spans = [match.span("way"), match.span("kind")]
            if match.groupdict().get("m"):
                spans[0] = (match.start("m"), spans[0][1])
            span = match.span() if match.start("way") < match.start("kind") else (spans[1][0], spans[0][1])
            return Ranking(span, kind, count, match["way"].lower() in LOW)
    return None


def statistics_of(text: str, asked: Sequence[Statistic], ranking: Ranking) -> tuple[Statistic, ...]:
    """Return the one statistic to rank by; "best performing" is ranked by return.

    Otherwise it is ``LAST`` if that is asked for or the ranking covers all entities, else the lowest or highest value
    of the period.
    """
    kept = [item for item in asked if item not in (Statistic.MAX, Statistic.MIN, Statistic.LAST)]
    if not kept and re.search(
        # "which stock rose most", 表现最好: a move without the name of a statistic is ranked by return.
        r"涨|跌|升|降|\b(?:rose|rise|fell|fall|gain|climb|jump|drop|declin|lost|lose|advance)|升值|贬值|apprecia|deprecia|strength|weak|perform|表现|\bbest\b|\bworst\b|最好|最差|最强|最弱|涨得|跌得",
        text,
        re.I,
    ):
        kept = [Statistic.RETURN]
    if kept:
        return tuple(kept[:1])
    return (
        Statistic.LAST
        if Statistic.LAST in asked or not ranking.count
        else Statistic.MIN
        if ranking.low
        else Statistic.MAX,
    )


def ranked(query: Query, ranking: Ranking, indicator: str, text: str) -> Query:
    """Return the query over all entities of the kind, ordered by an indicator or by the statistic of its period."""
    falls = bool(query.statistics) and query.statistics[0] == Statistic.RETURN and LOSS.search(text) is not None
    drawn = bool(query.statistics) and query.statistics[0] == Statistic.DRAWDOWN
    # The greatest loss and the greatest drawdown are the lowest numbers.
    if ranking.kind == "currency" and query.statistics[:1] == (Statistic.RETURN,) and STRENGTH.search(text):
        # Rates are units per euro: the currency that has risen most has the rate that fell most.
        falls = not WEAKNESS.search(text)
    low = ranking.low != (falls or drawn) if not ((drawn or falls) and ranking.low and WORST.search(text)) else True
    return replace(query, kind=ranking.kind, order=indicator, descending=not low, limit=ranking.count)


def first_columns(table: Any, query: Query) -> Any:
    """Return the key columns of a one-row summary and the first ``limit`` values that pass the filters, sorted.

    Return None when no value passes.
    """
    keys = [name for name in table.column_names if name in ("from", "to")]
    values = {name: table.column(name)[0].as_py() for name in table.column_names if name not in keys}
    # NaN is the one value that differs from itself.
    there = [name for name, value in values.items() if value is not None and value == value]
    there = [name for name in there if all(COMPARE[item.operator](values[name], item.value) for item in query.filters)]
    if not there:
        return None
    # Equal values are ordered by name, so that the answer does not depend on the order of columns.
    order = sorted(there, key=lambda name: (-values[name] if query.descending else values[name], name))
    return table.select([*keys, *order[: query.limit or len(order)]])
