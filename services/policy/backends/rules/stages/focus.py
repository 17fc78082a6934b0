"""Names, measures and periods of a text, in its own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.domain.text.scripts import HAN
from fathom.services.policy.backends.rules.names import mentions
from fathom.services.policy.backends.rules.terms import is_chinese

ENTITIES, MEASURED = ("price", "level"), ("rate", "index", "statement", "currency")
# Periods as they stand in questions: "from 2015 to 2020", "2020Q3", "the last three years", 最近两年, 去年.
PERIOD = re.compile(
    r"(?:from |between |since |自|从)?(?<!\d)(?:19|20)\d\d\s*(?:年|Q[1-4]|-\d\d(?:-\d\d)?)?(?!\d)"
    r"(?:\s*(?:to|and|-|–|至|到)\s*(?:19|20)\d\d\s*年?)?(?:第?[一二三四]季度|[上下]半年|以来|至今)?"
    r"|(?:the )?(?:last|past) (?:\w+ )?(?:years?|quarters?|months?)"
    r"|(?:最近|过去|近)[一二三四五六七八九十两\d]+个?(?:年|季度|月)"
    r"|(?:first|second|third|fourth) quarter of \d{4}|去年|今年|上个?(?:季度|月)",
    re.IGNORECASE,
)
# Measures as they stand in questions, longer names before their parts: "gross margin", "maximum drawdown", 营收增速.
METRIC = re.compile(
    r"(?:gross|net|operating|ebitda|profit) margin|(?:share|closing|stock) price|price performance|maximum drawdown"
    r"|drawdown|volatility|returns?\b"
    r"|revenue growth|sales|market share|inventory|debt ratio|dividend yield|yield|turnover"
    r"|inflation|unemployment|(?:net )?income|capital expenditure|valuation|growth"
    r"|毛利率|净利率|营业利润率|股价|收盘价|最大回撤|回撤|波动率|收益率|涨幅|跌幅|营收增速|营收|销售额|市场份额|存货|资产负债率"
    r"|股息率|换手率|通胀|估值|市盈率|增速|走势|表现",
    re.IGNORECASE,
)
CAPITALISED = re.compile(r"\b[A-Z][A-Za-z&]+(?: (?:[A-Z][A-Za-z&]+|of [A-Z]\w+))*")
NOT_NAMES = frozenset(
    """What Which Who Why How When Where Is Are Was Were Did Does Do Has Have Had Compare And But The Its It They Their
    Can Could Would Should Tell Show Give Please In For About From Of On At Over Between Since That This Those These
    Then So If Or Not Same Really Isn Now By Explain List Plot Draw Also Against""".split()  # noqa: SIM905
)
POINTING = re.compile(r"[么这那该其它他哪谁什]|^家?公司|数字|数据")


@dataclass(frozen=True)
class Focus:
    """Subjects of a text, in its own words and in order."""

    entities: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    periods: tuple[str, ...] = ()

    def over(self, other: Focus) -> Focus:
        """Return this focus, with missing parts taken from another."""
        return Focus(self.entities or other.entities, self.metrics or other.metrics, self.periods or other.periods)


def focus(text: str) -> Focus:
    """Extract names (known ones, or else words that look like names), measures and periods."""
    found = mentions(text)
    entities = [text[one.start : one.end] for one in found if one.name.kind in ENTITIES]
    known = [text[one.start : one.end] for one in found if one.name.kind in MEASURED]
    entities = entities or unknown_names(text)
    metrics = [match.group() for match in METRIC.finditer(text)]
    inside = [metric for metric in metrics if not any(metric in other and metric != other for other in known)]
    periods = [match.group().strip() for match in PERIOD.finditer(text)]
    return Focus(*(tuple(dict.fromkeys(part)) for part in (entities, [*known, *inside], periods)))


def unknown_names(text: str) -> list[str]:
    """Return words that look like names: capitalised ones, or Chinese text before a period or a measure."""
    if not is_chinese(text):
        found = (match.group() for match in CAPITALISED.finditer(text))
        stripped = (" ".join(word for word in name.split() if word not in NOT_NAMES) for name in found)
        return [name for name in stripped if len(name) > 1]
    head = re.split(rf"{PERIOD.pattern}|{METRIC.pattern}|的|是|和|与|，", text, maxsplit=1, flags=re.IGNORECASE)[0]
    head = re.sub(r"^(?:请|请问|比较|对比|分析|查询|看看|那么?|它们?|他们|其|该|为什么|为何|这个?|那个?)+", "", head)
    named = re.fullmatch(rf"[{HAN}]{{2,8}}", head) and not POINTING.search(head)
    return [head] if named else []
