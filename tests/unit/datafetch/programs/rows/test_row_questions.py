"""Questions about rows of own tables: which rows and which column they mean, and what their words leave open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain import frames
from fathom.services.datafetch.convert import sheet_to_proto
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.resolve import Assumption, Gap, GapReason
from fathom.services.datafetch.programs.rows.reading import is_better, read_rows
from fathom.services.datafetch.programs.rows.table import MOST_ROWS, RowTable, is_of_rows, make_row_table
from fathom.services.datafetch.sources.sheet import import_table

TODAY = date(2031, 11, 30)
LEASES = """Lease no,Tenant,Signed,Ends,Rent per year,Deposit share %,Status
L-1,Harbour Books,2029-02-01,2031-06-30,1200,4,open
L-2,Quill & Sons,2029-05-01,2031-09-30,800,5,open
L-3,Harbour Books,2030-01-15,2031-12-31,500,6,closed
L-4,Nettle Foods,2030-03-01,2032-03-31,900,7,open
Total,,,,3400,,
"""
STOCK = """Lot,Crop,Pieces,Fill %
NORTH STORE,,,
A-1,Oats,40,91
A-2,Rye,60,82
SOUTH STORE,,,
B-1,Oats,30,77
B-2,Rye,20,95
"""


def make_table(text: str, title: str) -> RowTable:
    sheet = import_table(text.encode(), "text/csv", title).sheet
    described = sheet_to_proto(sheet)
    assert is_of_rows(described)
    return make_row_table(described, frames.read_table(sheet.arrow))


@pytest.fixture(scope="module")
def tables() -> Sequence[RowTable]:
    return [make_table(LEASES, "lease_register.csv"), make_table(STOCK, "stock.csv")]


@pytest.mark.parametrize(
    ("question", "step"),
    [
        (
            "What is the total rent per year of the leases that are open and end in the second half of 2031?",
            "f.sum_rows(f.pick(s1, 'Status: open, Ends: end in the second half of 2031', 1))",
        ),
        (
            "Total rent per year of the leases of Harbour Books?",
            "f.sum_rows(f.pick(s1, 'Tenant: Harbour Books', 0, 2))",
        ),
        (
            "Average rent per year of the leases signed in 2030?",
            "f.mean_rows(f.pick(s1, 'Signed: 2030', 2, 3))",
        ),
        (
            "Which lease that is open has the highest rent per year?",
            "f.top(f.by_label(f.pick(s1, 'Status: open', 0, 1, 3), 'Lease no'), 1)",
        ),
        ("What is the fill of lot B-1?", "f.value(f.pick(s1, 'Lot: B-1', 4))"),
        ("Total pieces of the lots in the south store?", "f.sum_rows(f.pick(s1, 'SOUTH STORE', 4, 5))"),
    ],
)
def test_a_question_of_the_tables_own_words_is_sure(tables: Sequence[RowTable], question: str, step: str) -> None:
    found = read_rows(question, [], tables, TODAY)
    assert found is not None
    assert (found.steps, found.assumptions, found.confidence) == ((step,), (), 1.0)


def test_long_sheets_and_sheets_of_series_are_not_read_row_by_row() -> None:
    assert is_of_rows(pb.Sheet(rows=MOST_ROWS, columns=[pb.Column(name="a")]))
    assert not is_of_rows(pb.Sheet(rows=MOST_ROWS + 1, columns=[pb.Column(name="a")]))
    assert not is_of_rows(pb.Sheet(rows=3, columns=[pb.Column(name="a", indicator_names=["Revenue"])]))


def test_rows_that_add_up_others_are_in_no_sum(tables: Sequence[RowTable]) -> None:
    assert tables[0].find_totals(next(one for one in tables[0].columns if one.name == "Rent per year")) == {4}


def test_a_row_without_a_number_is_among_those_of_a_sum() -> None:
    text = "Order,Client,Tons\nO-1,Hospital,5\nO-2,Hospital,about 12 (note 3)\nO-3,School,7\nO-4,Hospital,9\n"
    question = "Total tons of the orders of the hospital?"
    found = read_rows(question, [], [make_table(text, "orders.csv")], TODAY)
    assert found is not None
    # The cell computes the sum of the two others, and says that one has no number.
    assert found.steps == ("f.sum_rows(f.pick(s1, 'Client: Hospital', 0, 1, 3))",)


def test_words_that_no_name_has_are_said_to_be_taken_for_columns(tables: Sequence[RowTable]) -> None:
    found = read_rows("Total rent per year of the leases of Harbour Books after tax?", [], tables, TODAY)
    assert found is not None
    assert found.assumptions == (Assumption("after tax", ("Rent per year", "Tenant")),)
    assert found.confidence < 1.0


def test_a_column_of_days_that_is_not_named_is_said_to_be_a_guess() -> None:
    table = make_table("Tenant,Ends,Rent\nHarbour,2031-06-30,5\nQuill,2031-09-30,7\n", "leases.csv")
    found = read_rows("Total rent of the leases in 2031?", [], [table], TODAY)
    assert found is not None
    assert found.assumptions == (Assumption("2031", ("Ends",)),)
    # Days in front of all other columns are those of the rows.
    dated = make_table("Day,Shop,Sales\n2031-06-30,Quay,5\n2031-06-30,Moor,8\n2031-07-31,Quay,7\n", "sales.csv")
    found = read_rows("Total sales of the shop Quay in 2031?", [], [dated], TODAY)
    assert found is not None
    assert (found.assumptions, found.confidence) == ((), 1.0)


def test_a_name_is_found_by_its_code(tables: Sequence[RowTable]) -> None:
    table = make_table("Deal,Money,Amount\nD-1,PLN,5\nD-2,CZK,7\nD-3,PLN,6\n", "deals.csv")
    question = "Total amount of the deals in zloty?"
    mention = Mention(MentionKind.ENTITY, question.index("zloty"), len(question) - 1, "PLN")
    found = read_rows(question, [mention], [table], TODAY)
    assert found is not None
    assert found.steps == ("f.sum_rows(f.pick(s1, 'Money: PLN', 0, 2))",)
    assert read_rows(question, [], [table], TODAY) is None


@pytest.mark.parametrize(
    "question",
    [
        # No row is named, and no statistic asked of several.
        "What is the rent per year?",
        "What is the rent per year of Harbour Books?",
        # No day of the table, and two columns with days of the year.
        "Total rent per year of the leases that end in 2040?",
        "Total rent per year of Harbour Books in 2031 or 2029?",
        # Most of its words are in no name.
        "How many visitors were hurt in the open market hall by falling beams?",
        "Total rent per year of leases not signed by Harbour Books?",
    ],
)
def test_other_questions_have_no_rows(tables: Sequence[RowTable], question: str) -> None:
    assert read_rows(question, [], tables, TODAY) is None


def test_the_only_column_of_numbers_needs_more_than_half_of_the_words() -> None:
    table = make_table("Crop,Worth\nCarrot Bell,7\nOats,9\n", "seed.csv")
    assert read_rows("How many carrot growers have taken us to court over the Bell seed?", [], [table], TODAY) is None


def test_an_unnamed_column_is_the_nearest_one_by_a_margin(tables: Sequence[RowTable]) -> None:
    table = make_table("Site,Country,Fence m,Gate pcs\nQuay,NL,40,2\nMoor,DK,55,1\n", "sites.csv")

    def compare(text: str, names: Sequence[str]) -> list[float]:
        assert text == "barrier"
        return [0.9 if name == "Fence m" else near for name in names]

    question, near = "Which site in DK or NL has the highest barrier?", 0.8
    found = read_rows(question, [], [table], TODAY, compare)
    assert found is not None
    assert [one.indicator for one in found.series] == ["Fence m"]
    near = 0.89
    assert read_rows(question, [], [table], TODAY, compare) is None


def test_a_sure_reading_of_rows_comes_before_one_that_leaves_words_out(tables: Sequence[RowTable]) -> None:
    rows = read_rows("Total rent per year of the leases of Harbour Books?", [], tables, TODAY)
    assert rows is not None
    whole = read_rows("Total pieces of the lots in the south store?", [], tables, TODAY)
    assert is_better(rows, None, (), ())
    assert not is_better(rows, whole, (), (tables[1].sheet_id,))
    assert is_better(rows, whole, (Gap("books", GapReason.UNREAD, "no step uses it"),), (tables[1].sheet_id,))
