"""Words of a question for a table of several things: whose, what, all of them, and sums."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from fathom.domain.programs.language import parse, render
from fathom.services.datafetch.programs.own import OwnSeries
from fathom.services.datafetch.programs.own_words.choosing import choose_columns
from fathom.services.datafetch.programs.own_words.lengths import choose_lengths
from fathom.services.datafetch.programs.own_words.naming import OwnWords
from fathom.services.datafetch.programs.own_words.settling import settle

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
    found = settle(parse(program), OWN, question)
    assert render(found.program) == (settled or program)
    assert found.is_sure is (bool(settled) and question != "How is Porto doing in 2025?")


def test_a_sum_that_is_asked_for_is_one_of_a_plain_column_too() -> None:
    own = {"own1": OwnSeries("t1", "Units", "", "sales", *DAYS)}
    step = 'at(series("Units", own1), "2025")'
    for question in ("What was the total Units in 2025?", "How much did Units add up to in 2025?"):
        assert render(settle(parse(step), own, question).program) == 'total(within(series("Units", own1), "2025"))'
    assert render(settle(parse(step), own, "What were the Units in 2025?").program) == step


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
    found = settle(program, own, "What were operating costs in Q2 2025?")
    assert (render(found.program), found.is_sure) == ('at(series("operating costs", own2), "Q2 2025")', True)
    # What a column measures must be said.
    named = {ident: replace(one, is_of_file=False) for ident, one in own.items()}
    assert settle(program, named, "What were operating costs in Q2 2025?").program == program


def test_a_name_whose_words_stand_apart_in_a_question_is_found() -> None:
    own = {
        f"own{number}": OwnSeries("t1", name, "", "fuel.csv", *DAYS)
        for number, name in enumerate(("Leith marine gas oil (USD/t)", "Hull marine gas oil (USD/t)"), 1)
    }
    program = parse('mean(within(series("Hull", none), "2025"))')
    found = settle(program, own, "What did marine gas oil cost at Hull on average in 2025?")
    assert render(found.program) == 'mean(within(series("Hull", "hull marine gas oil", own2), "2025"))'
    # A port of which there is no price stays one.
    other = parse('mean(within(series("Perth", none), "2025"))')
    assert settle(other, own, "What did marine gas oil cost at Perth on average in 2025?").program == other


def test_whoever_the_title_names_has_the_columns_of_a_plain_table() -> None:
    own = {
        f"own{number}": OwnSeries("t1", name, "吨", "白沙_月度销售_2025.csv", *DAYS)
        for number, name in enumerate(("船舶漆销量（吨）", "工业漆销量（吨）"), 1)
    }
    question = "白沙合资公司2025年哪个月的船舶漆销量最低？"
    program = parse('minimum(within(series("白沙合资公司", none), "2025年"))')
    settled = 'minimum(within(series("白沙合资公司", "船舶漆销量", own1), "2025年"))'
    assert render(settle(program, own, question).program) == settled
    # Another company is none of this table's, and a measure must be named.
    for said, text in (
        ("黑石公司", question.replace("白沙合资公司", "黑石公司")),
        ("白沙合资公司", "白沙合资公司2025年有多少员工？"),
    ):
        program = parse(f'minimum(within(series("{said}", none), "2025年"))')
        assert settle(program, own, text).program == program


def test_the_only_measure_of_things_that_a_question_names_by_their_kind_is_told() -> None:
    own = {
        f"own{number}": OwnSeries("t1", f"{bank} Balance", "", "cash.xlsx", *DAYS, ("Balance",), bank, "Bank")
        for number, bank in enumerate(("North", "South"), 1)
    }
    program = parse('minimum(within(series("Ferry Co", none), "2025"))')
    found = settle(program, own, "With which bank did Ferry Co have the least money in 2025?")
    assert render(found.program) == 'bottom(at(series("Ferry Co", "bank", own_1), "2025"), 1)'
    assert found.alike == (("Ferry Co bank", "Balance"),)
    # With a second measure nobody knows which one is meant.
    more = {
        **own,
        **{f"more_{key}": replace(one, column=f"{one.label} Limit", names=("Limit",)) for key, one in own.items()},
    }
    assert settle(program, more, "With which bank did Ferry Co have the least money in 2025?").program == program


def test_a_row_that_adds_up_the_others_is_none_of_the_things() -> None:
    own = {
        f"own{number}": OwnSeries(
            "t1",
            f"{bank} Balance",
            "",
            "cash.xlsx",
            *DAYS,
            ("Balance",),
            bank,
            "Bank",
            months=12,
            is_total=bank == "Total",
        )
        for number, bank in enumerate(("North", "South", "Total"), 1)
    }
    program = parse('maximum(within(series("balance", none), "2025"))')
    found = settle(program, own, "Which bank had the highest balance in 2025?", months=12)
    assert render(found.program) == 'top(at(series("balance", own_1), "2025"), 1)'
    assert OwnWords(own).groups == {"own_1": ["own1", "own2"]}
    program = parse('at(series("total balance", none), "2025")')
    assert "own3" in render(settle(program, own, "What was the total balance in 2025?").program)


def test_a_sum_has_no_fall() -> None:
    program = parse('drawdown(within(series("staff of Porto", own3), "2025"))')
    assert settle(program, OWN, "What was staff of Porto in 2025 in total?").contradicts


def test_of_too_many_columns_those_of_the_question_are_compared_and_measures_stay_whole() -> None:
    wide = [
        OwnSeries("t1", f"Home {place} Rent", "", "rents.xlsx", *DAYS, ("Rent",), f"Home {place}", "Home")
        for place in range(6)
    ]
    cash = [
        OwnSeries("t2", f"{bank} Balance", "", "cash.xlsx", *DAYS, ("Balance",), bank, "Bank")
        for bank in ("North", "South")
    ]
    chosen = choose_columns([*wide, *cash], ["Which bank had the least money?"], most=6)
    assert chosen == cash
    assert choose_columns([*wide, *cash], ["What is the rent of Home 3?"], most=6) == wide
    assert choose_columns([*wide, *cash], ["Which bank?"]) == [*wide, *cash]


def test_bundled_series_stay_as_the_reader_links_them() -> None:
    program = parse(f'at(series("revenue", {BUNDLED}), "2025")')
    assert settle(program, {}, "What was total revenue in 2025?").program == program


YEARLY = {ident: replace(one, months=12) for ident, one in OWN.items()}


@pytest.mark.parametrize(
    ("question", "program", "settled"),
    [
        # The reader takes the word for a statistic for a part of a name.
        ("What was the median staff in 2025?", 'at(series("median staff", none), "2025")',
         'median(at(series("median staff", own_2), "2025"))'),
        # Values of a year each have no mean over the year: it is that of the plants.
        ("What was the average staff of all plants in 2025?", 'mean(within(series("staff of all plants", none), "2025"))',
         'mean(at(series("staff of all plants", own_2), "2025"))'),
        ("What was the mean revenue in 2025?", 'mean(within(series("revenue", own1), "2025"))',
         'mean(total(within(series("revenue", own_1), "2025")))'),
        ("Which plant has the most staff?", 'last(series("Which plant", none))',
         'top(last(series("Which plant", "staff", own_2)), 1)'),
        ("Which plant has the lowest staff?", 'minimum(series("plant", none))',
         'bottom(last(series("plant", "staff", own_2)), 1)'),
    ],
)  # fmt: skip
def test_a_statistic_of_several_things_is_one_over_them(question: str, program: str, settled: str) -> None:
    found = settle(parse(program), YEARLY, question, months=12 if "2025" in question else 0)
    assert (render(found.program), found.is_whole) == (settled, True)


def test_a_program_of_another_statistic_than_the_question_asks_for_is_no_reading_of_it() -> None:
    question = "Which plant had the most staff in 2025?"
    least, most = ('minimum(within(series("staff", own3), "2025"))', 'maximum(within(series("staff", own3), "2025"))')
    assert settle(parse(least), YEARLY, question).contradicts
    assert not settle(parse(most), YEARLY, question).contradicts
    # How deep it fell from the highest value is no statistic by itself.
    fall = 'drawdown(within(series("staff", own3), "2025"))'
    assert not settle(parse(fall), YEARLY, "How far was staff of Porto below its highest value in 2025?").contradicts


@pytest.mark.parametrize(
    "question",
    [
        "Which plant did not have the highest staff in 2025?",
        "Which plant had the second highest staff in 2025?",
        "Which plant had the highest staff growth in 2025?",
        "What was the average of the highest staff in 2025?",
        "What was the highest staff of each plant in 2025?",
    ],
)
def test_a_question_of_more_than_names_a_period_and_a_statistic_is_not_whole(question: str) -> None:
    assert not settle(parse('maximum(within(series("staff", own3), "2025"))'), YEARLY, question).is_whole


def test_names_in_capitals_plurals_and_the_measures_own_words_are_found() -> None:
    own = {
        f"own{number}": OwnSeries("t1", f"{label} Average salary", "", "s", *DAYS, ("Average salary",), label, "Branch")
        for number, label in enumerate(("IT", "US"), 1)
    }
    for question, program, settled in (
        ("What was the average salary of IT in 2025?", 'at(series("average salary of IT", none), "2025")',
         'at(series("average salary of IT", own1), "2025")'),
        ("What was the average salary of the branches in 2025?", 'at(series("average salary of the branches", none), "2025")',
         'at(series("average salary of the branches", own_1), "2025")'),
    ):  # fmt: skip
        assert render(settle(parse(program), own, question).program) == settled


def test_a_measure_of_two_tables_is_that_of_the_table_that_the_question_names() -> None:
    own = {
        f"own{number}": OwnSeries(f"t_{kind}", f"{label} Revenue", "", "s", *DAYS, ("Revenue",), label, kind)
        for number, (kind, label) in enumerate(
            [("Plant", "Porto"), ("Plant", "Vigo"), ("Market", "Japan"), ("Market", "Spain")], 1
        )
    }
    program = parse('maximum(within(series("market", none), "2025"))')
    found = settle(program, own, "Which market had the highest revenue in 2025?")
    assert render(found.program) == 'top(at(series("market", "revenue", own_2), "2025"), 1)'
    program = parse('maximum(within(series("revenue", none), "2025"))')
    assert not settle(program, own, "What was the highest revenue in 2025?").is_sure


def test_words_spelt_like_a_single_column_mean_it_and_are_told() -> None:
    own = {
        "own1": OwnSeries("t1", "Spotpris kr/kg", "kr/kg", "prices.csv", *DAYS),
        "own2": OwnSeries("t1", "Feedpris kr/tonn", "kr/tonn", "prices.csv", *DAYS),
    }
    program = parse('mean(within(series("spot", none), "2025"))')
    found = settle(program, own, "What was the average spot price in 2025?")
    assert render(found.program) == 'mean(within(series("spot", "spot price", own1), "2025"))'
    assert found.alike == (("spot price", "Spotpris kr/kg"),)
    assert not settle(program, own, "What was the average sport prize in 2025?").is_sure
