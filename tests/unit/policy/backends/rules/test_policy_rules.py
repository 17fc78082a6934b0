"""The reference policy through whole conversations: what it calls, and that it writes no number of its own."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def assert_grounded(talk: Any) -> None:
    """Every number of the answer stands in a tool result, apart from citation marks and placeholders."""
    answer = re.sub(r"\[\d+\]|\{\{[^}]*\}\}", " ", talk.answer)
    known = " ".join(talk.results)
    for number in NUMBER.findall(answer):
        plain = number.replace(",", "")
        assert plain in known or plain.rstrip("0").rstrip(".") in known, f"{number} is from no tool"


def assert_cited(talk: Any) -> None:
    """Citations name materials that the results carry."""
    known = {int(number) for number in re.findall(r'"material": (\d+)', " ".join(talk.results))}
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", talk.answer)}
    assert cited, "nothing is cited"
    assert cited <= known


async def test_a_comparison_goes_from_data_to_a_cited_answer(drive: Any, two_companies: Any) -> None:
    talk = await drive(
        "Compare the price performance and maximum drawdown of Alpha and Beta from 2018 to 2021", two_companies
    )
    assert talk.tools[:5] == ["think", "data", "python", "python", "think"]
    assert talk.tools[5:7] == ["search", "fetch"]
    assert talk.tools[-1] == "finish"
    assert talk.calls[0][1]["kind"] == "argument decomposition"
    assert "AAA.close_adj" in talk.calls[2][1]["code"]
    assert all(arguments["intent"] for _, arguments in talk.calls)
    for part in ("{{table:sheet_1}}", "{{figure:fig_1}}", "Alpha", "Beta", "2022-12-28", "no forecast", "largest loss"):
        assert part in talk.answer
    assert "herbs" not in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_the_numbers_are_those_of_the_series(drive: Any, two_companies: Any) -> None:
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies)
    frame = two_companies.sheets[0][0]
    first, last = frame["AAA.close_adj"].iloc[0], frame["AAA.close_adj"].iloc[-1]
    fall = (frame["AAA.close_adj"] / frame["AAA.close_adj"].cummax() - 1).min()
    assert f"{(last / first - 1) * 100:+.1f}%" in talk.answer
    assert f"{fall * 100:.1f}%" in talk.answer


async def test_a_chinese_question_gets_a_chinese_answer(drive: Any, two_companies: Any) -> None:
    talk = await drive("比较Alpha和Beta2018年到2021年的股价表现和最大回撤", two_companies)
    assert "最大跌幅" in talk.answer
    assert "不构成建议" in talk.answer
    assert talk.calls[0][1]["intent"].endswith("。")
    assert_grounded(talk)
    assert_cited(talk)


async def test_levels_have_extremes_instead_of_returns(drive: Any, one_rate: Any) -> None:
    talk = await drive("How has the unemployment rate developed since 2018?", one_rate)
    assert "lowest" in talk.answer
    assert "drawdown" not in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_one_value_takes_two_calls_when_the_digest_shows_it(drive: Any, one_rate: Any) -> None:
    talk = await drive("What was the unemployment rate in February 2018?", one_rate)
    assert talk.tools == ["data", "finish"]
    assert f"{one_rate.sheets[0][0]['US.unrate'].iloc[1]}% on 2018-02-28" in talk.answer
    assert_grounded(talk)


async def test_one_value_takes_three_calls_when_a_cell_must_read_it(drive: Any, one_rate: Any) -> None:
    talk = await drive("What was the unemployment rate in March 2020?", one_rate)
    assert talk.tools == ["data", "python", "finish"]
    value = one_rate.sheets[0][0].set_index("date")["US.unrate"]["2020-03-31"]
    assert f"{value}% on 2020-03-31" in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_a_moment_without_a_value_is_said_to_have_none(drive: Any, one_rate: Any) -> None:
    talk = await drive("What was the unemployment rate in March 1950?", one_rate)
    assert "no value for 1950-03" in talk.answer


async def test_a_definition_is_quoted(drive: Any, two_companies: Any) -> None:
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools == ["search", "fetch", "finish"]
    assert "“The maximum drawdown is the largest loss from a peak to a later trough." in talk.answer
    assert_cited(talk)


async def test_a_chinese_definition_is_quoted(drive: Any, two_companies: Any) -> None:
    talk = await drive("什么是最大回撤？", two_companies)
    assert talk.tools == ["search", "fetch", "finish"]
    assert "最大回撤是一段时间内" in talk.answer


UNKNOWN = {"subject": "Tesla", "aspect": "", "period": "", "reason": "UNKNOWN_ENTITY", "nearest": ["Tellurian"]}


async def test_what_is_missing_is_named_without_a_number(drive: Any, world: Any) -> None:
    talk = await drive("How did Tesla shares perform in 2021?", world(missing=[UNKNOWN]))
    assert talk.tools == ["think", "data", "search", "finish"]
    assert "Tesla" in talk.answer
    assert "Tellurian" in talk.answer
    assert not NUMBER.search(talk.answer)


async def test_what_is_missing_is_named_beside_what_was_found(drive: Any, two_companies: Any) -> None:
    two_companies.missing = [UNKNOWN]
    talk = await drive("Compare the returns of Alpha and Tesla since 2018", two_companies)
    assert "Missing: Tesla (not among the known names; nearest known: Tellurian)." in talk.answer
    assert_grounded(talk)


async def test_a_question_that_nothing_matches_is_tried_in_other_words_once(drive: Any, world: Any) -> None:
    nothing = {"subject": "x", "reason": "NO_MATCH", "nearest": []}
    talk = await drive("How has the price of unobtainium developed since 2010?", world(missing=[nothing]))
    questions = [arguments["question"] for name, arguments in talk.calls if name == "data"]
    assert questions == ["How has the price of unobtainium developed since 2010?", "price unobtainium developed 2010"]
    assert "no data" in talk.answer


@pytest.mark.parametrize("question", ["hello", "你好", "What is the weather in Paris?", "thanks!", "???"])
async def test_chat_ends_at_once(drive: Any, world: Any, question: str) -> None:
    talk = await drive(question, world())
    assert talk.tools == ["finish"]


async def test_a_failed_data_service_is_tried_twice_and_then_admitted(drive: Any, world: Any) -> None:
    failing = world(failures={"data": ["failed", "failed"], "search": ["failed"]})
    talk = await drive("Compare the returns of Alpha and Beta since 2018", failing)
    assert talk.tools.count("data") == 2
    assert "python" not in talk.tools
    assert "data is down" in talk.answer
    assert not NUMBER.search(talk.answer)


async def test_a_failed_cell_is_tried_more_simply(drive: Any, two_companies: Any) -> None:
    two_companies.failures = {"python": ["failed"]}
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies)
    cells = [arguments["code"] for name, arguments in talk.calls if name == "python"]
    assert "first_and_last" in cells[1]
    assert "python is down" in talk.answer
    assert_grounded(talk)


async def test_cells_that_keep_failing_leave_the_table_and_no_number(drive: Any, two_companies: Any) -> None:
    two_companies.failures = {"python": ["failed"] * 9, "search": ["failed"] * 9}
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies)
    assert "{{table:sheet_1}}" in talk.answer
    assert "python is down" in talk.answer
    assert_grounded(talk)


async def test_a_figure_that_fails_costs_only_the_figure(drive: Any, two_companies: Any) -> None:
    original = two_companies.python

    def python(arguments: dict[str, Any]) -> Any:
        if "plotly" in arguments["code"]:
            return {"tool": "python", "status": "failed", "error": "ImportError: plotly"}, ""
        return original(arguments)

    two_companies.python = python
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies)
    assert "{{figure" not in talk.answer
    assert "**Alpha** went from" in talk.answer


async def test_a_result_in_no_agreed_form_counts_as_failed(drive: Any, two_companies: Any) -> None:
    two_companies.search = lambda arguments: ({"surprise": True}, "")
    talk = await drive("What is maximum drawdown?", two_companies)
    assert talk.tools[-1] == "finish"


async def test_the_last_round_finishes_with_what_is_there(drive: Any, two_companies: Any) -> None:
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies, nudge_after=3)
    assert talk.tools == ["think", "data", "python", "finish"]
    assert "**Alpha** went from" in talk.answer
    assert_grounded(talk)


async def test_tools_that_are_not_on_offer_are_not_called(drive: Any, two_companies: Any) -> None:
    talk = await drive(
        "Compare the returns of Alpha and Beta since 2018", two_companies, tools=("data", "python", "finish")
    )
    assert set(talk.tools) == {"data", "python", "finish"}


async def test_an_earlier_turn_is_not_mistaken_for_this_one(drive: Any, one_rate: Any) -> None:
    history = (Message(Role.USER, "What is maximum drawdown?"), Message(Role.ASSISTANT, "The largest loss [1]."))
    talk = await drive("What was the unemployment rate in February 2018?", one_rate, history=history)
    assert talk.tools == ["data", "finish"]


async def test_ids_of_a_conversation_are_those_of_the_full_rendering(drive: Any, two_companies: Any) -> None:
    talk = await drive("Compare the returns of Alpha and Beta since 2018", two_companies)
    tokenizer = RulesTokenizer(load_vocabulary())
    tools = [
        ToolSpec(name, name, '{"type": "object"}') for name in ("think", "search", "fetch", "data", "python", "finish")
    ]
    # Everything but the newline after the last turn, which only a next turn would bring.
    assert tokenizer.encode(tokenizer.render(talk.messages, tools, False))[:-1] == talk.token_ids
    assert all(set(completion.log_probs) == {0.0} for completion in talk.completions)


async def test_the_same_conversation_gives_the_same_ids(drive: Any, two_companies: Any, world: Any) -> None:
    question = "Compare the returns of Alpha and Beta since 2018"
    first = await drive(question, world(sheets=two_companies.sheets, documents=two_companies.documents))
    second = await drive(question, world(sheets=two_companies.sheets, documents=two_companies.documents))
    assert first.token_ids == second.token_ids


async def test_short_and_broken_series_do_not_break_the_cells(drive: Any, world: Any) -> None:
    frame = pd.DataFrame(
        {
            "date": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
            "A.close_adj": [1.0, None, 2.0],
            "B.close_adj": [None, None, None],
        }
    ).astype({"B.close_adj": float})
    columns = [{"name": "date", "type": "date32[day]"}] + [
        {"name": name, "type": "double", "unit": "USD", "entity": name[0], "indicator": "close_adj"}
        for name in ("A.close_adj", "B.close_adj")
    ]
    talk = await drive(
        "Compare the returns of A and B since 2019",
        world(sheets=[(frame, {"title": "odd", "rows": 3, "columns": columns})]),
    )
    assert "**A** was 1.0 USD on 2020-01-01 and 2.0 USD on 2020-01-03" in talk.answer
    assert_grounded(talk)


@pytest.mark.parametrize(
    ("question", "phrase", "said"),
    [
        ("Average close of Apple from 2018 to 2021 excluding 2020", "excluding 2020", "Not understood"),
        ("When was the unemployment rate never above 4% from 2018 to 2021?", "never above", "Not understood"),
        ("苹果2018到2021年剔除2020年的平均收盘价", "剔除2020年", "未能理解"),
    ],
)
async def test_what_data_does_not_understand_opens_the_answer_and_no_operation_answers_without_it(
    drive: Any, world: Any, question: str, phrase: str, said: str
) -> None:
    item = {"subject": phrase, "aspect": "not understood", "reason": "NOT_UNDERSTOOD", "material": 1}
    talk = await drive(question, world(missing=[item], documents={"d": (phrase, f"{question}. Apple was there.")}))
    asked = [arguments for name, arguments in talk.calls if name == "data"]
    assert asked == [{"intent": asked[0]["intent"], "question": question}]
    assert "python" not in talk.tools
    assert "fetch" not in talk.tools
    assert talk.answer.startswith(f"{said}")
    assert f"“{phrase}”" in talk.answer


async def test_figures_found_without_regard_to_some_words_come_below_a_warning(drive: Any, one_rate: Any) -> None:
    one_rate.missing = [{"subject": "median", "aspect": "not understood", "reason": "NOT_UNDERSTOOD", "material": 1}]
    talk = await drive("How has the median unemployment rate developed since 2018?", one_rate)
    assert talk.answer.startswith("Not understood: “median” [1]. What follows was found without regard to it")
    assert "Missing" not in talk.answer
