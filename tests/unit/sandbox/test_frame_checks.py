"""Test what a frame, a name and a cell must be before they reach a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fathom.core import errors
from fathom.domain import frames
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.checks import validate_code, validate_frame_name
from fathom.services.sandbox.front.tables import inspect_table
from tests.support.tables import to_arrow


# Any identifier of Python that hides nothing, "match" too, which is a keyword in one place only.
@pytest.mark.parametrize("name", ["sheet_1", "df", "数据", "A", "x" * 64, "match"])
def test_good_names(name: str) -> None:
    assert validate_frame_name(name) == name


@pytest.mark.parametrize(
    "name",
    # No identifiers, keywords, hidden names, what every cell has, a ligature that Python would normalise.
    ["", "1a", "a b", "a.b", "a;import os", "class", "None", "_", "_x", "__builtins__", "pd", "np", "to_date", "print",
     "list", "display", "exit", "In", "x" * 65, "ﬁ", "a\n"],
)  # fmt: skip
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidField, match="name"):
        validate_frame_name(name)


# None, one character over 256 KiB, and characters of three bytes: the limit is of bytes.
@pytest.mark.parametrize("code", ["", "x" * 262_145, "价" * 90_000])
def test_code_has_bounds(code: str) -> None:
    with pytest.raises(errors.InvalidField, match="code"):
        validate_code(code)


@pytest.mark.parametrize("kind", ["", frames.ARROW_STREAM, frames.PARQUET])
# One number and a gap: the digest counts them itself, whatever a worker says of its table.
def test_digest_and_rows_do_not_come_from_the_worker(kind: str) -> None:
    data = to_arrow(pd.DataFrame({"a": [1, None]}))
    kept = frames.write_parquet(frames.read_table(data)) if kind == frames.PARQUET else data
    arrow, digest, rows = inspect_table("sheet_1", kept, kind, Config())
    assert (frames.read_table(arrow).equals(frames.read_table(data)), rows) == (True, 2)
    assert digest.startswith("sheet_1: 2 rows × 1 columns")


@pytest.mark.parametrize("write", [frames.write_table, frames.write_parquet])
def test_a_column_of_nulls_is_no_way_round_the_limit(write: Callable[[Any], bytes]) -> None:
    # A hundred million nulls pack into some kilobytes and are as many cells in memory.
    bomb = write(pa.table({"n": pa.nulls(100_000_000)}))
    assert len(bomb) < 400_000
    kind = frames.PARQUET if write is frames.write_parquet else ""
    with pytest.raises(errors.InvalidField, match="cells"):
        inspect_table("n", bomb, kind, Config())


def test_a_small_file_that_says_much_is_left() -> None:
    # 300,000 times the same thousand characters: a dictionary on disk, 300 MB in memory.
    bomb = frames.write_parquet(pa.table({"n": pa.repeat(pa.scalar("x" * 1_000), 300_000)}))
    assert len(bomb) < 200_000
    with pytest.raises(errors.InvalidField, match="more than 268,435,456 bytes"):
        inspect_table("n", bomb, frames.PARQUET, Config())


@pytest.mark.parametrize(
    ("data", "kind"), [(b"garbage", ""), (b"PAR1", frames.PARQUET), (b"a,b", "text/csv"), (b"", frames.PARQUET)]
)
def test_bytes_that_are_no_table_are_the_callers_fault(data: bytes, kind: str) -> None:
    with pytest.raises(errors.InvalidField, match="data"):
        inspect_table("n", data, kind, Config())
