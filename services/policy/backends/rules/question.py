"""Parsing of a question by cue words, in English and Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fathom.domain.text.months import MONTH_NAMES
from fathom.services.policy.backends.rules.terms import is_chinese, words


class Kind(StrEnum):
    """Kind of question, which determines the plan."""

    ANALYSIS = "analysis"
    LOOKUP = "lookup"
    DOCUMENT = "document"
    CHAT = "chat"


@dataclass(frozen=True)
class Aspect:
    """A measure, with its names in explaining documents."""

    name: str
    english: str
    chinese: str
    computed: bool


@dataclass(frozen=True)
class Question:
    """A parsed question. ``moment`` is an ISO date or its prefix ("2020-04") of a look-up; "" for none."""

    text: str
    chinese: bool
    kind: Kind
    aspects: tuple[Aspect, ...]
    moment: str
    background: bool


MAX_CHARS = 4_000
# Specific measures before general ones: the first is what documents are searched for.
ASPECTS = (
    (r"draw-?down|回撤", Aspect("drawdown", "maximum drawdown", "最大回撤", True)),
    (r"volatil|波动", Aspect("volatility", "volatility", "波动率", True)),
    (r"sharpe|夏普", Aspect("sharpe", "Sharpe ratio", "夏普比率", False)),
    (r"\bbeta\b|贝塔", Aspect("beta", "beta", "贝塔系数", False)),
    (r"correlat|相关性|相关系数", Aspect("correlation", "correlation", "相关系数", False)),
    (r"moving average|均线", Aspect("moving average", "moving average", "均线", False)),
    (
        r"yield curve|\bspread\b|inver(?:ted|sion)|收益率曲线|利差|倒挂",
        Aspect("curve", "yield curve", "收益率曲线", False),
    ),
    (
        r"forecast|predict|outlook|will .* (?:rise|fall)|预测|展望|会涨|会跌",
        Aspect("forecast", "forecast", "预测", False),
    ),
    (r"cagr|annuali[sz]ed return|compound|年化", Aspect("growth", "compound annual growth rate", "年化收益率", True)),
    (r"return|perform|gain|收益|表现|涨幅|跌幅", Aspect("return", "total return", "总收益率", True)),
)
# Greetings and small talk as the whole question ("Hi there!", 你好), or questions about the assistant and the weather
# anywhere.
CHAT = re.compile(
    r"^\W*(?:hi|hello|hey|thanks?|thank you|good (?:morning|evening|day)|bye)\b[^?]{0,20}\W*$|who are you|"
    r"what can you do|\bweather\b|tell me a joke|^\W*(?:你好|您好|谢谢|再见)\W*$|你是谁|你能做什么|天气|讲个笑话",
    re.IGNORECASE,
)
# What only a text can say: "what does beta mean", "how is CPI calculated", 什么是夏普比率.
DOCUMENT = re.compile(
    r"\bnews\b|headline|what (?:does|do) .* mean|\bdefin|\bexplain|\bmeaning\b|how (?:is|are) .* "
    r"(?:calculated|computed|measured|defined)|\bwho\b|新闻|消息|什么是|是什么意思|是什么|定义|解释|含义|怎么计算|如何计算|介绍",
    re.IGNORECASE,
)
DEFINITION = re.compile(r"^\W*what(?:'s| is| are)\b", re.IGNORECASE)
BACKGROUND = re.compile(r"\bwhy\b|reason|cause|behind|background|为什么|为何|原因|背景", re.IGNORECASE)
# Courses and comparisons: "how did A do versus B", "from 2015", 走势对比.
ANALYSIS = re.compile(
    r"compar|versus|\bvs\.?\b|\btrend|perform|draw-?down|volatil|return|develop|evol|chang|over (?:the|time)|since|"
    r"between .* and|from \d{4}|highest|lowest|how (?:did|have|has)|history|plot|chart|rank|better|worse|"
    r"比较|对比|相比|走势|趋势|表现|回撤|波动|收益|涨幅|跌幅|变化|以来|历史|最高|最低|哪个更|画|图|排名|至今|情况",
    re.IGNORECASE,
)
# A figure that a table holds: "closing price", "how much", 失业率.
NUMERIC = re.compile(
    r"price|close|rate|yield|level|value|index|how much|how many|number|figure|latest|current|gdp|cpi|inflation|"
    r"unemployment|payroll|exchange|价格|股价|收盘|汇率|利率|收益率|失业率|多少|点位|指数|通胀|数据|最新",
    re.IGNORECASE,
)
LATEST = re.compile(r"latest|current|\bnow\b|today|most recent|最新|目前|现在|今天|最近", re.IGNORECASE)
MONTHS = [name.lower() for name in MONTH_NAMES]
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def read_question(text: str) -> Question:
    """Parse a question, ignoring text beyond ``MAX_CHARS``; deterministic."""
    text = text[:MAX_CHARS]
    aspects = tuple(aspect for cue, aspect in ASPECTS if re.search(cue, text, re.IGNORECASE))
    return Question(
        text=text,
        chinese=is_chinese(text),
        kind=kind_of(text),
        aspects=aspects,
        moment=moment_of(text),
        background=bool(BACKGROUND.search(text)),
    )


def kind_of(text: str) -> Kind:
    """Classify a question: chat, a document, one value, or an analysis of series."""
    if CHAT.search(text) or not words(text):
        return Kind.CHAT
    dated, latest = bool(YEAR.search(text)), bool(LATEST.search(text))
    analysis, numeric = bool(ANALYSIS.search(text)), bool(NUMERIC.search(text))
    if re.search(r"news|headline|新闻|消息", text, re.IGNORECASE):
        return Kind.DOCUMENT
    if DOCUMENT.search(text) and not dated and not (numeric and latest):
        return Kind.DOCUMENT
    # "What is the yield curve" is a definition, "what was it in 2020" is a look-up.
    if DEFINITION.search(text) and not dated and not latest and not re.search(r"compar|versus|\bvs\b", text, re.I):
        return Kind.DOCUMENT
    if (
        moment_of(text)
        and numeric
        and len(set(YEAR.findall(text))) < 2
        and not re.search(r"比较|对比|compar|走势|trend", text)
    ):
        return Kind.LOOKUP
    if latest and numeric and not analysis:
        return Kind.LOOKUP
    if analysis or (numeric and dated):
        return Kind.ANALYSIS
    return Kind.LOOKUP if numeric else Kind.DOCUMENT


def moment_of(text: str) -> str:
    """Return the only day or month that the text names, as an ISO date prefix; "" for none or several."""
    found = {
        f"{y}-{int(m):02d}-{int(d):02d}" for y, m, d in re.findall(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})", text)
    }
    if not found:
        found = {f"{y}-{int(m):02d}" for y, m in re.findall(r"((?:19|20)\d\d)[-/年](\d{1,2})(?!\d)", text)}
    if not found:
        found = english_moments(text)
    # Two dates make a range, which is no look-up of one value.
    return found.pop() if len(found) == 1 else ""


def english_moments(text: str) -> set[str]:
    """Return months and days in words: "April 2020", "March 23, 2020", "23 March 2020"."""
    names = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
    pattern = (
        rf"(?:(\d{{1,2}})(?:st|nd|rd|th)?\s+)?\b({names})\.?\s+(?:(\d{{1,2}})(?:st|nd|rd|th)?,?\s+)?((?:19|20)\d\d)\b"
    )
    moments = set()
    for before, name, after, year in re.findall(pattern, text, re.IGNORECASE):
        month = next(index for index, full in enumerate(MONTHS, 1) if full.startswith(name[:3].lower()))
        day = before or after
        moments.add(f"{year}-{month:02d}" + (f"-{int(day):02d}" if day else ""))
    return moments
