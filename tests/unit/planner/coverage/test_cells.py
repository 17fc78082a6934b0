"""Test what the code of cells names: densities, numbers, measures, and sheets read, also through other cells."""

from __future__ import annotations

import pytest

from fathom.services.planner.coverage.cells import close_over, read_cell


@pytest.mark.parametrize(
    ("code", "frequencies"),
    [
        ("x.resample('ME').last()", {"monthly"}),
        ("x.resample('W-FRI').last()", {"weekly"}),
        ("x.asfreq('QE-DEC')", {"quarterly"}),
        ("x.groupby(x.index.year).mean()", {"annual"}),
        ("x.groupby([x.index.year, x.index.month]).last()", {"monthly"}),
        ("finance.period_returns(x, 'monthly')", {"monthly"}),
        # The same letters as a column's name, or printed, are no density.
        ("x['M'].mean()", set()),
        ("print('D')", set()),
    ],
)
def test_a_density_is_read_from_what_resamples(code: str, frequencies: set[str]) -> None:
    assert read_cell(code).frequencies == frequencies


def test_numbers_count_also_as_quotients_and_never_as_truth_values() -> None:
    facts = read_cell("rate = 3 / 100\nflag = True\nweights = [0.6, 0.4]")
    assert {0.03, 0.6, 0.4} <= facts.numbers
    # True is a number to Python, and would fill any question about "one".
    assert 1.0 not in facts.numbers


def test_a_cell_that_is_no_python_names_nothing() -> None:
    assert read_cell("%matplotlib inline\nx =").labels == ()


def test_a_cell_brings_the_earlier_cells_whose_names_it_reads() -> None:
    cells = {
        2: read_cell("rate = 0.02\nprice = sheet_1['AAPL.close_adj']"),
        3: read_cell("other = sheet_2.mean()"),
        4: read_cell("print(price.mean() - rate)"),
    }
    # Cell 4 is cited and reads names of cell 2; cell 3 has nothing to do with either.
    used, loads = close_over(cells, [4])
    assert used == [2, 4]
    assert "sheet_1" in loads
    assert "sheet_2" not in loads
