"""Test what models write in a stage, well-formed or not: typed flaws, never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.planner.model.stages import Fault, SubQuery
from fathom.services.planner.workflow.stage_outputs import MAX_QUERIES, read_plan, read_question, read_reflection

TOOLS = ("data", "search")
HTML = "<html><body><script>alert(1)</script><p>Here is your plan</p></body></html>"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("What was Apple's price in 2020?", "What was Apple's price in 2020?"),
        ('"What was Apple\'s price in 2020?"', "What was Apple's price in 2020?"),
        ("“苹果2020年的毛利率是多少？”", "苹果2020年的毛利率是多少？"),
        ("Rewritten question: What was it?", "What was it?"),
        ("改写后的问题：苹果2020年股价如何？", "苹果2020年股价如何？"),
        ("Here is the question:\n\nWhat was Apple's price?\n", "What was Apple's price?"),
        ("```\nWhat was Apple's price?\n```", "What was Apple's price?"),
        ("<think>hm, Apple</think>\nWhat was Apple's price?", "What was Apple's price?"),
        ('{"question": "What was Apple\'s price?"}', "What was Apple's price?"),
        ("**What was Apple's price?**", "What was Apple's price?"),
        ("<b>What was Apple's price?</b>", "What was Apple's price?"),
        ("What   was\tApple's price?", "What was Apple's price?"),
        ("Compare Apple and Microsoft", "Compare Apple and Microsoft"),
        ("First line\nWhat was it?\nI added the name.", "What was it?"),
    ],
)
def test_the_rewriting_gives_exactly_one_question(text: str, wanted: str) -> None:
    assert read_question(text, "as it was?", 500) == (wanted, ())


@pytest.mark.parametrize(("text", "fault"), [("", Fault.EMPTY), (" \n\t", Fault.EMPTY), ("---", Fault.EMPTY),
                                             ("<br/>", Fault.EMPTY), ("{}", Fault.EMPTY), ("x" * 600, Fault.TOO_LONG)])  # fmt: skip
def test_an_unusable_rewriting_leaves_the_question_as_it_was(text: str, fault: Fault) -> None:
    question, flaws = read_question(text, "as it was?", 500)
    assert question == "as it was?"
    assert [flaw.fault for flaw in flaws] == [fault]


PLAN = [SubQuery("data", "Apple price 2020"), SubQuery("search", "Apple news")]


@pytest.mark.parametrize(
    "text",
    [
        '[{"tool": "data", "subquery": "Apple price 2020"}, {"tool": "search", "subquery": "Apple news"}]',
        '```json\n[{"tool": "data", "subquery": "Apple price 2020"}, {"tool": "search", "subquery": "Apple news"}]\n```',
        'My plan:\n[{"tool":"data","query":"Apple price 2020"},{"tool":"search","query":"Apple news"},]\nGood luck!',
        "[{'tool': 'data', 'subquery': 'Apple price 2020'}, {'tool': 'search', 'subquery': 'Apple news'}]",
        '{"queries": [{"tool": "data", "subquery": "Apple price 2020"}, {"tool": "search", "subquery": "Apple news"}]}',
        '{"data": ["Apple price 2020"], "search": "Apple news"}',
        '{"data": [{"subquery": "Apple price 2020"}], "search": [{"q": "Apple news"}]}',
        '<think>two tools</think>[{"tool": "Data ", "subquery": " Apple  price 2020"}, {"tool": "SEARCH", "subquery": "Apple news"}]',
        '［{"tool"："data"，"subquery"："Apple price 2020"}，{"tool"："search"，"subquery"："Apple news"}］',
        '[{"tool": "data", "subquery": "Apple price 2020"}, {"tool": "search", "subquery": "Apple news"}',
        '[{"tool": "data", "subquery": "<b>Apple</b> price 2020"}, {"tool": "search", "subquery": "Apple news"}]',
    ],
)
def test_plans_are_read_in_every_form(text: str) -> None:
    assert read_plan(text, TOOLS) == (PLAN, [])


def test_indicators_are_read_as_a_list_or_a_line() -> None:
    text = '[{"tool": "data", "subquery": "Apple", "indicators": ["gross margin", 5, "gross margin", "ROE"]}]'
    assert read_plan(text, TOOLS)[0] == [SubQuery("data", "Apple", indicators=("gross margin", "ROE"))]
    text = '[{"tool": "data", "subquery": "苹果", "indicators": "毛利率、净利率"}]'
    assert read_plan(text, TOOLS)[0] == [SubQuery("data", "苹果", indicators=("毛利率", "净利率"))]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [Fault.EMPTY]),
        ("I would look at the numbers first.", [Fault.NOT_JSON]),
        (HTML, [Fault.NOT_JSON]),
        ("[]", []),
        ("{}", []),
        ('[{"tool": "weather", "subquery": "rain"}]', [Fault.UNKNOWN_TOOL]),
        ('[{"subquery": "rain"}]', [Fault.UNKNOWN_TOOL]),
        ('[{"tool": "data"}]', [Fault.NO_QUERY]),
        ('[{"tool": "data", "subquery": "???"}]', [Fault.NO_QUERY]),
        ('[{"tool": "data", "subquery": "' + "x" * 500 + '"}]', [Fault.TOO_LONG]),
        ('[{"tool": ["data"], "subquery": 5}]', [Fault.UNKNOWN_TOOL]),
        ("[1, 2, 3]", [Fault.NO_QUERY] * 3),
        ("null", [Fault.NOT_JSON]),
    ],
)
def test_a_useless_plan_is_empty_and_says_why(text: str, faults: list[Fault]) -> None:
    queries, flaws = read_plan(text, TOOLS)
    assert queries == []
    assert [flaw.fault for flaw in flaws] == faults


def test_a_plan_that_is_half_good_keeps_its_good_half() -> None:
    text = '[{"tool": "weather", "subquery": "rain"}, "x", {"tool": "data", "subquery": "Apple price 2020"}]'
    queries, flaws = read_plan(text, TOOLS)
    assert queries == PLAN[:1]
    assert [flaw.fault for flaw in flaws] == [Fault.UNKNOWN_TOOL, Fault.NO_QUERY]


def test_a_flood_of_sub_questions_is_cut() -> None:
    items = ",".join(f'{{"tool": "search", "subquery": "news {n}"}}' for n in range(100))
    queries, flaws = read_plan(f"[{items}]", TOOLS)
    assert len(queries) == MAX_QUERIES
    assert [flaw.fault for flaw in flaws] == [Fault.TOO_MANY]


@pytest.mark.parametrize(
    ("text", "wanted", "faults"),
    [
        ("{}", [], []),
        ('{"search": ["Apple news"]}', [SubQuery("search", "Apple news", "reflect")], []),
        ('{"missing": {"data": "Apple price"}}', [SubQuery("data", "Apple price", "reflect")], []),
        ('{"data": [], "search": []}', [], []),
        ('{"weather": ["rain"], "data": ["Apple price"]}', [SubQuery("data", "Apple price", "reflect")],
         [Fault.UNKNOWN_TOOL]),
        ('[{"tool": "data", "subquery": "Apple price"}]', [SubQuery("data", "Apple price", "reflect")], []),
        ("Nothing is missing.", [], [Fault.NOT_JSON]),
        (HTML, [], [Fault.NOT_JSON]),
        ("", [], [Fault.EMPTY]),
    ],
)  # fmt: skip
def test_reflections_are_keyed_by_tool(text: str, wanted: list[SubQuery], faults: list[Fault]) -> None:
    queries, flaws = read_reflection(text, TOOLS)
    assert queries == wanted
    assert [flaw.fault for flaw in flaws] == faults


@given(st.text(alphabet="[]{}\":,\\ntolaqueryd'<>", max_size=120))
def test_no_text_breaks_a_reader(text: str) -> None:
    for read in (read_plan, read_reflection):
        queries, _ = read(text, TOOLS)
        assert all(query.tool in TOOLS and query.text for query in queries)
    assert "\n" not in read_question(text, "fallback", 100)[0]
