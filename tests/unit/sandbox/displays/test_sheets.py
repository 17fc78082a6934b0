"""Sheets in a worker: loaded when named, dropped when they are too many and unchanged, never lost."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fathom.services.sandbox.inside.sheets import Sheets, measure_frame
from fathom.services.sandbox.ipc.memfd import create_sealed_memory
from tests.support.tables import to_arrow

ROWS = 1_000


def frame(start: int = 0) -> pd.DataFrame:
    return pd.DataFrame({"n": range(start, start + ROWS), "x": [0.5] * ROWS})


def descriptor(table: pd.DataFrame, name: str = "sheet") -> int:
    return create_sealed_memory(name, to_arrow(table)).descriptor


@pytest.fixture
def namespace() -> dict[str, Any]:
    return {}


@pytest.fixture
def sheets(namespace: dict[str, Any]) -> Sheets:
    return Sheets(namespace)


def fill(sheets: Sheets, count: int, *, lazy: bool, bound: int) -> None:
    for number in range(1, count + 1):
        sheets.put(f"sheet_{number}", descriptor(frame(number)), lazy, bound)


def test_an_eager_sheet_is_there_at_once(sheets: Sheets, namespace: dict[str, Any]) -> None:
    sheets.put("sheet_1", descriptor(frame()), False, 1 << 30)
    pd.testing.assert_frame_equal(namespace["sheet_1"], frame())
    assert sheets.list_unloaded() == []


def test_a_lazy_sheet_comes_when_it_is_named(sheets: Sheets, namespace: dict[str, Any]) -> None:
    fill(sheets, 3, lazy=True, bound=1 << 30)
    assert namespace == {}
    assert (sheets.list_unloaded()[0]["name"], sheets.list_unloaded()[0]["shape"]) == ("sheet_1", "(1000, 2)")
    # Names of which only a part is a sheet's.
    sheets.load_named("print(sheet_12, my_sheet_1)")
    assert namespace == {}
    sheets.load_named("def f():\n    return sheet_2.n.sum()")
    assert list(namespace) == ["sheet_2"]


# Ways to a variable without writing its name: then any sheet may be meant.
@pytest.mark.parametrize("code", ["globals()[f'sheet_{i}']", "eval('sheet' + '_1')", "vars ()", "%who"])
def test_code_that_reaches_names_in_another_way_gets_all(sheets: Sheets, namespace: dict[str, Any], code: str) -> None:
    fill(sheets, 3, lazy=True, bound=1 << 30)
    sheets.load_named(code)
    assert len(namespace) == 3


def test_the_least_recently_used_go_first_and_come_back(sheets: Sheets, namespace: dict[str, Any]) -> None:
    # Room for two of the four.
    one = measure_frame(frame())
    fill(sheets, 4, lazy=False, bound=2 * one)
    assert sorted(namespace) == ["sheet_3", "sheet_4"]
    sheets.load_named("sheet_1")
    # The third had to go for the first, the fourth was used later.
    assert sorted(namespace) == ["sheet_1", "sheet_4"]
    pd.testing.assert_frame_equal(namespace["sheet_1"], frame(1))


def test_a_changed_sheet_is_never_dropped(sheets: Sheets, namespace: dict[str, Any]) -> None:
    one = measure_frame(frame())
    sheets.put("sheet_1", descriptor(frame(1)), False, one)
    # A single changed cell is work of the session, which no reload could bring back.
    namespace["sheet_1"].loc[0, "x"] = 9.0
    sheets.put("sheet_2", descriptor(frame(2)), False, one)
    assert namespace["sheet_1"].loc[0, "x"] == 9.0
    # The name now holds something else.
    namespace["sheet_2"] = "the cell's own"
    sheets.put("sheet_3", descriptor(frame(3)), False, one)
    assert namespace["sheet_2"] == "the cell's own"


def test_a_sheet_put_again_replaces_the_old_one(sheets: Sheets, namespace: dict[str, Any]) -> None:
    sheets.put("sheet_1", descriptor(frame(1)), False, 1 << 30)
    sheets.put("sheet_1", descriptor(frame(7)), True, 1 << 30)
    assert namespace == {}
    sheets.load_named("sheet_1")
    assert namespace["sheet_1"].n[0] == 7


def test_a_cell_cannot_write_through_to_the_shared_bytes(sheets: Sheets, namespace: dict[str, Any]) -> None:
    sheets.put("sheet_1", descriptor(frame()), False, 1 << 30)
    # Written into the copy of the cell; the shared memory is read-only.
    namespace["sheet_1"]["x"] = -1.0
    del namespace["sheet_1"]
    sheets.load_named("sheet_1")
    assert namespace["sheet_1"].x[0] == 0.5
