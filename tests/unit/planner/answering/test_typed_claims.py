"""Typed claims: what is read of a model's reply, and what is computed and looked up of a claim."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from fathom.core.errors import InvalidField
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.typed.claim import read_claims
from fathom.services.planner.answering.verification.typed.judge import ClaimJudge
from fathom.services.planner.model.episode import MaterialKind

YEARS = tuple(date(year, 12, 31) for year in range(2018, 2022))
DAYS = tuple(date(2020, 1, 1) + timedelta(days=place) for place in range(6))
PASSAGE = "Tonnage was level. The fuel surcharge is reset only each quarter, and that “lag” took the margin."


@pytest.fixture(scope="module")
def judge() -> ClaimJudge:
    series = (
        Series("OIL.price", "OIL", "USD per barrel", 1.0, np.array([50.0, 60, 40, 70]), YEARS, False, "barrels"),
        Series("ACME.profit", "ACME", "million USD", 1e6, np.array([100.0, 120, 90, 180]), YEARS),
        Series("US.rate", "US", "%", 1.0, np.array([4.0, 3.6, 6.7, 3.9]), YEARS, True),
        Series("CALM.close", "CALM", "USD", 1.0, np.array([10, 10.1, 10, 10.1, 10, 10.1]), DAYS),
        Series("WILD.close", "WILD", "USD", 1.0, np.array([10.0, 12, 9, 13, 8, 14]), DAYS),
    )
    sheet = Source(1, MaterialKind.SHEET, index_line("sheet_1"), series=series, rows=4)
    return ClaimJudge([sheet, Source(2, MaterialKind.PASSAGE, index_line("Letter"), index_lines(PASSAGE))])


def of(column: str, statistic: str, first: int, last: int = 0) -> dict[str, Any]:
    """Return an operand over whole years."""
    edges = {"from": f"{first}-01-01", "to": f"{last or first}-12-31"}
    return {"source": 1, "column": column, "statistic": statistic, **edges}


def explain(judge: ClaimJudge, relation: str, **fields: Any) -> str:
    (claim,) = read_claims({"claims": [{"statement": 1, "relation": relation, **fields}]})
    return judge.explain(claim, (1, 2))


@pytest.mark.parametrize(
    ("left", "right", "true", "false"),
    [
        (of("OIL.price", "last", 2021), of("OIL.price", "last", 2019), "more", "less"),
        (of("WILD.close", "volatility", 2020), of("CALM.close", "volatility", 2020), "more", "less"),
        (of("WILD.close", "drawdown", 2020), of("CALM.close", "drawdown", 2020), "less", "more"),
        (of("OIL.price", "percent_change", 2020), of("ACME.profit", "percent_change", 2020), "less", "more"),
        (of("OIL.price", "size_of_change", 2021), of("OIL.price", "size_of_change", 2019), "more", "same"),
        (of("OIL.price", "date_of_lowest", 2018, 2021), of("OIL.price", "date_of_highest", 2018, 2021),
         "less", "more"),
        (of("US.rate", "last", 2018), of("US.rate", "last", 2021), "same", "less"),
    ],
)  # fmt: skip
def test_sides_are_computed_and_compared(judge: ClaimJudge, left: Any, right: Any, true: str, false: str) -> None:
    assert explain(judge, true, left=left, right=right) == ""
    assert explain(judge, false, left=left, right=right) != ""


@pytest.mark.parametrize(
    ("relation", "left", "right", "true", "false"),
    [
        ("equals", of("OIL.price", "last", 2021), None, "$70 a barrel", "$70 a gallon"),
        ("equals", of("OIL.price", "last", 2021), None, "70.0 dollars", "70.0 euros"),
        ("equals", of("ACME.profit", "last", 2021), None, "$180 million", "$180 billion"),
        ("equals", of("ACME.profit", "percent_change", 2021), None, "100%", "100 million dollars"),
        ("equals", of("US.rate", "change", 2020), None, "3.1 percentage points", "3.1 per cent"),
        ("equals", of("US.rate", "change", 2020), None, "310 basis points", "31 basis points"),
        ("equals", of("US.rate", "mean", 2018, 2021), None, "4.55%", "5.45%"),
        ("equals", of("OIL.price", "drawdown", 2018, 2021), None, "-33.3%", "-43.3%"),
        ("more", of("OIL.price", "last", 2021), None, "65 dollars", "75 dollars"),
        ("ratio", of("ACME.profit", "last", 2021), of("ACME.profit", "last", 2020), "twice: 2.0", "2.5"),
        ("difference", of("US.rate", "last", 2020), of("US.rate", "last", 2021), "2.8 percentage points", "2.8%"),
        ("difference", of("ACME.profit", "last", 2021), of("ACME.profit", "last", 2020), "90 million", "90 billion"),
    ],
)
def test_stated_numbers_are_converted_and_compared(
    judge: ClaimJudge, relation: str, left: Any, right: Any, true: str, false: str
) -> None:
    assert explain(judge, relation, left=left, right=right, number=true) == ""
    assert explain(judge, relation, left=left, right=right, number=false) != ""


def test_a_rank_is_counted_among_all_that_are_named(judge: ClaimJudge) -> None:
    years = [of("OIL.price", "last", year) for year in (2018, 2019, 2020, 2021)]
    assert explain(judge, "largest", left=years[3], among=years) == ""
    assert explain(judge, "largest", left=years[1], among=years, rank=2) == ""
    assert explain(judge, "smallest", left=years[0], among=years) == "by the tables it is number 2 of 4"
    # One of them is in no table: nothing is known of the order.
    assert explain(judge, "smallest", left=years[0], among=[*years, of("GAS.price", "last", 2020)]) == ""


def test_a_cause_needs_a_quotation_of_a_cited_document(judge: ClaimJudge) -> None:
    given = "that lag took the margin"
    assert explain(judge, "stated", document=2, quote=given) == ""
    assert explain(judge, "stated", document=2, quote="customers shipped less") != ""
    assert explain(judge, "stated", document=2, quote="") != ""
    (claim,) = read_claims({"claims": [{"statement": 1, "relation": "stated", "document": 2, "quote": given}]})
    assert judge.explain(claim, (1,)).startswith("a table or a calculation cannot show a cause")


def test_what_is_not_in_the_tables_is_not_judged(judge: ClaimJudge) -> None:
    for left in (of("GAS.price", "last", 2021), of("OIL.price", "last", 1990), of("OIL.price", "change", 1990)):
        assert explain(judge, "equals", left=left, number="70") == ""
    assert explain(judge, "equals", left=of("OIL.price", "last", 2021), number="from 60 to 70") == ""
    assert explain(judge, "more", left=None, right=None) == ""


@pytest.mark.parametrize(
    ("claim", "place"),
    [
        ({"relation": "guessed", "statement": 1}, "claims[0].relation"),
        ({"relation": "more"}, "claims[0].statement"),
        ({"relation": "more", "statement": True}, "claims[0].statement"),
        ({"relation": "more", "statement": 1, "left": "oil"}, "claims[0].left"),
        ({"relation": "more", "statement": 1, "left": of("OIL.price", "guess", 2021)}, "claims[0].left"),
        ({"relation": "more", "statement": 1, "left": {**of("a", "last", 2021), "to": "now"}}, "claims[0].left"),
        ({"relation": "largest", "statement": 1, "among": "all"}, "claims[0].among"),
        ("more", "claims[0]"),
    ],
)
def test_a_claim_of_another_form_is_named(claim: Any, place: str) -> None:
    with pytest.raises(InvalidField) as raised:
        read_claims({"claims": [claim]})
    assert place in str(raised.value)
