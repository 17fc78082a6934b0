"""The reference policy in the stages of a workflow: rewriting, planning, reflecting, composing."""

from __future__ import annotations

import json

import pytest

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import Asked, ask
from fathom.services.policy.backends.rules.stages.composing import answer
from fathom.services.policy.backends.rules.stages.planning import branches, plan
from fathom.services.policy.backends.rules.stages.reflecting import supplement
from fathom.services.policy.backends.rules.stages.reply import stage_text


def make_turns(turns: list[list[str]]) -> list[Message]:
    return [Message(role, text) for turn in turns for role, text in zip((Role.USER, Role.ASSISTANT), turn, strict=True)]


TREE = """# company: Company
- Profitability
  - Margins
    - gross margin [data]
    - net margin [data]
    - operating margin by segment [data]
  - Cash generation
    - free cash flow margin [data]
  - Returns
    - return on equity [data]
    - return on invested capital [data]
- Growth
  - Record
    - net profit growth [data]
    - revenue growth [data]
  - Drivers
    - new products [search]
- Governance
  - Ownership
    - largest shareholders [data]"""


def test_a_framework_is_read_by_its_levels() -> None:
    found = branches(TREE)
    assert [(one.dimension, one.name) for one in found][:2] == [
        ("Profitability", "Margins"), ("Profitability", "Cash generation"),
    ]  # fmt: skip
    assert found[0].data == ["gross margin", "net margin", "operating margin by segment"]
    assert found[4].search == ["new products"]


def test_how_profitable_a_company_is_takes_many_indicators_of_several_branches() -> None:
    queries = json.loads(plan(Asked("plan", {"question": "How profitable is Apple?", "framework": TREE})))
    named = {name for query in queries for name in query.get("indicators", ())}
    assert len(named) >= 6
    of = {one.name for one in branches(TREE) if named & set(one.data)}
    assert len(of) >= 3
    assert any("by segment" in query["subquery"] for query in queries)
    assert {query["tool"] for query in queries} == {"data", "search"}
    assert "largest shareholders" not in named
    assert all("Apple" in query["subquery"] for query in queries)


@pytest.mark.parametrize(
    ("question", "tools"),
    [
        ("What was Apple's closing price on 2020-12-31?", ["data"]),
        ("How did US unemployment move from 2007 to 2009, and why?", ["data", "search"]),
        ("What is duration?", ["search"]),
        ("苹果2020年股价为什么上涨？", ["data", "search"]),
    ],
)
def test_a_mixed_question_takes_both_tools_and_a_look_up_takes_one(question: str, tools: list[str]) -> None:
    queries = json.loads(plan(Asked("plan", {"question": question})))
    assert list(dict.fromkeys(query["tool"] for query in queries)) == tools
    assert queries[0]["subquery"] == question


def test_chat_needs_no_plan() -> None:
    assert json.loads(plan(Asked("plan", {"question": "Hello", "framework": TREE}))) == []


def test_what_one_tool_lacks_is_asked_of_the_other_in_other_words() -> None:
    asked = "1. [data] Apple gross margin 2020 => empty\n{}\n\n2. [search] Apple news 2020 => ok\n{}"
    found = json.loads(supplement(Asked("reflect", {"asked": asked})))
    assert list(found) == ["search"]
    assert "gross margin" in found["search"][0]
    assert found["search"][0] != "Apple gross margin 2020"
    assert json.loads(supplement(Asked("reflect", {"asked": asked.replace("empty", "ok")}))) == {}


MATERIAL = """[1] table sheet_1: Apple: adjusted close, daily, 2020-01-01 to 2020-12-31 (3 rows)
columns: date, AAPL.close_adj (USD)
sheet_1: 3 rows × 2 columns
head(5)
         date AAPL.close_adj
0  2020-01-02         73.988
1  2020-06-30         90.014
2  2020-12-31        130.735
column | dtype | non-null | null
date | datetime64[us] | 3 | 0

[2] document: Apple: company profile (2020-10-01)
Apple designs and sells the iPhone.

It earns a growing share from services. Its price rose in 2020.

[3] MISSING Apple gross_margin: no match; nearest: net margin"""


def test_the_answer_cites_tables_documents_and_what_is_missing() -> None:
    text = answer(Asked("compose", {"question": "How did Apple's price perform in 2020?", "material": MATERIAL}))
    assert "73.988 USD on 2020-01-02 and 130.735 USD on 2020-12-31 [1]" in text
    assert "{{table:sheet_1}}" in text
    assert "[2]" in text
    assert "gross_margin (nothing matches; nearest known: net margin) [3]" in text
    day = answer(Asked("compose", {"question": "What was Apple's price on 2020-06-30?", "material": MATERIAL}))
    assert "90.014 USD on 2020-06-30 [1]" in day
    assert "130.735" not in day
    chinese = answer(Asked("compose", {"question": "苹果2020年股价表现如何？", "material": MATERIAL}))
    assert "73.988" in chinese
    assert "缺失" in chinese


def test_without_material_it_gives_no_figure() -> None:
    text = answer(Asked("compose", {"question": "How did Apple's price perform in 2020?"}))
    assert not any(character.isdigit() for character in text)


def test_every_stage_has_a_reply_and_other_conversations_have_none() -> None:
    for stage in ("rewrite", "plan", "reflect", "compose"):
        messages = [Message(Role.SYSTEM, "s"), Message(Role.USER, ask(stage, {"question": "How is Apple?"}))]
        assert stage_text(messages)
    assert stage_text([Message(Role.SYSTEM, "s"), Message(Role.USER, "How is Apple?")]) is None
    assert stage_text([]) is None


def test_a_correction_is_answered_with_the_same_answer() -> None:
    first = Message(Role.USER, ask("compose", {"question": "How did Apple's price perform?", "material": MATERIAL}))
    said_then = Message(Role.ASSISTANT, "It rose.")
    again = [Message(Role.SYSTEM, "s"), first, said_then, Message(Role.USER, "These places do not hold.")]
    assert stage_text(again) == stage_text(again[:2])
