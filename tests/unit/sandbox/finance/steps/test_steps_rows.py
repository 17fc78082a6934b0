"""Rows of a table that is no series, as steps take them: their values as one, by label, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest

import fathom.services.sandbox.inside.finance.steps as f
from fathom.services.sandbox.inside.finance.errors import InvalidArgument

SITES = pd.DataFrame({"site": ["Quay", "Moor", "Moor", None], "fence": [40.0, 55.0, None, 95.0]})


def test_values_of_some_rows_become_one_and_say_on_which_they_rest() -> None:
    rows = f.rows(SITES, "fence", "fence")
    found = f.sum_rows(f.pick(rows, "the first three", 0, 1, 2))
    # The row without a value is none that the sum rests on.
    assert (found.value, found.rows) == (95.0, {"fence": (4, (0, 1))})
    assert [(one.english, one.is_gap) for one in found.notes] == [("1 of 3 rows without a number for fence", True)]
    assert f.mean_rows(f.pick(rows, "two", 0, 1)).value == 47.5
    assert f.value(f.pick(rows, "one", 3)).value == 95.0


def test_rows_are_compared_by_their_labels() -> None:
    best = f.top(f.by_label(f.pick(f.rows(SITES, "fence"), "two", 0, 1), "site"), 1)
    assert {name: (one.value, one.notes) for name, one in best.members.items()} == {"Moor": (55.0, ())}
    # The row without a value might have been the highest.
    best = f.top(f.by_label(f.pick(f.rows(SITES, "fence"), "three", 0, 1, 2), "site"), 1)
    assert [note.chinese for one in best.members.values() for note in one.notes] == ["3行中有1行没有fence的数值"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f.rows(SITES, "gate"), "'gate' is none of site, fence"),
        (lambda: f.rows([1], "gate"), "must be a DataFrame"),
        (lambda: f.pick(f.rows(SITES, "fence"), "none"), "must be among the 4 rows"),
        (lambda: f.pick(f.rows(SITES, "fence"), "another", 4), "must be among the 4 rows"),
        (lambda: f.value(f.rows(SITES, "fence")), "must be a single one, not 3"),
        (lambda: f.sum_rows(f.pick(f.rows(SITES, "fence"), "empty", 2)), "has no value in these rows"),
        (lambda: f.by_label(f.rows(pd.concat([SITES[:1]] * 2), "fence"), "site"), "more than once"),
        (lambda: f.sum_rows(f.period("2020", "2020")), "must be rows, not a period"),  # type: ignore[arg-type]
    ],
)
def test_what_are_no_such_rows_is_refused(call: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call()  # type: ignore[operator]
