"""Rewriting of follow-up questions: names for pronouns, and omitted subjects, measures and periods."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fathom.protocol.pipeline import Asked
from services.policy.backends.rules.operations.names import mentions
from services.policy.backends.rules.question import Kind, read_question
from services.policy.backends.rules.terms import is_chinese, sentences

ENTITIES, MEASURED = ("price", "level"), ("rate", "index", "statement", "currency")
TURN = re.compile(r"^Q\d+: (.*?)\nA\d+(?: \(points\))?:\n(.*?)(?=\n\nQ\d+: |\Z)", re.DOTALL | re.MULTILINE)
PERIOD = re.compile(
    r"(?:from |between |since |自|从)?(?<!\d)(?:19|20)\d\d\s*(?:年|Q[1-4]|-\d\d(?:-\d\d)?)?(?!\d)"
    r"(?:\s*(?:to|and|-|–|至|到)\s*(?:19|20)\d\d\s*年?)?(?:第?[一二三四]季度|[上下]半年|以来|至今)?"
    r"|(?:the )?(?:last|past) (?:\w+ )?(?:years?|quarters?|months?)"
    r"|(?:最近|过去|近)[一二三四五六七八九十两\d]+个?(?:年|季度|月)"
    r"|(?:first|second|third|fourth) quarter of \d{4}|去年|今年|上个?(?:季度|月)",
    re.IGNORECASE,
)
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
FIGURE = re.compile(r"-?\d[\d,]*(?:\.\d+)?\s*%?")
ABOUT = re.compile(
    r"^(?:and|what about|how about|and what about|but)\s+(?:for |in |of )?(.+?)(?: then| too)?\s*\??$", re.I
)
ABOUT_ZH = re.compile(r"^(?:那么?|换成|如果是|还有)?(.+?)呢[?？]?$")
POINTS_BACK = re.compile(
    r"\b(?:that|this|the|those|these)\s+(?:figure|number|value|level|rate|margin|growth|fall|drop|rise|drawdown|return"
    r"|result|gap|difference|change)s?\b|\bso (?:high|low|large|small|much)\b|\b(?:that|this) (?:high|low|good|bad)\b"
    r"|\b(?:industry|sector|market|peer) average\b|\bthat\b(?=\s*(?:\?|$|is|was|so))"
    r"|(?:这个|那个|该|上述|这一)(?:数字?|数值|水平|比例|毛利率|指标|结果|涨幅|跌幅|回撤|差距|变化|说法|结论)|这么[高低大小多少]|那么[高低大小]"
    r"|行业平均|市场平均|同业平均|行业均值",
    re.IGNORECASE,
)


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
    named = re.fullmatch(r"[\u4e00-\u9fff]{2,8}", head) and not POINTING.search(head)
    return [head] if named else []


def rewritten(asked: Asked) -> str:
    """Return one self-contained question; unchanged when the history does not help."""
    question, turns = asked["question"].strip(), TURN.findall(asked["history"])
    if not turns or read_question(question).kind is Kind.CHAT:
        return question
    chinese = is_chinese(question) or (not re.search(r"[A-Za-z]{2}", question) and is_chinese(turns[-1][0]))
    detail = detail_of(question, turns)
    before = Focus()
    for asked_then, answered in reversed(turns):
        before = before.over(focus(asked_then)).over(focus(answered))
    before = detail.over(before)
    carried = carried_over(question, turns[-1][0], chinese)
    if carried is not None:
        return carried
    text = with_names(question, before, chinese)
    return completed(text, before, chinese, bool(detail.entities or detail.metrics or detail.periods))


def detail_of(question: str, turns: Sequence[tuple[str, str]]) -> Focus:
    """Return the focus of the sentence that the question refers to, by a shared figure or a back reference."""
    figures = {match.group().replace(" ", "") for match in FIGURE.finditer(PERIOD.sub(" ", question))}
    for asked_then, answered in reversed(turns):
        for sentence in sentences(answered.replace("- ", "")) or [answered]:
            own = {match.group().replace(" ", "") for match in FIGURE.finditer(sentence)}
            if figures & own:
                return focus(sentence).over(focus(asked_then))
    if not POINTS_BACK.search(question):
        return Focus()
    asked_then, answered = turns[-1]
    wanted = focus(question).metrics
    parts = sentences(answered) or [answered]
    named = [part for part in parts if any(metric.lower() in part.lower() for metric in wanted)]
    return focus((named or parts)[0]).over(focus(asked_then))


def carried_over(question: str, last: str, chinese: bool) -> str | None:
    """Rewrite "And Microsoft?" as the last question with the new part substituted; None for any other question."""
    match = (ABOUT_ZH if chinese else ABOUT).match(question.strip())
    if match is None or len(match.group(1)) > 40:
        return None
    new, old = focus(match.group(1)), focus(last)
    entities = new.entities or (() if new.metrics or new.periods else (match.group(1).strip(" ?？"),))
    text, changed = last, False
    for fresh, stale in ((entities, old.entities), (new.metrics, old.metrics), (new.periods, old.periods)):
        if fresh and stale:
            start, end = text.find(stale[0]), text.rfind(stale[-1]) + len(stale[-1])
            # Several of a kind in one run give way together: "Apple and Microsoft", but not what stands far apart.
            end = end if end - start <= 40 else start + len(stale[0])
            text, changed = text[:start] + (" and " if not chinese else "和").join(fresh) + text[end:], True
    return text if changed else None


def with_names(question: str, before: Focus, chinese: bool) -> str:
    """Replace pronouns by names."""
    if not before.entities:
        return question
    first, last = before.entities[0], before.entities[-1]
    every = ("和" if chinese else " and ").join(before.entities[:3])
    rules = CHINESE_PRONOUNS if chinese else ENGLISH_PRONOUNS
    for pattern, name in rules:
        question = pattern.sub(lambda match, name=name: name(match, first, last, every), question)  # type: ignore[misc]
    return question


Namer = Callable[[re.Match[str], str, str, str], str]


def pronoun(pattern: str, name: Namer) -> tuple[re.Pattern[str], Namer]:
    return re.compile(pattern, re.IGNORECASE), name


ENGLISH_PRONOUNS: tuple[tuple[re.Pattern[str], Namer], ...] = (
    pronoun(r"\bthe former\b", lambda _, first, last, every: first),
    pronoun(r"\bthe latter\b", lambda _, first, last, every: last),
    pronoun(r"\b(?:their|both companies'|these companies')\s", lambda _, first, last, every: f"{every}'s "),
    pronoun(r"\b(?:they|them|both of them|the two(?: companies)?|these companies)\b", lambda _, f, last, every: every),
    pronoun(r"\b(?:its|(?:the|this|that) (?:company|firm|stock|bank)'s)\b", lambda _, first, last, every: f"{first}'s"),
    pronoun(r"\b(?:(?:the|this|that) (?:company|firm|stock|share|bank))\b", lambda _, first, last, every: first),
    pronoun(
        r"\bit\b(?! (?:true|possible|likely|normal|fair|correct|reasonable|because|that|make sense))",
        lambda _, first, last, every: first,
    ),
)
CHINESE_PRONOUNS: tuple[tuple[re.Pattern[str], Namer], ...] = (
    pronoun(r"前者", lambda _, first, last, every: first),
    pronoun(r"后者", lambda _, first, last, every: last),
    pronoun(r"它们|他们|两者|二者|这两家(?:公司)?|这几家(?:公司)?", lambda _, first, last, every: every),
    pronoun(r"它|(?:该|这家|那家|这个)公司|这只股票|该股|其(?![中他它实余])", lambda _, first, last, every: first),
)
MACRO = re.compile(r"\b(?:us|u\.s\.|united states|fed|economy)\b|美国|美联储|宏观|经济", re.IGNORECASE)


def completed(text: str, before: Focus, chinese: bool, detailed: bool) -> str:
    """Append omitted subjects, measures and periods to the question."""
    own = focus(text)
    economy = bool(MACRO.search(text)) or any(one.name.kind in ("rate", "index") for one in mentions(text))
    lacking_entity = () if own.entities or economy else before.entities[:3]
    lacking_metric = before.metrics[:2] if not own.metrics or (detailed and not own.entities) else ()
    lacking_metric = tuple(metric for metric in lacking_metric if metric.lower() not in text.lower())
    timeless = own.periods or re.search(r"\b(?:latest|now|current\w*|today)\b|最新|现在|目前|今天", text, re.IGNORECASE)
    lacking_period = () if timeless else before.periods[:1]
    if not (lacking_entity or lacking_metric or lacking_period):
        return text
    end = re.search(r"[?？。.!！]*$", text)
    body, mark = (text[: end.start()], end.group()) if end else (text, "")
    if chinese:
        about = "".join(["和".join(lacking_entity), *lacking_period, "和".join(lacking_metric)])
        return f"{body}（{about}）{mark or '？'}"
    about = ", ".join(filter(None, [" and ".join(lacking_entity), " and ".join(lacking_metric), *lacking_period]))
    return f"{body} ({about}){mark or '?'}"
