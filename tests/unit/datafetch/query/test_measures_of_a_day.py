"""Measures of a trading day that the tables lack are refused by name, and never answered with the adjusted close."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fathom.services.datafetch.engine import Engine
from tests.golden.datafetch.schema import FOLDER

pytestmark = pytest.mark.asyncio(loop_scope="module")
CASES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "measures_of_a_day.yaml").read_text(encoding="utf-8"))[
    "questions"
]


@pytest.mark.parametrize("case", CASES, ids=[case["ask"] for case in CASES])
async def test_each_question_is_answered_with_its_own_measure_or_refused(engine: Engine, case: dict[str, Any]) -> None:
    result = await engine.ask(case["ask"], None)
    if "column" in case:
        assert [column.name for sheet in result.sheets for column in sheet.columns][-1:] == [case["column"]]
        assert [item for item in result.missing if item.reason == "NOT_UNDERSTOOD"] == []
    else:
        assert result.sheets == ()
        assert any(case["refused"] in f"{item.subject} {item.detail}" for item in result.missing), result.missing


@pytest.mark.parametrize(
    "question",
    [
        # A word of the definition is no other measure.
        "split-adjusted price of Apple on 16 March 2020",
        "unadjusted CPI in March 2020",
        "US unemployment rate and federal funds rate in May 2020",
        "highest unemployment rate in 2020",
        "What would one share of Merck have cost on 18 March 2020?",
    ],
)
async def test_words_that_make_no_other_measure_leave_the_figures(engine: Engine, question: str) -> None:
    assert (await engine.ask(question, None)).sheets
