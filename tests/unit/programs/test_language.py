"""Programs: parsing, rendering, actions, and which token may follow."""

from __future__ import annotations

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.programs.automaton import State
from fathom.domain.programs.language import (
    DERIVED,
    END,
    INDEX,
    SIGNATURES,
    SPAN,
    TOKENS,
    Action,
    build,
    list_actions,
    parse,
    render,
)

PROGRAMS = (
    'maximum(within(series("VIX", VIX), "between 2014 and 2018"))',
    'drawdown(within(each(series("拉斯维加斯", "凯斯-席勒指数", lvxrsa), series("迈阿密", mixrsa)), "2006到2012年"))',
    'ret(between(series("S&P 500", SP500), end("1999"), end("2009")))\nminus(_1, 2)',
    'rate(series("dollar", USD), EUR)',
    'top(members("the drug makers", pharma), "three")',
    'portfolio("60%", series("gold", GOLD), "40%", series("oil", none), year)',
    'at(yoy(series("CPI", cpiaucsl)), when("2020", "4月"))\ndocuments()',
    'sharpe(series("gold", GOLD), month)',
    'vol(series("gold", GOLD), month)',
    'outside("should I buy")',
    "unclear()",
    # Codes of companies are no Python names.
    'last(series("营业收入", "000651.revenue"))',
    'last(series("Apple", AAPL.close_adj))',
)


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_is_the_same_after_parsing_and_rendering(text: str) -> None:
    assert render(parse(text)) == text


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_actions_of_a_program_make_it_again(text: str) -> None:
    assert build(list_actions(parse(text))) == parse(text)


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_automaton_allows_each_token_of_a_program(text: str) -> None:
    state = State()
    for action in list_actions(parse(text)):
        assert action.token in state.next_tokens
        state = state.push(action.token)
    assert END in state.next_tokens


@pytest.mark.parametrize(
    "text", ["", "1 + 2", "VIX", "import os", 'nosuch(series("VIX", VIX))', 'average(series("VIX", VIX), 7)', "first("]
)
def test_what_the_language_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="program"):
        list_actions(parse(text))


def test_an_apostrophe_and_a_quotation_mark_survive() -> None:
    made = build([Action("series("), Action(SPAN, 'the "Moody\'s" yield'), Action(")", target="baa")])
    assert parse(render(made)) == made


def test_every_token_is_there_once_and_every_function_opens_a_call() -> None:
    assert len(set(TOKENS)) == len(TOKENS)
    assert all(f"{name}(" in INDEX for name in SIGNATURES)


def find_allowed(*tokens: str) -> frozenset[str]:
    state = State()
    for token in tokens:
        state = state.push(token)
    return state.next_tokens


def test_a_program_begins_with_a_call_and_may_not_be_empty() -> None:
    allowed = find_allowed()
    assert {"maximum(", "series(", "documents("} <= allowed
    assert not {END, SPAN, "start("} & allowed


def test_a_series_needs_words() -> None:
    assert find_allowed("series(") == {SPAN}
    assert find_allowed("series(", SPAN) == {SPAN, ")"}


def test_a_window_takes_a_line_and_then_a_period() -> None:
    assert SPAN not in find_allowed("within(")
    behind = find_allowed("within(", "series(", SPAN, ")")
    assert {SPAN, "start(", "when("} <= behind
    assert "series(" not in behind


def test_an_earlier_step_may_be_named_once_it_is_there() -> None:
    step = ("first(", "series(", SPAN, ")", ")")
    assert "_1" not in find_allowed("minus(")
    assert {"_1"} == {token for token in find_allowed(*step, "minus(") if token.startswith("_")}


def test_a_unit_of_time_ends_what_may_be_left_out() -> None:
    begun = ("sharpe(", "series(", SPAN, ")")
    assert {"month", SPAN, ")"} <= find_allowed(*begun)
    assert find_allowed(*begun, "month") == {")"}


def test_a_portfolio_has_shares_and_lines_in_turn() -> None:
    pair = (SPAN, "series(", SPAN, ")")
    assert ")" not in find_allowed("portfolio(", *pair)
    assert {")", "year", SPAN} <= find_allowed("portfolio(", *pair, *pair)
    assert find_allowed("portfolio(", *pair, *pair, "year") == {")"}


def test_calls_within_calls_have_an_end() -> None:
    assert not any(token.endswith("(") for token in find_allowed(*["moves("] * 10))


def test_functions_that_no_network_writes_are_read_and_rendered_but_have_no_token() -> None:
    text = 'maximum(within(rolling_vol(series("Apple", AAPL), "60", day), "2020"))'
    program = parse(text)
    assert render(program) == text
    assert not DERIVED.keys() & SIGNATURES.keys()
    with pytest.raises(InvalidField, match="'rolling_vol\\(' is not part of the language"):
        list_actions(program)
