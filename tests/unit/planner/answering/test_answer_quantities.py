"""Statements about several periods or entities in the check of answers, computed as programs over the tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import numpy as np
import pytest

from fathom.services.planner.answering.verification.comparison.quantifiers import Quantifier, find_quantity
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import FindingKind, MaterialKind

MONTHS = tuple(date(2020, month, 28) for month in range(1, 13))
YEARS = (date(2021, 12, 31), date(2022, 12, 31), date(2023, 12, 31))
SALES = {"Bath": (4.0, 4.2, 3.9), "York": (2.0, 2.1, 2.6), "Leeds": (5.0, 4.8, 5.5)}


def make_table(number: int, columns: Mapping[str, tuple[float, ...]], days: tuple[date, ...], unit: str) -> Source:
    """Return a table with a column of sales for each name."""
    series = tuple(Series(f"{name}.sales", name, unit, 1.0, np.array(values), days) for name, values in columns.items())
    return Source(
        number,
        MaterialKind.SHEET,
        index_line("; ".join(columns)),
        series=series,
        moments=index_line(" ".join(day.isoformat() for day in days)).moments,
        aliases={name: (name,) for name in columns},
        labels={one.name: "sales 销售额" for one in series},
        rows=len(days),
    )


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    months = make_table(2, {"Rye": (9, 8, 7, 6, 5, 6, 7, 8, 9, 10, 11, 12)}, MONTHS, "USD")
    return Verifier("What happened?", [make_table(1, SALES, YEARS, "million GBP"), months])


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        ("Two of the three branches grew in 2023 [1].", "Each of the three branches grew in 2023 [1]."),
        ("Two of the three branches grew in 2022 [1].", "None of the three branches grew in 2022 [1]."),
        ("Sales of Rye were above $6 in each of the first three months of 2020 [2].", "Sales of Rye were above $6 in each of the first five months of 2020 [2]."),
        ("Only Leeds sold less in 2022 than in 2021 [1].", "Only York sold less in 2022 than in 2021 [1]."),
        ("2022年只有Leeds下跌[1]。", "2022年只有Bath下跌[1]。"),
        ("Sales of Rye fell in each of the first five months of 2020 [2].", "Sales of Rye fell in each of the first six months of 2020 [2]."),
        ("Sales of Rye rose in each of the last six months of 2020 [2].", "Sales of Rye rose in each of the last nine months of 2020 [2]."),
        ("Sales of Rye first fell below $7 in April 2020 [2].", "Sales of Rye first fell below $7 in May 2020 [2]."),
        ("2020年6月到12月，Rye的销售额月月上升[2]。", "2020年4月到12月，Rye的销售额月月上升[2]。"),
    ],
)  # fmt: skip
def test_a_quantified_statement_is_computed(verifier: Verifier, true: str, wrong: str) -> None:
    assert verifier.verify(true) == ()
    assert [finding.kind for finding in verifier.verify(wrong)] == [FindingKind.EVENT]


@pytest.mark.parametrize(
    "text",
    [
        "Sales of Rye rose in every month of 2020 but May [2].",
        "Each of the four branches grew in 2023 [1].",
        "Sales of Rye in May 2020 first fell below those of April 2020 [2].",
        "Only Leeds made money for its owners in 2022 [1].",
    ],
)
def test_a_quantified_statement_that_is_not_read_is_called_unchecked(verifier: Verifier, text: str) -> None:
    assert verifier.verify(text) == ()
    assert {finding.kind for finding in verifier.list_unchecked(text, ())} == {FindingKind.UNCHECKED}


@pytest.mark.parametrize("text", ["Sales were only 3.9 million", "销售额只有3.9亿元", "39.44 USD of the day before"])
def test_a_quantity_is_no_quantifier(text: str) -> None:
    assert find_quantity(text) is None


def test_a_quantifier_is_read_with_its_numbers_and_unit() -> None:
    found = find_quantity("rose in three of the six years")
    assert found is not None
    assert (found.quantifier, found.count, found.size, found.unit) == (Quantifier.COUNT, 3, 6, "year")
