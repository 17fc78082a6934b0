"""What a frame, a name and a cell must be before they reach a worker."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from fathom import errors, frames
from services.sandbox.checks import checked_code, checked_name
from services.sandbox.tables import examined


@pytest.mark.parametrize("name", ["sheet_1", "df", "数据", "A", "x" * 64, "match"])
def test_good_names(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a b", "a.b", "a;import os", "class", "None", "_", "_x", "__builtins__", "pd", "np", "to_date", "print",
     "list", "display", "exit", "In", "x" * 65, "ﬁ", "a\n"],
)  # fmt: skip
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidField, match="name"):
        checked_name(name)


@pytest.mark.parametrize("code", ["", "x" * 262_145, "价" * 90_000])
def test_code_has_bounds(code: str) -> None:
    with pytest.raises(errors.InvalidField, match="code"):
        checked_code(code)


def test_digest_and_rows_do_not_come_from_the_worker() -> None:
    digest, rows = examined("sheet_1", frames.to_arrow(pd.DataFrame({"a": [1, None]})), 1_000)
    assert rows == 2
    assert digest.startswith("sheet_1: 2 rows × 1 columns")


def test_a_column_of_nulls_is_no_way_round_the_limit() -> None:
    bomb = frames.write_table(pa.table({"n": pa.nulls(100_000_000)}))
    assert len(bomb) < 1_000
    with pytest.raises(errors.InvalidField, match="cells"):
        examined("n", bomb, 50_000_000)


def test_bytes_that_are_no_table_are_the_callers_fault() -> None:
    with pytest.raises(errors.InvalidField, match="data"):
        examined("n", b"garbage", 1_000)
