"""A question as read by operations: names, periods, measures and cue words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from fathom.services.policy.backends.rules.names import Mention, Name, mentions
from fathom.services.policy.backends.rules.operations.periods import Period, periods
from fathom.services.policy.backends.rules.question import MAX_CHARS, Kind, Question, read_question

MEASURES = (
    ("drawdown", r"draw-?down|peak[- ]to[- ]trough|回撤"),
    ("sharpe", r"sharpe|夏普"),
    ("volatility", r"volatil|波动|最稳|steadi|stable"),
    ("cagr", r"cagr|compound(?:ed)? annual|annuali[sz]ed return|年化(?:复合)?(?:收益|回报|增长)|复合(?:年均)?增长"),
    ("return", r"return|perform|gain|\bfell\b|\blose\b|\blost\b|\brose\b|\bdid\b|\bmove|收益|回报|表现|涨|跌|变动"),
)
# Asks what a measure is, beside its value: "what is beta, and …", "explain", 什么是.
DEFINITION = re.compile(
    r"what (?:is|are) (?:the |an? )?[^,?]*(?=\?|, and|$)|\bexplain|\bdefin|\bmeans?\b|什么是|是什么意思|解释|定义|含义",
    re.I,
)


@dataclass(frozen=True)
class Ask:
    """One parsed question. ``given_period`` and ``given_name`` resolve references to earlier parts of the question."""

    question: Question
    given_period: Period | None = None
    given_name: Name | None = None

    @property
    def text(self) -> str:
        return self.question.text[:MAX_CHARS]

    @property
    def chinese(self) -> bool:
        return self.question.chinese

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        return tuple(mentions(self.text))

    @cached_property
    def rest(self) -> str:
        """Return the text with names blanked out, so that "10-year" is not a period and "volatility index" not a measure."""
        text = self.text
        for mention in self.mentions:
            text = text[: mention.start] + " " * (mention.end - mention.start) + text[mention.end :]
        return text

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        # A part of a chain means the period that an earlier part found, whatever it says itself.
        return (self.given_period,) if self.given_period else tuple(periods(self.rest))

    @property
    def period(self) -> Period:
        """Return the first period; an open one without any."""
        return self.periods[0] if self.periods else Period()

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Return the requested measures, specific ones first."""
        return tuple(name for name, cue in MEASURES if re.search(cue, self.rest, re.IGNORECASE))

    def names(self, *kinds: str) -> list[Name]:
        """Return distinct names of these kinds (all without any) in order."""
        given = [self.given_name] if self.given_name else []
        found = [name for name in (*given, *(m.name for m in self.mentions)) if not kinds or name.kind in kinds]
        return list(dict.fromkeys(found))

    def has(self, cue: str) -> bool:
        """Return whether the words besides the names match the cue."""
        return bool(re.search(cue, self.rest, re.IGNORECASE))

    def place(self, cue: str) -> int:
        """Return the position of a cue; -1 when it is absent."""
        match = re.search(cue, self.rest, re.IGNORECASE)
        return match.start() if match else -1

    def part(self, start: int, end: int) -> Ask:
        """Return a part of the question as its own question, in the same language."""
        return self.saying(self.text[start:end])

    def saying(self, text: str) -> Ask:
        """Return another text as a question in the language of this one."""
        return Ask(replace(read_question(text), chinese=self.chinese, kind=Kind.ANALYSIS))

    @property
    def wants_definition(self) -> bool:
        return bool(DEFINITION.search(self.text)) and bool(self.question.aspects)
