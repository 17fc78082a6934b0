"""What the supervisor makes of hostile frames and floods; dates in any format."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.errors import InvalidField
from services.sandbox.engine import checked_code, checked_name, checked_path
from services.sandbox.output import Budget, Decoder
from services.sandbox.preload import to_date
from services.sandbox.session import as_variables, displays
from services.sandbox.wire import HEADER, MAX_FRAME, BadFrame, length, pack, text, unpack

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary())
def test_any_bytes_are_a_message_or_a_bad_frame(body: bytes) -> None:
    with contextlib.suppress(BadFrame):
        assert isinstance(unpack(body), dict)


@given(st.dictionaries(st.sampled_from(["changed", "displays", "variables", "result", "error_name"]), JSON))
def test_any_claims_of_a_worker_are_read_without_failing(message: dict[str, Any]) -> None:
    as_variables(message, "changed")
    displays(message)
    assert len(text(message, "result", 10)) <= 10


def test_frames_round_trip_and_are_bounded() -> None:
    frame = pack({"kind": "x", "n": 1})
    assert length(frame[: HEADER.size]) == len(frame) - HEADER.size
    assert unpack(frame[HEADER.size :]) == {"kind": "x", "n": 1}
    with pytest.raises(BadFrame, match="over the limit"):
        length(HEADER.pack(MAX_FRAME + 1))
    for body in (json.dumps([1]).encode(), b"[" * 100_000):
        with pytest.raises(BadFrame):
            unpack(body)


@given(st.text(), st.integers(1, 7))
def test_text_split_anywhere_arrives_whole(content: str, size: int) -> None:
    data, decoder, budget = content.encode(), Decoder(), Budget(1_000_000)
    parts = [decoder.decode(data[i : i + size], budget) for i in range(0, len(data), size)]
    assert "".join(parts) == content
    assert budget.dropped == 0


def test_a_budget_is_kept_and_the_rest_is_counted() -> None:
    decoder, budget = Decoder(), Budget(10)
    assert decoder.decode(b"x" * 8, budget) + decoder.decode(b"y" * 8, budget) == "xxxxxxxxyy"
    assert (budget.seen, budget.dropped) == (16, 6)


DAY = pd.Timestamp("2025-02-07")
DATES: list[tuple[Any, Any]] = [
    ("2025/2/7", DAY), ("2025/02/07", DAY), ("20250207", DAY), (20250207, DAY), (20250207.0, DAY), ("2025-02-07", DAY),
    ("2025-2-7", DAY), ("2025年2月7日", DAY), ("2025.02.07", DAY), (" 2025-02-07 ", DAY), (pd.Timestamp("2025-02-07"), DAY),
    (DAY.to_pydatetime(), DAY), (DAY.date(), DAY), ("2025-02-07 00:00:00", DAY), ("2025/7/27", pd.Timestamp("2025-07-27")),
    (None, pd.NaT), (float("nan"), pd.NaT), (pd.NaT, pd.NaT), ("", pd.NaT), ("nonsense", pd.NaT), ("20251345", pd.NaT),
    ("2025-13-01", pd.NaT), ("123", pd.NaT), (7, pd.NaT),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), DATES)
def test_to_date(value: Any, expected: Any) -> None:
    found = to_date(value)
    assert found is pd.NaT if expected is pd.NaT else found == expected


def test_to_date_takes_series_and_lists() -> None:
    assert to_date(pd.Series(["2025/2/7", "20250207", None])).tolist()[:2] == [DAY, DAY]
    assert list(to_date(["2025-02-07"])) == [DAY]


@pytest.mark.parametrize("name", ["", "1a", "a b", "class", "_x", "__x__", "pd", "to_date", "a" * 65, "a;b"])
def test_bad_frame_names(name: str) -> None:
    with pytest.raises(InvalidField, match="name"):
        checked_name(name)


def test_bad_code_and_paths() -> None:
    for code in ("", "x" * 262_145):
        with pytest.raises(InvalidField, match="code"):
            checked_code(code)
    for path in ("", "/a", "../a", "a/../b", "a\nb", "a/" * 9 + "b"):
        with pytest.raises(InvalidField, match="path"):
            checked_path(path)
