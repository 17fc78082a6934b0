"""The reference policy through whole conversations: what it calls, and that it writes no number of its own."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from fathom.domain.chat.messages import Message, Role
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary
from tests.unit.policy.reference.conftest import NAMES, compare, make_program, make_tools, sheet

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
COMPARE = "Compare the return and the maximum drawdown of Alpha and Beta from 2019 to 2021"
DRAWDOWN = ["measure", "maximum drawdown", "max_drawdown"]


def assert_grounded(talk: Any) -> None:
    """Every number of the answer is one of a tool result, rounded, apart from citations and placeholders."""
    answer = re.sub(r"\[\d+\]|\{\{[^}]*\}\}", " ", talk.answer)
    known = [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(talk.results))]
    for text in NUMBER.findall(answer):
        digits = len(text.partition(".")[2])
        value = float(text.replace(",", "").rstrip("."))
        assert any(abs(round(other, digits) - value) < 1e-9 for other in known), f"{text} is from no tool"


def assert_cited(talk: Any) -> None:
    """Citations name materials that the results carry."""
    known = {int(number) for number in re.findall(r'"material": (\d+)', " ".join(talk.results))}
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", talk.answer)}
    assert cited, "nothing is cited"
    assert cited <= known


async def test_a_comparison_goes_from_data_to_a_cited_answer(drive: Any, two_companies: Any) -> None:
    two_companies.program = compare("ret", "drawdown")
    two_companies.reads_only = True
    talk = await drive(COMPARE, two_companies)
    assert talk.tools == ["data", "data", "python", "python", "finish"]
    assert talk.calls[1][1] == {
        "intent": talk.calls[1][1]["intent"], "entities": ["AAA", "BBB"], "indicators": ["close_adj"],
    }  # fmt: skip
    for part in ("{{figure:fig_1}}", "maximum drawdown of Alpha", "return of Beta", "2022-12-28", "no forecast"):
        assert part in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_the_numbers_are_those_of_the_series(drive: Any, two_companies: Any) -> None:
    two_companies.program = compare("drawdown")
    talk = await drive(COMPARE, two_companies)
    frame = two_companies.sheets[0][0].set_index("date").loc["2019":]
    falls = {name: (frame[name] / frame[name].cummax() - 1).min() * 100 for name in ("AAA.close_adj", "BBB.close_adj")}
    assert f"maximum drawdown of Alpha, 2019-01-01 to 2021-12-31: {falls['AAA.close_adj']:.2f}%" in talk.answer
    assert f"maximum drawdown of Beta, 2019-01-01 to 2021-12-31: {falls['BBB.close_adj']:.2f}%" in talk.answer


async def test_a_chinese_question_gets_a_chinese_answer(drive: Any, two_companies: Any) -> None:
    two_companies.program = compare("drawdown")
    talk = await drive("比较Alpha和Beta2018年到2021年的最大回撤", two_companies)
    assert "的最大回撤：-" in talk.answer
    assert "没有预测或建议" in talk.answer
    assert talk.calls[0][1]["intent"].endswith("。")
    assert_grounded(talk)


async def test_a_table_that_no_program_asks_for_is_shown_with_a_doubt(drive: Any, one_rate: Any) -> None:
    talk = await drive("How has the unemployment rate developed since 2018?", one_rate)
    assert talk.tools == ["data", "finish"]
    assert "{{table:sheet_1}}" in talk.answer
    assert "(2018-01-31); " in talk.answer
    assert "may ask for more" in talk.calls[-1][1]["reading"]["open"][0]
    assert_grounded(talk)
    assert_cited(talk)


async def test_words_that_no_table_answers_are_refused_by_name(drive: Any, world: Any) -> None:
    unknown = {"subject": "Tesla", "reason": "UNKNOWN_ENTITY", "detail": "no such name", "material": 1}
    words = [["entity", "Alpha", "AAA"], ["unknown", "kurtosis", ""]]
    talk = await drive("What is the kurtosis of Alpha and Tesla?", world(words=words, missing=[unknown]))
    assert "python" not in talk.tools
    assert "I found nothing that answers this." in talk.answer
    assert talk.calls[-1][1]["reading"]["open"] == ["kurtosis"]
    assert not NUMBER.search(re.sub(r"\[\d+\]", "", talk.answer))


async def test_nothing_found_leaves_the_question_open(drive: Any, world: Any) -> None:
    talk = await drive("What about Alpha?", world(words=[["entity", "Alpha", "AAA"]]))
    assert "I found nothing that answers this." in talk.answer
    assert talk.calls[-1][1]["reading"]["open"] == ["What about Alpha?"]


async def test_a_reason_is_looked_for_in_documents_beside_the_figures(drive: Any, one_rate: Any) -> None:
    rate = {"name": "s1", "entity": "US", "indicator": "unrate", "words": "unemployment rate"}
    one_rate.program = make_program(["f.change(s1)"], series=[rate], words=["unemployment rate"])
    talk = await drive("Why did the unemployment rate rise?", one_rate)
    assert talk.tools == ["data", "data", "python", "python", "search", "fetch", "finish"]
    assert talk.calls[1][1]["entities"] == ["US"]


async def test_a_failed_cell_leaves_no_number(drive: Any, two_companies: Any) -> None:
    two_companies.program = compare("ret")
    two_companies.failures = {"python": ["failed"]}
    talk = await drive(COMPARE, two_companies)
    assert talk.answer == "I found nothing that answers this."
    assert "return of Alpha" in talk.calls[-1][1]["reading"]["open"][0]
    assert_grounded(talk)


async def test_the_last_round_finishes_with_what_is_there(drive: Any, two_companies: Any) -> None:
    two_companies.program = compare("ret")
    talk = await drive(COMPARE, two_companies, nudge_after=3)
    assert talk.tools == ["data", "data", "python", "finish"]
    assert "return of Alpha" in talk.answer
    assert_grounded(talk)


async def test_a_table_that_the_data_tool_has_computed_is_the_answer(drive: Any, world: Any) -> None:
    days = {"from": pd.to_datetime(["1948-01-31"]), "to": pd.to_datetime(["2022-09-30"])}
    frame, described = sheet(pd.DataFrame({**days, "US.count(unrate)": [15.0]}), "United States (count)", "months")
    described["columns"] = [{**described["columns"][0], "name": "from"}, *described["columns"][1:]]
    described["columns"][1] |= {"type": "timestamp[us]", "unit": ""}
    counted = world(
        sheets=[(frame, described)], words=[["indicator", "jobless rate", "unrate"], ["unknown", "in a row", ""]]
    )
    talk = await drive("How many months in a row was the jobless rate 10 % or more?", counted)
    assert talk.tools == ["data", "finish"]
    assert "15 months (1948-01-31 – 2022-09-30)" in talk.answer
    assert talk.calls[-1][1]["reading"]["open"] == ["in a row"]


async def test_one_value_takes_two_calls(drive: Any, one_rate: Any) -> None:
    frame, about = one_rate.sheets[0]
    one_rate.sheets = [(frame.iloc[1:2].reset_index(drop=True), {**about, "rows": 1})]
    talk = await drive("What was the unemployment rate in February 2018?", one_rate)
    assert talk.tools == ["data", "finish"]
    assert f"{frame['US.unrate'].iloc[1]}% (2018-02-28) [1]" in talk.answer


async def test_without_a_series_the_closest_ones_are_named(drive: Any, world: Any) -> None:
    bare = world(words=[["unknown", "pump price", ""]])
    head = {"tool": "catalogue", "status": "ok", "material": 1, "unmatched": ["pump"]}
    row = "US | gasallm | retail gasoline price | $ per Gallon | monthly | 1993-04-30..2022-09-30 | source"
    bare.catalogue = lambda arguments: (head, f"entities | indicator | name\n{row}")
    talk = await drive("How is the pump price?", bare)
    assert talk.tools[:2] == ["data", "catalogue"]
    assert "The closest series here: retail gasoline price [1]." in talk.answer


async def test_a_definition_is_quoted(drive: Any, two_companies: Any) -> None:
    two_companies.sheets, two_companies.words = [], [DRAWDOWN]
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools == ["data", "search", "fetch", "finish"]
    assert "“The maximum drawdown is the largest loss from a peak to a later trough." in talk.answer
    assert "herbs" not in talk.answer
    assert_cited(talk)


@pytest.mark.parametrize("question", ["hello", "你好"])
async def test_a_greeting_ends_at_once(drive: Any, world: Any, question: str) -> None:
    talk = await drive(question, world())
    assert talk.tools == ["finish"]
    assert not NUMBER.search(talk.answer)


async def test_where_the_data_service_fails_the_question_is_open(drive: Any, world: Any) -> None:
    talk = await drive(COMPARE, world(failures={"data": ["failed"], "search": ["failed"]}))
    assert "python" not in talk.tools
    assert talk.calls[-1][1]["reading"]["open"] == [COMPARE]
    assert not NUMBER.search(talk.answer)


async def test_a_result_in_no_agreed_form_counts_as_failed(drive: Any, two_companies: Any) -> None:
    two_companies.sheets = []
    two_companies.search = lambda arguments: ({"surprise": True}, "")
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools[-1] == "finish"


async def test_tools_that_are_not_on_offer_are_not_called(drive: Any, two_companies: Any) -> None:
    talk = await drive(COMPARE, two_companies, tools=("search", "fetch", "finish"))
    assert set(talk.tools) <= {"search", "fetch", "finish"}


async def test_an_earlier_turn_is_not_mistaken_for_this_one(drive: Any, one_rate: Any) -> None:
    history = (Message(Role.USER, "What is maximum drawdown?"), Message(Role.ASSISTANT, "The largest loss [1]."))
    talk = await drive("How has the unemployment rate developed?", one_rate, history=history)
    assert talk.calls[0][1]["question"] == "How has the unemployment rate developed?"


async def test_ids_of_a_conversation_are_those_of_the_full_rendering(drive: Any, two_companies: Any) -> None:
    talk = await drive(COMPARE, two_companies)
    tokenizer = RulesTokenizer(load_vocabulary())
    tools = make_tools(NAMES)
    # Everything but the newline after the last turn, which only a next turn would bring.
    assert tokenizer.encode(tokenizer.render(talk.messages, tools, False))[:-1] == talk.token_ids
    assert all(set(completion.log_probs) == {0.0} for completion in talk.completions)


async def test_the_same_conversation_gives_the_same_ids(drive: Any, two_companies: Any, world: Any) -> None:
    first = await drive(COMPARE, world(sheets=two_companies.sheets, words=two_companies.words))
    second = await drive(COMPARE, world(sheets=two_companies.sheets, words=two_companies.words))
    assert first.token_ids == second.token_ids


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What was the unemployment rate last year?", "US unrate has no data for 2025; the nearest are of 2022-09-30"),
        ("去年的失业率是多少？", "US unrate在2025没有数据，最近的数据是2022-09-30"),
    ],
)
async def test_a_period_behind_the_data_is_refused_with_their_last_day(
    drive: Any, one_rate: Any, question: str, said: str
) -> None:
    one_rate.sheets, one_rate.documents = [], {}
    one_rate.missing = [
        {
            "subject": "US",
            "aspect": "unrate",
            "period": "2025",
            "reason": "NO_DATA_IN_PERIOD",
            "nearest": ["2022-09-30"],
            "material": 1,
        }
    ]
    talk = await drive(question, one_rate)
    assert said in talk.calls[-1][1]["answer"]
    assert talk.calls[-1][1]["reading"] == {"open": [said]}


async def test_words_that_were_not_understood_are_stated_as_open(drive: Any, one_rate: Any) -> None:
    one_rate.missing = [{"subject": "median", "reason": "NOT_UNDERSTOOD", "material": 1}]
    one_rate.words += [["unknown", "median", ""]]
    talk = await drive("How has the median unemployment rate developed since 2018?", one_rate)
    assert talk.calls[-1][1]["reading"] == {"open": ["median"]}
