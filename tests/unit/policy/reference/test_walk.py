"""The reference policy through whole conversations: what it calls, and that it writes no number of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fathom.domain.chat.messages import Message, Role
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary
from tests.unit.policy.reference.conftest import NAMES, make_tools

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
COMPARE = "Compare the return and the maximum drawdown of Alpha and Beta from 2018 to 2021"
RETURN = ["measure", "return", "return"]
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


def find_cell(talk: Any) -> str:
    """Return the code of the first cell."""
    return str(next(arguments["code"] for name, arguments in talk.calls if name == "python"))


async def test_a_comparison_goes_from_data_to_a_cited_answer(drive: Any, two_companies: Any) -> None:
    two_companies.words += [RETURN, DRAWDOWN]
    two_companies.reads_only = True
    talk = await drive(COMPARE, two_companies)
    assert talk.tools == ["data", "data", "python", "python", "finish"]
    assert talk.calls[1][1] == {
        "intent": talk.calls[1][1]["intent"], "entities": ["AAA", "BBB"], "start_date": "2018-01-01",
        "end_date": "2021-12-31", "include_previous": True,
    }  # fmt: skip
    assert "finance.max_drawdown(sheet_1, '2018-01-01', '2021-12-31')" in find_cell(talk)
    for part in ("{{figure:fig_1}}", "Alpha: maximum drawdown", "Beta: return", "2022-12-28", "no forecast"):
        assert part in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_the_numbers_are_those_of_the_series_the_largest_first(drive: Any, two_companies: Any) -> None:
    two_companies.words += [DRAWDOWN]
    talk = await drive("Maximum drawdown of Alpha and Beta from 2018 to 2021", two_companies)
    frame = two_companies.sheets[0][0]
    falls = {name: (frame[name] / frame[name].cummax() - 1).min() * 100 for name in ("AAA.close_adj", "BBB.close_adj")}
    assert talk.tools == ["data", "python", "python", "finish"]
    assert f"Alpha: maximum drawdown {falls['AAA.close_adj']:.1f}%" in talk.answer
    first, second = ("Alpha", "Beta") if falls["AAA.close_adj"] > falls["BBB.close_adj"] else ("Beta", "Alpha")
    assert talk.answer.index(f"- {first}") < talk.answer.index(f"- {second}")


async def test_a_chinese_question_gets_a_chinese_answer(drive: Any, two_companies: Any) -> None:
    two_companies.words += [["measure", "最大回撤", "max_drawdown"]]
    talk = await drive("比较Alpha和Beta2018年到2021年的最大回撤", two_companies)
    assert "最大回撤-" in talk.answer
    assert "没有预测或建议" in talk.answer
    assert talk.calls[0][1]["intent"].endswith("。")
    assert_grounded(talk)


async def test_a_long_table_of_which_nothing_is_asked_is_summed_up(drive: Any, one_rate: Any) -> None:
    talk = await drive("How has the unemployment rate developed since 2018?", one_rate)
    assert talk.tools == ["data", "python", "python", "finish"]
    assert "lowest" in talk.answer
    assert "drawdown" not in talk.answer
    assert "{{table:sheet_1}}" in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_one_value_takes_two_calls(drive: Any, one_rate: Any) -> None:
    frame, about = one_rate.sheets[0]
    one_rate.sheets = [(frame.iloc[1:2].reset_index(drop=True), {**about, "rows": 1})]
    talk = await drive("What was the unemployment rate in February 2018?", one_rate)
    assert talk.tools == ["data", "finish"]
    assert f"{frame['US.unrate'].iloc[1]}% (2018-02-28) [1]" in talk.answer


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([["measure", "Sharpe ratio", "sharpe"]], "Sharpe ratio"),
        ([["measure", "kurtosis", "kurtosis"]], "kurtosis"),
        ([RETURN, ["condition", "above 5%", "> 5 %"]], "above 5%"),
        ([RETURN, ["parameter", "20 days", "20 days"]], "20 days"),
        ([RETURN, ["indicator", "gross margin", "gross_margin"]], "gross margin"),
        ([RETURN, ["period", "2018 and 2023", "2018-01-01/2018-12-31"]], "2018 and 2023"),
        ([["measure", "correlation", "correlation"], ["entity", "Gamma", "GGG"]], "Tesla"),
    ],
)
async def test_what_cannot_be_computed_is_refused_by_name(
    drive: Any, world: Any, words: list[list[str]], named: str
) -> None:
    unknown = {"subject": "Tesla", "reason": "UNKNOWN_ENTITY", "detail": "no such name", "material": 1}
    entity = [["entity", "Alpha", "AAA"]]
    talk = await drive("What about it, and Tesla?", world(words=[*entity, *words], missing=[unknown]))
    assert "python" not in talk.tools
    assert "I cannot compute this, and give no other figure in its place" in talk.answer
    assert f"“{named}”" in talk.answer
    assert "Missing: Tesla (no such name) [1]." in talk.answer
    assert not NUMBER.search(re.sub(r"\[\d+\]", "", talk.answer.replace(named, "")))


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ([["measure", "Sharpe", "sharpe"], ["parameter", "2%", "2 %"]], "finance.sharpe(sheet_1, 2.0, \"%\", '2018-01', '2021-12-31')"),
        ([["frequency", "weekly", "weekly"], RETURN, ["measure", "correlation", "correlation"]], "finance.correlation(sheet_1, start='2018-01', end='2021-12-31')"),
        ([["measure", "beta", "beta"]], "finance.beta(sheet_1[[\"date\", 'AAA.close_adj']], sheet_1[[\"date\", 'BBB.close_adj']], start='2018-01'"),
        ([["measure", "portfolio", "portfolio"], ["parameter", "60%", "60 %"], ["parameter", "40%", "40 %"]], "finance.portfolio(sheet_1, [0.6, 0.4], 'none', '2018-01', '2021-12-31', 100.0)"),
        ([["measure", "volatility", "volatility"]], "finance.volatility(sheet_1, '2018-01', '2021-12-31')"),
    ],
)  # fmt: skip
async def test_a_measure_is_one_call_of_the_finance_library(
    drive: Any, two_companies: Any, words: list[list[str]], call: str
) -> None:
    two_companies.words += words
    talk = await drive("What of Alpha and Beta?", two_companies)
    assert call in find_cell(talk)
    assert_grounded(talk)
    assert_cited(talk)


async def test_weekly_returns_are_those_of_weeks(drive: Any, two_companies: Any) -> None:
    returns = [
        ["frequency", "weekly", "weekly"],
        ["indicator", "returns", "close_adj"],
        ["measure", "returns", "return"],
    ]
    two_companies.words += [["measure", "correlation", "correlation"], *returns]
    talk = await drive("Correlation of weekly returns of Alpha and Beta", two_companies)
    assert talk.calls[1][1]["frequency"] == "weekly"
    assert "Alpha: return" not in talk.answer


async def test_a_number_in_words_counts_what_the_answer_lists(drive: Any, two_companies: Any) -> None:
    two_companies.words += [DRAWDOWN, ["parameter", "three", "3"]]
    talk = await drive("Maximum drawdown of Alpha and Beta, between which three dates?", two_companies)
    assert "Alpha: maximum drawdown" in talk.answer


async def test_without_a_series_the_closest_ones_are_named(drive: Any, world: Any) -> None:
    bare = world(words=[["unknown", "pump price", ""]])
    head = {"tool": "catalogue", "status": "ok", "material": 1, "unmatched": ["pump"]}
    row = "US | gasallm | retail gasoline price | $ per Gallon | monthly | 1993-04-30..2022-09-30 | source"
    bare.catalogue = lambda arguments: (head, f"entities | indicator | name\n{row}")
    talk = await drive("How is the pump price?", bare)
    assert talk.tools[:2] == ["data", "catalogue"]
    assert "The closest series here: retail gasoline price [1]." in talk.answer


async def test_returns_of_a_period_that_begins_within_a_month_count_from_its_first_day(
    drive: Any, two_companies: Any
) -> None:
    two_companies.words = [*two_companies.words[:2], ["period", "x", "2018-12-31/2020-12-31"], RETURN]
    talk = await drive("Return of Alpha and Beta from end-2018 to end-2020", two_companies)
    assert "finance.holding_return(sheet_1, '2018-12-31', '2020-12-31')" in find_cell(talk)


async def test_the_return_of_a_day_counts_from_the_row_before(drive: Any, two_companies: Any) -> None:
    two_companies.reads_only = True
    two_companies.words = [*two_companies.words[:2], ["period", "9 Nov 2020", "2020-11-09/2020-11-09"], RETURN]
    talk = await drive("Return of Alpha and Beta on 9 November 2020", two_companies)
    assert talk.calls[1][1]["include_previous"]
    assert "finance.holding_return(sheet_1, None, '2020-11-09')" in find_cell(talk)


async def test_a_follow_up_takes_what_it_leaves_out_from_the_question_before(drive: Any, two_companies: Any) -> None:
    history = (Message(Role.USER, "Volatility of Gamma in 2020?"), Message(Role.ASSISTANT, "20% [1]."))
    questions = {
        "Volatility of Gamma in 2020?": [
            ["measure", "Volatility", "volatility"], ["entity", "Gamma", "GGG"], ["period", "2020", "2020-01-01/2020-12-31"],
        ],
        "Same for Alpha": [["output", "Same", "same"], ["entity", "Alpha", "AAA"]],
    }  # fmt: skip
    original = two_companies.data

    def data(arguments: dict[str, Any]) -> Any:
        two_companies.words = questions.get(arguments.get("question", ""), [])
        return original(arguments)

    two_companies.data = data
    talk = await drive("Same for Alpha", two_companies, history=history)
    assert [arguments.get("question") for name, arguments in talk.calls if name == "data"] == [
        "Same for Alpha", "Volatility of Gamma in 2020?", None,
    ]  # fmt: skip
    assert "finance.volatility(sheet_1, '2020-01', '2020-12-31')" in find_cell(talk)


async def test_a_definition_is_quoted(drive: Any, two_companies: Any) -> None:
    two_companies.sheets, two_companies.words = [], [DRAWDOWN]
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools == ["data", "search", "fetch", "finish"]
    assert "“The maximum drawdown is the largest loss from a peak to a later trough." in talk.answer
    assert "herbs" not in talk.answer
    assert_cited(talk)


async def test_a_reason_is_looked_for_in_documents_beside_the_figures(drive: Any, one_rate: Any) -> None:
    talk = await drive("Why did the unemployment rate rise?", one_rate)
    assert talk.tools == ["data", "python", "python", "search", "fetch", "finish"]


@pytest.mark.parametrize("question", ["hello", "你好"])
async def test_a_greeting_ends_at_once(drive: Any, world: Any, question: str) -> None:
    talk = await drive(question, world())
    assert talk.tools == ["data", "finish"]
    assert not NUMBER.search(talk.answer)


async def test_a_failed_data_service_is_admitted(drive: Any, world: Any) -> None:
    talk = await drive(COMPARE, world(failures={"data": ["failed"], "search": ["failed"]}))
    assert "python" not in talk.tools
    assert "data is down" in talk.answer
    assert not NUMBER.search(talk.answer)


async def test_a_failed_cell_leaves_no_number(drive: Any, two_companies: Any) -> None:
    two_companies.words += [RETURN]
    two_companies.failures = {"python": ["failed"]}
    talk = await drive(COMPARE, two_companies)
    assert "python is down" in talk.answer
    assert_grounded(talk)


async def test_a_result_in_no_agreed_form_counts_as_failed(drive: Any, two_companies: Any) -> None:
    two_companies.sheets = []
    two_companies.search = lambda arguments: ({"surprise": True}, "")
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools[-1] == "finish"


async def test_the_last_round_finishes_with_what_is_there(drive: Any, two_companies: Any) -> None:
    two_companies.words += [RETURN]
    talk = await drive(COMPARE, two_companies, nudge_after=2)
    assert talk.tools == ["data", "python", "finish"]
    assert "Alpha: return" in talk.answer
    assert_grounded(talk)


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


async def test_words_that_were_not_understood_are_stated_as_open(drive: Any, one_rate: Any) -> None:
    one_rate.missing = [{"subject": "median", "reason": "NOT_UNDERSTOOD", "material": 1}]
    one_rate.words += [["unknown", "median", ""]]
    talk = await drive("How has the median unemployment rate developed since 2018?", one_rate)
    assert talk.calls[-1][1]["reading"] == {"open": ["median"]}
    assert "Missing" not in talk.answer


async def test_a_calculation_that_fails_is_named_and_leaves_the_tables_of_the_question(
    drive: Any, two_companies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_companies.words += [RETURN]
    printed = '## stdout\n{"measure": "return", "error": "start: leaves AAA the single value of 2021-12-31"}'
    reply = {"tool": "python", "status": "ok", "material": 9, "figures": [], "changed": [], "error": ""}
    monkeypatch.setattr(two_companies, "python", lambda arguments: (reply, printed))
    talk = await drive(COMPARE, two_companies)
    assert talk.tools.count("python") == 1, "nothing is left to draw"
    assert talk.calls[-1][1]["reading"]["open"] == ["return (start: leaves AAA the single value of 2021-12-31)"]
    assert "{{table:sheet_1}}" in talk.answer
    assert_cited(talk)
