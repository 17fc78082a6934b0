"""Thoughts get shorter before training, by sentences that are used later; lengths are told before and after."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.trainers.data.compress import Lengths, compress_row, compress_text, spread

THOUGHT = (
    "Okay, let me think about this. The user wants the return of Apple from 2015 to 2020. Let me think about this"
    " again. The weather in Cupertino is nice. I take AAPL.close_adj and divide 132.69 by 27.33."
)
ZH = "好的，我来想一想。用户想知道苹果2015年至2020年的涨幅。天气不错。我用收盘价132.69除以27.33。"


async def words(text: str) -> int:
    return len(text.split())


async def characters(text: str) -> int:
    return len(text)


def row(thought: str, answer: str = "Apple: 132.69 / 27.33, from 2015 to 2020") -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "data", "arguments": '{"entities": ["AAPL"]}'}}
    return {
        "id": "r#0",
        "messages": [
            {"role": "user", "content": "What was the return of Apple? Think about the weather."},
            {"role": "assistant", "content": f"<think>{thought}</think>", "tool_calls": [call], "weight": 1},
            {"role": "tool", "content": "the weather in Cupertino", "tool_call_id": "c"},
            {"role": "assistant", "content": f"<think>{thought}</think>\n<answer>{answer}</answer>", "weight": 1},
        ],
        "tools": [],
        "token_ids": [1, 2],
        "loss_mask": [0, 1],
        "exact": True,
    }


async def test_what_is_used_later_stays_and_numbers_stay_whole() -> None:
    lengths = Lengths()
    short = await compress_text(THOUGHT, "Apple 132.69 / 27.33 from 2015 to 2020 AAPL", 22, words, lengths)
    assert short == (
        "The user wants the return of Apple from 2015 to 2020. I take AAPL.close_adj and divide 132.69 by 27.33."
    )
    assert (lengths.before, lengths.after) == ([37], [19])
    short = await compress_text(ZH, "苹果2015年至2020年：132.69 / 27.33", 45, characters, lengths)
    assert short == "用户想知道苹果2015年至2020年的涨幅。我用收盘价132.69除以27.33。"


async def test_a_short_thought_is_left_alone() -> None:
    lengths = Lengths()
    assert await compress_text("Look it up.", "something else", 8, words, lengths) == "Look it up."
    assert lengths.before == lengths.after == [3]


async def test_a_row_keeps_everything_but_the_thoughts() -> None:
    lengths = Lengths()
    before = row(THOUGHT)
    after = await compress_row(before, 22, words, lengths)
    assert [message["role"] for message in after["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert after["messages"][0] == before["messages"][0]
    assert after["messages"][2] == before["messages"][2]
    assert after["messages"][3]["content"].endswith(
        "</think>\n<answer>Apple: 132.69 / 27.33, from 2015 to 2020</answer>"
    )
    assert after["messages"][1]["tool_calls"] == before["messages"][1]["tool_calls"]
    assert "weather" not in after["messages"][1]["content"]
    assert "token_ids" not in after, "ids of other words"
    assert before == row(THOUGHT), "nothing is changed in place"
    table = lengths.table()
    assert table["before"]["thoughts"] == 2
    assert table["after"]["max"] <= 22
    assert table["ratio"]["sum"] < 0.6


async def test_a_row_without_long_thoughts_keeps_its_ids() -> None:
    before = row("Look it up.")
    assert await compress_row(before, 22, words, Lengths()) == before


async def test_what_the_think_tool_is_told_is_a_thought() -> None:
    content = json.dumps({"intent": "think", "content": THOUGHT, "kind": "plan"})
    call = {"id": "c", "type": "function", "function": {"name": "think", "arguments": content}}
    broken = {"id": "d", "type": "function", "function": {"name": "think", "arguments": "{no json"}}
    before = row("Look it up.")
    before["messages"][1] = {"role": "assistant", "content": "", "tool_calls": [call, broken], "weight": 1}
    after = await compress_row(before, 22, words, Lengths())
    told = json.loads(after["messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert told["content"].startswith("The user wants the return")
    assert (told["intent"], told["kind"]) == ("think", "plan")
    assert after["messages"][1]["tool_calls"][1] == broken


@given(st.text(st.sampled_from("ab 12.3。?!\n苹果")), st.text(st.sampled_from("ab12 苹")), st.integers(1, 20))
async def test_any_text_only_loses_sentences(text: str, used: str, budget: int) -> None:
    lengths = Lengths()
    short = await compress_text(text, used, budget, characters, lengths)
    assert lengths.after[0] <= lengths.before[0] + 1, "a blank may join what a line break did"
    kept = [character for character in short if not character.isspace()]
    rest = iter(character for character in text if not character.isspace())
    assert all(character in rest for character in kept), "a subsequence: nothing is added, nothing moves"


async def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(InvalidField, match="budget"):
        await compress_row(row(THOUGHT), 0, words, Lengths())


def test_how_lengths_are_told() -> None:
    assert spread([3, 1, 2, 10]) == {"thoughts": 4.0, "sum": 16.0, "mean": 4.0, "p50": 3.0, "p95": 10.0, "max": 10.0}
    assert spread([])["mean"] == 0.0
    assert Lengths().table()["ratio"] == {"sum": 1.0}
