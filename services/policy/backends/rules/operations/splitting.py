"""Delegation of independent sub-questions, asked concurrently.

A part that returns no answer is played here, as are all parts when the tool ``delegate`` is unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fathom.domain.chat.tolerant import items
from fathom.services.policy.backends.rules.operations import comparing, hops
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.measures import measured
from fathom.services.policy.backends.rules.operations.periods import Period
from fathom.services.policy.backends.rules.operations.script import Call, Columns, Desk, Play, Script
from fathom.services.policy.backends.rules.reading import Step

# The user asks for delegation: "have researchers look at each in parallel", 分头研究, 拆成几个子问题.
WISH = re.compile(
    r"delegat|sub-?(?:questions?|tasks?|runs?)|researchers?\b|in parallel|"
    r"委派|委托|分头|子问题|子任务|研究员|并行|(?:拆|分)成(?:几|两|三|四|多)",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"[^?？\n]+[?？]")
CITES = re.compile(r"\s*\[[\d, ]+\]")
# As many as one run may delegate by default.
MOST = 4
MEASURE_WORDS = {
    "return": ("return", "收益率"),
    "cagr": ("compound annual growth rate", "年化复合增长率"),
    "volatility": ("volatility", "波动率"),
    "sharpe": ("Sharpe ratio", "夏普比率"),
    "drawdown": ("maximum drawdown", "最大回撤"),
}


@dataclass(frozen=True)
class Part:
    """A sub-question as text and parsed."""

    question: str
    ask: Ask


def recogniser(script_of: Callable[[Ask], Script | None]) -> Callable[[Ask], Script | None]:
    """Return a recogniser of several independent questions, and of comparisons that the user wants delegated."""

    def recognise(ask: Ask) -> Script | None:
        wished = bool(WISH.search(ask.text))
        found = independent(ask, script_of, wished)
        if len(found) > 1:
            return lambda desk: play(desk, found, script_of, None)
        found = by_name(ask) if wished else []
        return (lambda desk: play(desk, found, script_of, comparing.play)) if len(found) > 1 else None

    return recognise


def independent(ask: Ask, script_of: Callable[[Ask], Script | None], wished: bool) -> list[Part]:
    """Return the questions of a list or a sequence if none refers to another and each is worth a run."""
    texts = [text for text in items(ask.text) if "?" in text or "？" in text or wished]
    if len(texts) < 2:
        texts = [match.group().strip() for match in SENTENCE.finditer(ask.text)]
    parts = [Part(text, ask.saying(text)) for text in texts]
    fit = all(
        part.ask.names()
        and not re.search(hops.BACK, part.ask.rest, re.IGNORECASE)
        and (wished or (part.ask.periods and script_of(part.ask) is not None))
        for part in parts
    )
    return parts if fit and 1 < len(parts) <= MOST else []


def by_name(ask: Ask) -> list[Part]:
    """Return the same question for each of the compared series."""
    names = comparing.series_names(ask)
    if not 1 < len(names) <= MOST or ask.question.moment or ask.names("statement"):
        return []
    wanted = [MEASURE_WORDS[name][ask.chinese] for name in ask.measures or comparing.DEFAULT]
    when = [said(period, ask.chinese) for period in ask.periods]
    found = []
    for name in names:
        label = name.label(ask.chinese)
        text = (
            f"{label}{'、'.join(when)}的{'、'.join(wanted)}是多少？"
            if ask.chinese
            else f"What {'were' if len(wanted) > 1 else 'was'} the {listed(wanted)} of {label}{' ' * bool(when)}{', '.join(when)}?"
        )
        found.append(Part(text, ask.saying(text)))
    return found


def listed(words: Sequence[str]) -> str:
    """Join words as "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def said(period: Period, chinese: bool) -> str:
    """Describe a period in words that parse to the same period."""
    start, end = period.start, period.end
    if period.months:
        return f"最近{period.months}个月" if chinese else f"over the past {period.months} months"
    if not end:
        return f"{start[:4]}年以来" if chinese else f"since {start[:4]}"
    if period.day:
        return start if chinese else f"on {start}"
    if period.calendar:
        quarter = f"Q{(int(end[5:7]) + 2) // 3}"
        short = (
            period.text
            if len(period.text) in (4, 7)
            else f"{start[:4]}年{quarter}"
            if chinese
            else f"{quarter} {start[:4]}"
        )
        return (short + "年" * (len(short) == 4)) if chinese else f"in {short}"
    ends = (start[:4], end[:4]) if (start[5:], end[5:]) == ("01-01", "12-31") else (start[:7], end[:7])
    return f"{ends[0]}至{ends[1]}{'年' * (len(ends[0]) == 4)}" if chinese else f"from {ends[0]} to {ends[1]}"


def play(
    desk: Desk, parts: Sequence[Part], script_of: Callable[[Ask], Script | None], alone: Script | None
) -> Play[None]:
    """Delegate all parts at once, report the results, and compare them if possible.

    ``alone`` answers the whole question when no result returns; without it the parts are played one by one.
    """
    steps = yield from asked(desk, parts)
    if alone is not None and not any(step.ok for step in steps):
        yield from alone(desk)
        return
    for part, step in zip(parts, steps, strict=True):
        desk.paragraphs.append(f"### {part.question}")
        if step.ok:
            take(desk, step)
        elif (script := script_of(part.ask)) is not None:
            inner = replace(desk, ask=part.ask)
            yield from script(inner)
            desk.found = desk.found or inner.found
    if alone is not None:
        yield from compare(desk, steps)


def asked(desk: Desk, parts: Sequence[Part]) -> Play[list[Step]]:
    """Return the result of each part; all are delegated in one round."""
    intent = desk.either("Have a researcher of its own answer: {0}", "交给一位研究员单独回答：{0}")
    calls = [Call("delegate", {"intent": intent.format(part.question), "question": part.question}) for part in parts]
    steps = []
    for index, call in enumerate(calls):
        # All in one round: the planner runs them at the same time.
        steps.append((yield replace(call, beside=tuple(calls[index + 1 :]))))
    return steps


def take(desk: Desk, step: Step) -> None:
    """Add the text of a sub-run without paragraphs that an earlier one contains (mostly caveats)."""
    known = {CITES.sub("", paragraph) for paragraph in desk.paragraphs}
    for paragraph in re.split(r"\n{2,}", step.body):
        bare = CITES.sub("", paragraph)
        if bare.strip() and bare not in known:
            known.add(bare)
            desk.paragraphs.append(paragraph.strip())
    desk.found = True


def compare(desk: Desk, steps: Sequence[Step]) -> Play[None]:
    """Rank the series by the requested measures, computed here on the returned tables."""
    ask, columns = desk.ask, Columns()
    for step in steps:
        for sheet in step.head.get("sheets", ()) if step.ok else ():
            if isinstance(sheet, dict):
                desk.take(sheet, comparing.series_names(ask), columns, show=False)
    if len(columns) < 2:
        return
    rows = yield from measured(desk, columns, comparing.over(ask))
    desk.paragraphs.append(desk.either("### Side by side", "### 对比"))
    comparing.leads(desk, rows, ask.measures or comparing.DEFAULT, ())
    yield from comparing.draw(desk, columns, rows)
