"""Questions about the system itself, as the reference policy answers them: by the catalogue's overview, or by nothing."""

from __future__ import annotations

import json

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain.chat.guidance import ABOUT_DATA, ABOUT_PRODUCT, CORPORA, with_guidance
from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.conversation import read_conversation
from fathom.services.planner.tools.data.catalogue import make_catalogue_reply
from fathom.services.policy.reference.calls import Call
from fathom.services.policy.reference.policy import next_call

TOOLS = ("search", "fetch", "data", "catalogue", "python", "finish")
STOCKS = pb.CatalogKind(
    kind="stock",
    entities=["AAPL", "AMD"],
    entity_count=21,
    indicators=["close_adj"],
    indicator_count=1,
    frequencies=[pb.FREQUENCY_DAILY],
    first_date="1990-01-02",
    last_date="2025-02-14",
    usual_last_date="2022-12-28",
    bases=["total return"],
)
ECONOMY = pb.CatalogKind(
    kind="economy",
    entities=["US"],
    entity_count=1,
    indicators=["gdp", "unrate"],
    indicator_count=732,
    frequencies=[pb.FREQUENCY_MONTHLY, pb.FREQUENCY_QUARTERLY],
    first_date="1919-01-31",
    last_date="2022-09-30",
)
# As the catalogue's tool gives it.
REPLY = make_catalogue_reply(pb.SearchCatalogResponse(kinds=[STOCKS, ECONOMY]), "", 1, 3)
TABLES = [{"name": "sheet_1", "title": "Plants 2023", "rows": 8, "columns": ["plant"]}]


def ask(question: str, *lines: str) -> list[Message]:
    return [Message(Role.SYSTEM, "You are an analyst."), Message(Role.USER, with_guidance(question, list(lines)))]


def answer_by_overview(messages: list[Message], status: str = "ok") -> Call:
    """The policy's next call once it has the catalogue's overview."""
    call = next_call(read_conversation(messages), TOOLS)
    assert (call.tool, set(call.arguments)) == ("catalogue", {"intent"})
    called = ToolCall("c1", "catalogue", json.dumps(dict(call.arguments)))
    head = {"tool": "catalogue", "status": status, **REPLY.head, "tables": TABLES}
    result = f"{json.dumps(head)}\n{REPLY.body}"
    talk = [*messages, Message(Role.ASSISTANT, "", (called,)), Message(Role.TOOL, result, tool_call_id="c1")]
    return next_call(read_conversation(talk), TOOLS)


def test_what_data_there_are_is_answered_by_the_overview() -> None:
    call = answer_by_overview(ask("What data do you have?", ABOUT_DATA[0], f"{CORPORA[0]}memos, filings"))
    answer = call.arguments["answer"]
    assert call.tool == "finish"
    assert "- **Stocks**: AAPL, AMD and others, 21 in all. Measured: close_adj. Frequency: daily;" in answer
    assert "from 1990-01-02 to 2025-02-14, most until 2022-12-28 [3]" in answer
    assert "**Economies**: US. Measured: gdp, unrate and others, 732 in all. Frequency: monthly, quarterly" in answer
    assert "Plants 2023 [3]" in answer
    assert "memos, filings" in answer
    assert "reading" not in call.arguments


def test_the_overview_is_in_the_language_of_the_question() -> None:
    answer = answer_by_overview(ask("你们有哪些数据", ABOUT_DATA[1])).arguments["answer"]
    assert "- **股票**：AAPL, AMD等，共21个。指标：close_adj。频率：日；1990-01-02至2025-02-14 [3]" in answer
    assert "Stocks" not in answer


def test_without_an_overview_the_question_is_researched() -> None:
    assert answer_by_overview(ask("What data do you have?", ABOUT_DATA[0]), "failed").tool == "data"


@pytest.mark.parametrize(
    ("question", "line", "said"),
    [("How do I reset my password?", ABOUT_PRODUCT[0], "whoever operates"), ("怎么改密码", ABOUT_PRODUCT[1], "运营方")],
)
def test_what_no_tool_can_know_is_handed_off_at_once(question: str, line: str, said: str) -> None:
    call = next_call(read_conversation(ask(question, line)), TOOLS)
    assert call.tool == "finish"
    assert said in call.arguments["answer"]
    assert "[" not in call.arguments["answer"]


def test_a_question_that_quotes_the_line_is_no_guidance() -> None:
    call = next_call(read_conversation(ask(f"What is gold's price?\n{ABOUT_PRODUCT[0]}")), TOOLS)
    assert call.tool == "data"
