"""Words of a question for a table of several things: whose, what, all of them, and sums."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from fathom.domain.programs.language import parse, render
from fathom.services.datafetch.programs.own import OwnSeries
from fathom.services.datafetch.programs.own_words import choose_lengths, settle

DAYS = date(2024, 12, 31), date(2025, 12, 31)
OWN = {
    f"own{number}": OwnSeries("t1", f"{plant} {names[0]}", "", "plants", *DAYS, names, plant, "Plant", is_amount)
    for number, (plant, names, is_amount) in enumerate(
        [(plant, names, way) for names, way in ((("Revenue", "sales"), True), (("Staff",), False))
         for plant in ("Porto", "North Vigo")],
        1,
    )
}  # fmt: skip
PORTO, VIGO, PORTO_STAFF = "own1", "own2", "own3"
BUNDLED = "fgrecpt"


@pytest.mark.parametrize(
    ("question", "program", "settled"),
    [
        # The measure stands apart from the name.
        ("What was the 2025 staff of the Porto plant?", 'at(series("Porto plant", none), "2025")',
         'at(series("Porto plant", "staff", own3), "2025")'),
        # Amounts are added up over the period, states are not.
        ("What were Porto's sales in 2025?", 'at(series("Porto\'s sales", own3), "2025")',
         'total(within(series("Porto\'s sales", own1), "2025"))'),
        ("What was North Vigo's staff in 2025?", 'within(series("staff", fgrecpt), "2025")',
         'within(series("staff", "north vigo", own4), "2025")'),
        # Which of them, not when.
        ("Which plant had the highest staff in 2025?", 'maximum(within(series("staff", fgrecpt), "2025"))',
         'top(at(series("staff", own_2), "2025"), 1)'),
        ("Which plant had the lowest revenue in 2025?", 'minimum(within(series("plant", none), "2025"))',
         'bottom(total(within(series("plant", "revenue", own_1), "2025")), 1)'),
        ("What was total staff of all plants in 2025?", 'at(series("total staff", fgrecpt), "2025")',
         'plus(at(series("Porto Staff", own3), "2025"), at(series("North Vigo Staff", own4), "2025"))'),
        # Names of something else are not the table's.
        ("What was Apple's revenue in 2025?", 'at(series("Apple\'s revenue", fgrecpt), "2025")', ""),
        ("What was US industrial staff in 2025?", 'at(series("US industrial staff", fgrecpt), "2025")', ""),
        # What is meant of Porto is open.
        ("How is Porto doing in 2025?", 'at(series("Porto", own1), "2025")',
         'total(within(series("Porto", own1), "2025"))'),
    ],
)  # fmt: skip
def test_words_become_columns_and_sums(question: str, program: str, settled: str) -> None:
    found, is_sure = settle(parse(program), OWN, question)
    assert render(found) == (settled or program)
    assert is_sure is (bool(settled) and question != "How is Porto doing in 2025?")


def test_a_sum_that_is_asked_for_is_one_of_a_plain_column_too() -> None:
    own = {"own1": OwnSeries("t1", "Units", "", "sales", *DAYS)}
    step = 'at(series("Units", own1), "2025")'
    for question in ("What was the total Units in 2025?", "How much did Units add up to in 2025?"):
        assert render(settle(parse(step), own, question)[0]) == 'total(within(series("Units", own1), "2025"))'
    assert render(settle(parse(step), own, "What were the Units in 2025?")[0]) == step


@pytest.mark.parametrize(
    ("questions", "columns"),
    [
        (("What was revenue in Q2 2025?",), {"Revenue"}),
        (("What was revenue in 2025?",), {"Revenue per year"}),
        (("What was revenue in the first half of 2025?",), {"Revenue"}),
        (("What was revenue in March 2025?",), {"Revenue"}),
        (("收入在2024年是多少？",), {"Revenue per year"}),
        (("What was revenue in 2024?", "And cost?"), {"Revenue per year"}),
        (("What was revenue?",), {"Revenue"}),
    ],
)
def test_columns_of_quarters_and_of_years_are_asked_for_by_periods(
    questions: tuple[str, ...], columns: set[str]
) -> None:
    own = [
        OwnSeries("t1", "Revenue", "", "income", *DAYS, ("income",), "Revenue", "Item", months=3, is_of_file=True),
        OwnSeries("t1", "Revenue per year", "", "income", *DAYS, ("income",), "Revenue", "Item", months=12),
        OwnSeries("t2", "Units", "", "sales", *DAYS),
    ]
    assert {one.column for one in choose_lengths(own, questions, DAYS[1])} == columns | {"Units"}


def test_rows_of_an_income_statement_are_called_by_their_labels_alone() -> None:
    own = {
        f"own{number}": OwnSeries(
            "t1", f"{label} income", "", "income.csv", *DAYS, ("income",), label, "Item", months=3, is_of_file=True
        )
        for number, label in enumerate(("Revenue", "Operating costs"), 1)
    }
    program = parse('at(series("operating costs", fgrecpt), "Q2 2025")')
    found, is_sure = settle(program, own, "What were operating costs in Q2 2025?")
    assert (render(found), is_sure) == ('at(series("operating costs", own2), "Q2 2025")', True)
    # What a column measures must be said.
    named = {ident: replace(one, is_of_file=False) for ident, one in own.items()}
    assert settle(program, named, "What were operating costs in Q2 2025?") == (program, False)


def test_bundled_series_stay_as_the_reader_links_them() -> None:
    program = parse(f'at(series("revenue", {BUNDLED}), "2025")')
    assert settle(program, {}, "What was total revenue in 2025?") == (program, False)
