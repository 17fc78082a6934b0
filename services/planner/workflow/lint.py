"""Routing checks of sub-questions: numbers belong to the data tool, news and interpretation to the search tool."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from services.planner.workflow.record import Fault, SubQuery

DATA, SEARCH = "data", "search"
# What only documents say.
VIEW = re.compile(
    r"\b(?:news|why|reasons?|causes?|caused|drivers?|drove|reports?|notes?|interpret\w*|analysis|analysts?|ratings?"
    r"|views?|opinions?|outlook|expect\w*|forecasts?|guidance|consensus|impact|effects?|risks?"
    r"|polic(?:y|ies)|strateg\w+"
    r"|compet\w+|suppl(?:y|iers)|events?|announce\w*|lawsuit|regulat\w+|management|explain\w*|mean(?:s|ing)?|defin\w+"
    r"|concepts?|methods?|how (?:is|are|does|do)|what (?:is|are|does)|who|background|comment\w*|sentiment|history of"
    r"|segments?|products?|industry|acquisition|merger|launch\w*|crisis|war|documents?)\b"
    r"|新闻|消息|报道|为什么|为何|原因|驱动|背景|研报|研究报告|解读|分析|点评|评级|观点|看法|意见|展望|预期|预测|指引"
    r"|影响|风险|政策|战略|策略|竞争|格局|供应|事件|公告|监管|诉讼|管理层|解释|含义|定义|概念|是什么|什么是|如何|怎么"
    r"|业务|产品|行业|并购|收购|发布|危机|舆情|文件",
    re.IGNORECASE,
)
# What a table has in a column, for names that the library does not happen to hold.
MEASURE = re.compile(
    r"\b(?:(?:share |stock |closing |adjusted )?prices?|close|turnover|volume|margins?|revenues?|sales|profits?"
    r"|income|earnings|eps|roe|roa|roic|ebitda?|assets|liabilit(?:y|ies)|equity|debt|cash flows?|dividends?|yields?"
    r"|rates?|ratios?|growth|gdp|cpi|ppi|pmi|inflation|unemployment|payrolls|returns?|volatility|drawdowns?|beta"
    r"|market cap(?:itali[sz]ation)?|p/?e|p/?b|multiples?|index|exchange rate|inventor(?:y|ies)|receivables?|capex"
    r"|expenses?|costs?|exports?|imports?|balance|money supply|m[012])\b"
    r"|股价|收盘价?|价格|成交量|成交额|换手|毛利|净利|利润|营收|收入|销售额|每股|净资产|资产|负债|权益|现金流|股息|分红"
    r"|收益率|回报|利率|汇率|比率|增速|增长率|同比|环比|失业率|通胀|市值|市盈|市净|估值|指数|波动率|回撤|存货|应收"
    r"|费用|成本|出口|进口|余额|货币供应|率(?![先领])",
    re.IGNORECASE,
)
TIME = re.compile(
    r"(?:19|20)\d\d(?:\s*年|[qQ][1-4])?|第?[一二三四1-4]季度|\b[qh][1-4]\b|\b(?:annual|quarterly"
    r"|monthly|daily|yearly)\b"
    r"|\b(?:from|to|since|in|of|the|and|for|last|past|by|at|on|as|latest|current|value|data|its|s|year|years)\b"
    r"|最近|过去|近[一二三四五六七八九十]年|年度|季度|月度|数据|数值|多少|是|的|和|与|及|年|月|日",
    re.IGNORECASE,
)
WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]", re.IGNORECASE)
NAME_WORDS = 4
"""Words (or Chinese characters) that a company's name may have besides its indicator."""


def fault_of(query: SubQuery, names: Sequence[str]) -> Fault | None:
    """Return the routing fault of a sub-question, or None; ``names`` are known indicators found in its text."""
    text = unicodedata.normalize("NFKC", query.text)
    if query.tool == DATA:
        return None if names or query.indicators or MEASURE.search(text) else Fault.NO_INDICATOR
    if query.tool == SEARCH and not VIEW.search(text) and bare(text, names):
        return Fault.BARE_INDICATOR
    return None


def bare(text: str, names: Sequence[str]) -> bool:
    """Return whether a text is only a name once its indicators and times are removed."""
    if not names and not MEASURE.search(text):
        return False
    rest = text
    for name in sorted(names, key=len, reverse=True):
        rest = re.sub(re.escape(name), " ", rest, flags=re.IGNORECASE)
    rest = TIME.sub(" ", MEASURE.sub(" ", rest))
    return len(WORD.findall(rest)) <= NAME_WORDS


def routed(query: SubQuery, fault: Fault | None) -> SubQuery:
    """Return the sub-question with the tool that suits it."""
    if fault is Fault.NO_INDICATOR:
        return SubQuery(SEARCH, query.text, query.origin, query.indicators)
    if fault is Fault.BARE_INDICATOR:
        return SubQuery(DATA, query.text, query.origin, query.indicators)
    return query


def same_key(query: SubQuery) -> tuple[str, str]:
    """Return a key that is equal for sub-questions that differ in case, width, punctuation or spaces only."""
    folded = unicodedata.normalize("NFKC", query.text).casefold()
    return query.tool, "".join(character for character in folded if character.isalnum())
