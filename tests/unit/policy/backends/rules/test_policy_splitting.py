"""Sub-questions of the reference policy: which questions are shared out, and that a part is read as it was meant."""

from __future__ import annotations

import json

import pytest

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.services.policy.backends.rules.backend import reply
from fathom.services.policy.backends.rules.operations.answering import one_of
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.periods import Period, periods
from fathom.services.policy.backends.rules.operations.splitting import WISH, by_name, independent, recogniser, said
from fathom.services.policy.backends.rules.question import read_question
from fathom.services.policy.model import Request

BOTH = "Compare the drawdown of Apple and Microsoft from 2015 to 2020, one researcher for each"
WHEN = [
    Period("2020-01-01", "2020-12-31", True), Period("2020-04-01", "2020-04-30", True),
    Period("2020-04-01", "2020-06-30", True), Period("2015-01-01", "2020-12-31"), Period("2019-05-01", "2020-06-30"),
    Period("2018-01-01"), Period(months=18), Period("2020-03-23", "2020-03-23"),
]  # fmt: skip


def ask_of(text: str) -> Ask:
    return Ask(read_question(text))


@pytest.mark.parametrize("period", WHEN, ids=lambda period: period.text or "months")
@pytest.mark.parametrize("chinese", [False, True])
def test_a_period_is_read_as_it_was_said(period: Period, chinese: bool) -> None:
    [found] = periods(said(period, chinese))
    if chinese and not period.end and period.start:
        assert found.start == period.start
        return
    assert (found.start, found.end, found.calendar, found.months) == (
        period.start, period.end, period.calendar, period.months,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (BOTH, 2),
        ("把这个问题拆成几个子问题：比较苹果、微软和英伟达2019年的波动率", 3),
        ("1. What was Apple's price return in 2019?\n2. How volatile was Microsoft from 2018 to 2020?", 2),
        ("How did Apple perform from 2015 to 2018? How volatile was Microsoft in 2020?", 2),
        # Without a wish a comparison is one question; parts that refer back are no parts.
        ("Compare the drawdown of Apple and Microsoft from 2015 to 2020", 0),
        ("In which year did Apple fall most since 2005? What did Microsoft do in that year, 2008 or not?", 0),
        ("What is maximum drawdown? What was that of Apple in 2020?", 0),
        ("Ask a researcher: what was Apple's drawdown in 2020?", 0),
    ],
)
def test_which_questions_are_shared_out(question: str, parts: int) -> None:
    ask = ask_of(question)
    wished = bool(WISH.search(question))
    found = independent(ask, one_of, wished) or (by_name(ask) if wished else [])
    assert len(found) == parts
    assert (recogniser(one_of)(ask) is not None) == (parts > 1)
    assert all(one_of(part.ask) is not None for part in found)


def test_all_parts_are_asked_in_one_round_and_only_where_the_tool_is_offered() -> None:
    def said_next(*names: str) -> list[tuple[str, str]]:
        tools = tuple(ToolSpec(name, "", "{}") for name in names)
        request = Request("r", "m", (Message(Role.USER, BOTH),), tools=tools)
        calls = parse_tool_calls(reply(request))[1]
        return [(call.name, str(json.loads(call.arguments_json).get("question", ""))) for call in calls]

    assert said_next("delegate", "data", "python", "finish") == [
        ("delegate", "What was the maximum drawdown of Apple from 2015 to 2020?"),
        ("delegate", "What was the maximum drawdown of Microsoft from 2015 to 2020?"),
    ]
    assert [name for name, _ in said_next("think", "data", "python", "finish")] == ["think"]
