"""A word means what its context makes of it: a currency, a frequency, a number and a measure are none by spelling alone."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import MentionKind
from fathom.services.datafetch.query.model import Statistic

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def read(engine: Engine, question: str) -> dict[str, tuple[str, str]]:
    """Return kind and value of the mentions by their words."""
    found = (await engine.read(question, None)).mentions
    return {question[item.start : item.end]: (str(item.kind), item.value) for item in found}


@pytest.mark.parametrize(
    "question", ["Which stock won in 2020, Apple or Microsoft?", "Who won the 2020 S&P 500 rally?", "which one won"]
)
async def test_a_verb_is_no_currency(engine: Engine, question: str) -> None:
    assert (await read(engine, question)).get("won") != ("ENTITY", "KRW")


@pytest.mark.parametrize(
    "question",
    ["How many won per dollar in 2019?", "the won in 2020", "average won per euro", "dollars to won on 2020-03-02"],
)
async def test_a_currency_beside_an_amount_or_a_conversion_is_one(engine: Engine, question: str) -> None:
    assert (await read(engine, question))["won"] == ("ENTITY", "KRW")


@pytest.mark.parametrize(
    "question", ["Bank closures in 2019", "retail in 2019", "market value of Apple", "U-5 in 2020"]
)
async def test_a_word_is_not_the_indicator_whose_longer_name_it_begins(engine: Engine, question: str) -> None:
    seen = await engine.read(question, None)
    assert seen.query.indicators == ()
    assert any(item.kind == MentionKind.UNKNOWN for item in seen.mentions)


async def test_an_inflected_word_still_finds_the_indicator(engine: Engine) -> None:
    assert (await engine.read("Merck closes in 2004", None)).query.indicators == ("close_adj",)


@pytest.mark.parametrize(
    ("question", "indicator"),
    [
        ("10-yr Treasury yield in 2019", "gs10"),
        ("2-yr Treasury yield in 2019", "gs2"),
        ("10yr yield in 2019", "gs10"),
        ("U-6 in April 2020", "u6rate"),
    ],
)
async def test_a_number_in_a_name_is_no_parameter(engine: Engine, question: str, indicator: str) -> None:
    seen = await engine.read(question, None)
    assert seen.query.indicators == (indicator,)
    assert not [item for item in seen.mentions if item.kind == MentionKind.PARAMETER]


async def test_an_annualised_return_is_a_compound_rate_and_no_return_over_all_years(engine: Engine) -> None:
    seen = await engine.read("annualised return of Apple from 2015 to 2019", None)
    assert seen.query.statistics == (Statistic.CAGR,)
    for question, word in (
        ("What did Apple return from 2015 to 2019, annualised?", "annualised"),
        ("annual return of Apple each year from 2015 to 2019", "each year"),
    ):
        seen = await engine.read(question, None)
        assert (seen.query.indicators, word in [item.subject for item in seen.missing]) == ((), True)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What did Microsoft return over 7 years and a bit?", "7 years"),
        ("top 20 stocks by market cap", "market cap"),
        ("Which stock won most in 2020?", "won"),
        ("the five best tech stocks of 2020", "tech"),
    ],
)
async def test_figures_over_another_stretch_or_order_are_refused(engine: Engine, question: str, words: str) -> None:
    seen = await engine.read(question, None)
    assert seen.query.indicators == ()
    assert any(words in item.subject for item in seen.missing), seen.missing
