"""Typed claims: what is read of a model's reply, and what is computed and looked up of a claim."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from fathom.core.errors import InvalidField
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.typed.claim import TypedClaim, read_claims
from fathom.services.planner.answering.verification.typed.judge import ClaimJudge, Judgement, Outcome
from fathom.services.planner.answering.verification.typed.marking import mark_claims
from fathom.services.planner.model.episode import Finding, FindingKind, MaterialKind

YEARS = tuple(date(year, 12, 31) for year in range(2018, 2022))
DAYS = tuple(date(2020, 1, 1) + timedelta(days=place) for place in range(6))
MONTHS = tuple(date(2020, month, 28) for month in range(1, 13)) + tuple(date(2021, month, 28) for month in range(1, 13))
PASSAGE = "Tonnage was level at 4.2 million tonnes. 集装箱四百一十二万标准箱。 The fuel surcharge is reset only each quarter, and that “lag” took the margin."
OIL, ACME, RATE = "column(1, 'OIL.price')", "column(1, 'ACME.profit')", "column(1, 'US.rate')"
CALM, WILD, FLOW = "column(1, 'CALM.close')", "column(1, 'WILD.close')", "column(1, 'US.flow')"


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    series = (
        Series("OIL.price", "OIL", "USD per barrel", 1.0, np.array([50.0, 60, 40, 70]), YEARS, False, "barrels"),
        Series("ACME.profit", "ACME", "million USD", 1e6, np.array([100.0, 120, 90, 180]), YEARS),
        Series("ALL.profit", "ALL", "billion USD", 1e9, np.array([0.4, 0.4, 0.45, 0.54]), YEARS),
        Series("EURO.profit", "EURO", "million EUR", 1e6, np.array([1.0, 2, 3, 4]), YEARS),
        Series("US.rate", "US", "%", 1.0, np.array([4.0, 3.6, 6.7, 3.9]), YEARS, True),
        Series("US.yearly", "US", "tonnes", 1.0, np.array([1.0, 2, 3, 4]), YEARS),
        Series("US.weeks", "US", "Weeks (SA)", 1.0, np.array([20.0, 30, 35, 40.7]), YEARS, True),
        Series("US.balance", "US", "Mil. of $", 1e6, np.array([-1e6, -1e6, -1e6, -3_132_400.0]), YEARS),
        Series("CALM.close", "CALM", "USD", 1.0, np.array([10, 10.1, 10, 10.1, 10, 10.1]), DAYS),
        Series("WILD.close", "WILD", "USD", 1.0, np.array([10.0, 12, 9, 13, 8, 14]), DAYS),
        Series("US.flow", "US", "tonnes", 1.0, np.array([10.0] * 12 + [11.0] * 11 + [22.0]), MONTHS),
    )
    sheet = Source(1, MaterialKind.SHEET, index_line("sheet_1"), series=series, rows=4)
    printed = Source(3, MaterialKind.CODE, index_line(""), index_lines("beta 1.23"))
    return [sheet, Source(2, MaterialKind.PASSAGE, index_line("Letter"), index_lines(PASSAGE)), printed]


def judge(sources: list[Source], statement: str, cited: tuple[int, ...] = (1, 2), **fields: Any) -> Judgement:
    (claim,) = read_claims({"claims": [{"statement": 1, "words": statement, **fields}]})
    return ClaimJudge(sources).judge(claim, statement, cited)


def compute(sources: list[Source], formula: str, number: str = "", compare: str = "equals") -> Outcome:
    return judge(sources, f"It is {number or 'so'}.", formula=formula, number=number, compare=compare).outcome


@pytest.mark.parametrize(
    ("true", "false"),
    [
        (f"last({OIL}, '2021') > last({OIL}, '2019')", f"last({OIL}, '2021') < last({OIL}, '2019')"),
        (f"volatility({WILD}, '2020') > volatility({CALM}, '2020')", f"volatility({WILD}, '2020') < 1"),
        (f"drawdown({WILD}) < drawdown({CALM})", f"drawdown({WILD}) > drawdown({CALM})"),
        (f"growth({OIL}, '2020') < growth({ACME}, '2020') < 0", f"growth({ACME}, '2020') > -10"),
        (f"abs(change({OIL}, '2021')) > abs(change({OIL}, '2019'))", f"about(change({OIL}, '2021'), 20)"),
        (f"day_of_lowest({OIL}) > day_of_highest({OIL}, '2018:2019')", f"day_of_lowest({OIL}) < day('2019')"),
        (f"about(last({RATE}, '2018'), last({RATE}, '2021'))", f"last({RATE}, '2018') < last({RATE}, '2021')"),
        (f"rank(last({OIL}, '2019'), {OIL}) == 2", f"rank_from_lowest(last({OIL}, '2018'), {OIL}) == 1"),
        (f"rank(last({OIL}, '2021'), [last({OIL}, '2018'), last({OIL}, '2021')]) == 1",
         f"rank(last({OIL}, '2018'), [last({OIL}, '2018'), last({OIL}, '2021')]) == 1"),
        # Two scales of one currency; half of the rise of the whole is more than the part's.
        (f"all({ACME} < column(1, 'ALL.profit'))", f"any({ACME} > column(1, 'ALL.profit'))"),
        (f"change({ACME}, '2021') / change(column(1, 'ALL.profit'), '2021') == 1",
         f"change({ACME}, '2021') / change(column(1, 'ALL.profit'), '2021') < 0.5"),
        (f"count({OIL} > 45, '2018:2020') == 2", f"all({OIL} > 45)"),
        (f"count([growth({OIL}, '2019') > 0, growth({OIL}, '2020') > 0]) == 1",
         f"all([growth({OIL}, '2019') > 0, growth({OIL}, '2020') > 0])"),
        (f"in_period(first_day({OIL} > 55), '2019')", f"in_period(last_day({OIL} > 55), '2019')"),
        (f"growth({OIL}, '2020') < 0 and not growth({OIL}, '2021') < 0", f"growth({OIL}, '2020') > 0 or 1 > 2"),
        (f"all(within(growths({FLOW}, 'year'), '2021') > 0)", f"all(growths({FLOW}) > 0, '2020')"),
        (f"last(per({FLOW}, 'year', 'sum'), '2021') > last(per({FLOW}, 'year', 'sum'), '2020')",
         f"sum({FLOW}, '2021-H1') > 70"),
        # A month and a year have one last day, whatever day a source dates them by.
        (f"all(per({FLOW}, 'year', 'sum') > column(1, 'US.yearly'))", f"any(per({FLOW}, 'year') > 30)"),
        (f"max(last({OIL}, '2018'), last({OIL}, '2019')) == 60", "min(1, 2) == 2"),
        (f"sum({FLOW}, '2021') / sum({FLOW}, '2020') > 1.1", f"mean({FLOW}, '2021-Q4') < median({FLOW}, '2021-Q4')"),
    ],
)  # fmt: skip
def test_conditions_are_computed_from_the_columns(sources: list[Source], true: str, false: str) -> None:
    assert judge(sources, "so", formula=true) == Judgement(Outcome.HOLDS)
    assert compute(sources, false) is Outcome.FALSE


@pytest.mark.parametrize(
    ("formula", "true", "false"),
    [
        (f"last({OIL}, '2021')", "$70 a barrel", "$70 a gallon"),
        (f"last({OIL}, '2021')", "70.0 dollars", "70.0 euros"),
        (f"last({ACME}, '2021')", "$180 million", "$180 billion"),
        (f"growth({ACME}, '2021')", "100%", "100 million dollars"),
        (f"annual_growth({ACME}, '2018', '2021')", "21.6% a year", "21.6% a month"),
        (f"growth({ACME}, '2018', '2021')", "80%", "21.6%"),
        (f"change({RATE}, '2020')", "3.1 percentage points", "3.1 per cent"),
        (f"change({RATE}, '2020')", "310 basis points", "31 basis points"),
        (f"mean({RATE})", "4.55%", "5.45%"),
        (f"drawdown({OIL})", "-33.3%", "-43.3%"),
        (f"last({ACME}, '2021') / last({ACME}, '2020')", "2.0 times", "2.5 times"),
        (f"last({ACME}, '2021') / last(column(1, 'ALL.profit'), '2021')", "33%", "43%"),
        (f"last({RATE}, '2020') - last({RATE}, '2021')", "2.8 percentage points", "2.8%"),
        (f"last({ACME}, '2021') - last({ACME}, '2020')", "90 million", "90 billion"),
        (f"sum({FLOW}, '2021')", "143 tonnes", "144 tonnes"),
        (f"volatility({CALM}, '2020', 'step')", "1.1%", "17%"),
        ("last(column(1, 'US.weeks'))", "40.7 weeks", "40.7 months"),
        ("last(column(1, 'US.balance'))", "3.13 trillion dollars", "3.13 billion dollars"),
    ],
)
def test_stated_numbers_are_converted_and_compared(sources: list[Source], formula: str, true: str, false: str) -> None:
    assert compute(sources, formula, true) is Outcome.HOLDS
    assert compute(sources, formula, false) is Outcome.FALSE


def test_a_stated_number_may_be_a_bound_or_rough(sources: list[Source]) -> None:
    oil = f"last({OIL}, '2021')"
    assert compute(sources, oil, "65 dollars", "more") is Outcome.HOLDS
    assert compute(sources, oil, "75 dollars", "more") is Outcome.FALSE
    assert compute(sources, oil, "75 dollars", "less") is Outcome.HOLDS
    assert compute(sources, oil, "68 dollars", "about") is Outcome.HOLDS
    # "Fell by more than 30 %": the size of a fall.
    assert compute(sources, f"growth({OIL}, '2020')", "30%", "more") is Outcome.HOLDS


def test_a_cause_needs_a_quotation_of_a_cited_document(sources: list[Source]) -> None:
    given, cause = "that lag took the margin", "because surcharges lagged"
    assert judge(sources, cause, quote=given).outcome is Outcome.HOLDS
    assert judge(sources, cause, quote="").outcome is Outcome.FALSE
    assert judge(sources, cause, (1,), quote=given).why.startswith("a table or a calculation cannot show a cause")
    against = judge(sources, "because it shipped less", quote="", against="Tonnage was level")
    assert against.outcome is Outcome.FALSE
    assert "Tonnage was level" in against.why
    # Words that the document does not have prove nothing, either way.
    assert judge(sources, cause, quote="customers shipped less").outcome is Outcome.UNDECIDED
    assert judge(sources, cause, quote="", against="customers shipped less").outcome is Outcome.UNDECIDED


def test_a_number_of_a_document_stands_in_the_quotation(sources: list[Source]) -> None:
    said, quote = "It shipped 4.2 million tonnes", "level at 4.2 million tonnes"
    assert judge(sources, said, quote=quote, number="4.2 million tonnes").outcome is Outcome.HOLDS
    assert judge(sources, said, quote="Tonnage was level", number="4.2 million").outcome is Outcome.UNDECIDED
    # Printed output gives a number, and no cause.
    assert judge(sources, "a beta of 1.23", (3,), quote="beta 1.23", number="1.23").outcome is Outcome.HOLDS
    assert judge(sources, "because of beta", (3,), quote="beta 1.23").outcome is Outcome.FALSE
    assert judge(sources, "吞吐量412万标准箱", quote="四百一十二万标准箱", number="412万").outcome is Outcome.HOLDS


def test_another_unit_needs_both_words(sources: list[Source]) -> None:
    said = "It shipped 4.2 million bushels"
    found = judge(sources, said, said_unit="bushels", held_unit="tonnes")
    assert found.outcome is Outcome.FALSE
    assert "tonnes" in found.why
    assert judge(sources, said, said_unit="bushels", held_unit="gallons").outcome is Outcome.UNDECIDED
    assert judge(sources, said, said_unit="bushels", held_unit="bushels").outcome is Outcome.UNDECIDED
    assert judge(sources, said, said_unit="stones", held_unit="tonnes").outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "formula",
    [
        "last(column(1, 'GAS.price'))",
        f"last({OIL}, '1990') > 1",
        f"change({OIL}, '2018') > 1",
        f"last({OIL}) > last({RATE})",
        f"last({ACME}) > last(column(1, 'EURO.profit'))",
        f"last({OIL}, '2021-13') > 1",
        f"last({OIL}, '2021:2019') > 1",
        f"{OIL} > 1",
        f"last({OIL})",
        f"1 / (last({OIL}) - last({OIL})) > 1",
        f"last({OIL}, 2021, 1, 2) > 1",
        f"last(x={OIL}) > 1",
        f"last({OIL})**9 > 1",
        f"{OIL}.__class__ == 1",
        "__import__('os') == 1",
        "(lambda: 1)() == 1",
        "[one for one in (1, 2)] == 1",
        "last(",
        "-" * 1_000 + "1 > 0",
        "1 > 0 and " * 300 + "1 > 0",
        "True and 'x'",
        f"per({OIL}, 'week') > 1",
        f"day_of_highest({OIL}) > last({OIL})",
        # Six days of which none ends a year, and months beside years.
        f"all({WILD} < {OIL})",
        f"all({FLOW} < column(1, 'US.yearly'))",
    ],
)
def test_what_has_no_value_is_undecided(sources: list[Source], formula: str) -> None:
    found = judge(sources, "so", formula=formula)
    assert found.outcome is Outcome.UNDECIDED
    assert found.why


def test_the_work_of_formulas_is_bounded() -> None:
    days = tuple(date(1700, 1, 1) + timedelta(days=place) for place in range(100_000))
    series = Series("LONG.x", "LONG", "USD", 1.0, np.arange(100_000.0), days)
    source = Source(1, MaterialKind.SHEET, index_line("sheet_1"), series=(series,), rows=100_000)
    claim = TypedClaim(1, words="so", formula="all(" + " + ".join(["column(1, 'LONG.x')"] * 30) + " >= 0)")
    judge_ = ClaimJudge([source])
    outcomes = [judge_.judge(claim, "so", (1,)).outcome for _ in range(10)]
    assert outcomes[0] is Outcome.HOLDS
    assert outcomes[-1] is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"formula": "1 > 0", "said_unit": "tonnes"},
        {"formula": ["1 > 0"]},
        {"formula": "1 > 0", "compare": "guessed"},
        {"formula": "1" * 3_000},
        {"words": "", "formula": "1 > 0"},
        {"words": "another sentence", "formula": "1 > 0"},
        {"number": "7 dollars", "formula": f"last({OIL})"},
        {"number": "so and so", "formula": f"last({OIL})"},
    ],
)
def test_a_claim_of_another_form_or_statement_is_undecided(sources: list[Source], fields: dict[str, Any]) -> None:
    assert judge(sources, "so", **fields).outcome is Outcome.UNDECIDED


def test_a_reply_without_a_list_is_refused_and_a_claim_without_a_statement_left_out() -> None:
    with pytest.raises(InvalidField):
        read_claims({"claims": "none"})
    assert read_claims({"claims": ["more", {"formula": "1"}, {"statement": True, "formula": "1"}]}) == []


def make_claim(words: str, **fields: Any) -> dict[str, Any]:
    return {"statement": 1, "words": words, **fields}


def mark(sources: list[Source], text: str, found: list[Finding], *claims: dict[str, Any]) -> list[Finding]:
    statements = [one for one in parse_sentences(text) if one.own]
    return mark_claims(text, statements, read_claims({"claims": list(claims)}), sources).merge(found)


def test_a_false_claim_is_marked_at_its_words(sources: list[Source]) -> None:
    text = "Oil rose. Oil fell in 2021 [1]."
    (found,) = mark(sources, text, [], make_claim("fell in 2021", formula=f"growth({OIL}, '2021') < 0"))
    assert (found.kind, found.text, text[found.start : found.end]) == (FindingKind.EVENT, "fell in 2021", found.text)


def test_what_no_claim_decides_is_said_to_be_unchecked(sources: list[Source]) -> None:
    text = "Oil fell in 2021 [1]."
    for claims in ((), (make_claim("fell in 2021 [1]", formula="guess()"),)):
        assert [one.kind for one in mark(sources, text, [], *claims)] == [FindingKind.UNCHECKED]


def test_claims_that_hold_settle_findings_about_their_words_but_no_stated_cause(sources: list[Source]) -> None:
    text = "Oil rose by 75% because traders hoped [1]."
    number = Finding(12, 15, FindingKind.NUMBER, "75%", "not found")
    cause = Finding(16, 37, FindingKind.EVENT, "because traders hoped", "no table gives a cause")
    holds = make_claim("rose by 75%", formula=f"growth({OIL}, '2021')", number="75%")
    assert mark(sources, text, [number, cause], holds) == [cause]
    # The model has rendered the cause's words as a number: a formula gives no cause.
    whole = make_claim(text.removesuffix(" [1]."), formula=f"growth({OIL}, '2021')", number="75%")
    assert mark(sources, text, [number, cause], whole) == [cause]
    # One of its claims is undecided: nothing is settled.
    assert number in mark(sources, text, [number], holds, make_claim("hoped", formula="guess()"))
