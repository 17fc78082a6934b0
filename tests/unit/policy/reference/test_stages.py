"""The reference policy in the stages of a workflow: rewriting, planning, reflecting, composing."""

from __future__ import annotations

import json

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import Asked, ask
from fathom.services.policy.reference.stages import answer, answer_stage, plan, supplement

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


def test_a_question_about_a_whole_topic_takes_the_indicators_of_several_branches() -> None:
    queries = json.loads(plan(Asked("plan", {"question": "How profitable is Apple?", "framework": TREE})))
    assert len({name for query in queries for name in query.get("indicators", ())}) >= 6
    assert [query["tool"] for query in queries] == ["data"] * 3 + ["search"]
    assert all("Apple" in query["subquery"] for query in queries)


def test_a_question_with_a_date_takes_the_data_tool_and_a_reason_documents_too() -> None:
    day, why = "What was Apple's price on 2020-12-31?", "Why did Apple rise in 2020?"
    for question, tools in ((day, ["data"]), (why, ["data", "search"])):
        queries = json.loads(plan(Asked("plan", {"question": question, "framework": TREE})))
        assert [(query["tool"], query["subquery"]) for query in queries] == [(tool, question) for tool in tools]


def test_a_greeting_needs_no_plan() -> None:
    assert json.loads(plan(Asked("plan", {"question": "Hello", "framework": TREE}))) == []


def test_what_the_data_tool_lacks_is_searched_for() -> None:
    asked = "1. [data] Apple gross margin 2020 => empty\n{}\n\n2. [search] Apple news 2020 => ok\n{}"
    assert json.loads(supplement(Asked("reflect", {"asked": asked}))) == {"search": ["Apple gross margin 2020"]}
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


def test_the_answer_cites_tables_and_documents() -> None:
    text = answer(Asked("compose", {"question": "How did Apple's price in 2020 rise?", "material": MATERIAL}))
    assert "73.988 USD (2020-01-02)" in text
    assert "{{table:sheet_1}}" in text
    assert "Its price rose in 2020.” [2]" in text
    chinese = answer(Asked("compose", {"question": "苹果2020年股价表现如何？", "material": MATERIAL}))
    assert "73.988 USD" in chinese


def test_without_material_it_gives_no_figure() -> None:
    text = answer(Asked("compose", {"question": "How did Apple's price perform in 2020?"}))
    assert not any(character.isdigit() for character in text)


def test_every_stage_has_a_reply_and_other_conversations_have_none() -> None:
    for stage in ("rewrite", "plan", "reflect", "compose"):
        messages = [Message(Role.SYSTEM, "s"), Message(Role.USER, ask(stage, {"question": "How is Apple?"}))]
        assert answer_stage(messages)
    assert answer_stage([Message(Role.SYSTEM, "s"), Message(Role.USER, "How is Apple?")]) is None
    assert answer_stage([]) is None


def test_a_correction_is_answered_with_the_same_answer() -> None:
    first = Message(Role.USER, ask("compose", {"question": "How did Apple's price perform?", "material": MATERIAL}))
    said_then = Message(Role.ASSISTANT, "It rose.")
    again = [Message(Role.SYSTEM, "s"), first, said_then, Message(Role.USER, "These places do not hold.")]
    assert answer_stage(again) == answer_stage(again[:2])
