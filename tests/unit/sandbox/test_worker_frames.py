"""Frames of a hostile worker: the supervisor reads them or refuses them, and never fails itself."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.sandbox.ipc.frames import (
    HEADER,
    MAX_DISPLAY_BYTES,
    MAX_JSON,
    MEDIA_TYPES,
    PLOTLY,
    BadFrame,
    pack,
    read_lengths,
    unpack,
)
from fathom.services.sandbox.supervisor.events import Display, Outcome, Status, Variable
from fathom.services.sandbox.supervisor.servicer import outcome_to_proto
from fathom.services.sandbox.supervisor.worker import reports
from fathom.services.sandbox.supervisor.worker.reports import WorkerResult

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["kind", "nonce", "result", "traceback", "error_name", "error_value", "variables", "media_type", "data", "name"]
)
TYPES = st.sampled_from([*MEDIA_TYPES, "text/x"])


def test_round_trip() -> None:
    frame = pack({"kind": "display", "text": "价\ud800"}, b"image")
    size, data_size = read_lengths(frame[: HEADER.size])
    body = frame[HEADER.size :]
    assert unpack(body[:size]) == {"kind": "display", "text": "价\ud800"}
    assert (body[size:], data_size) == (b"image", 5)


@pytest.mark.parametrize("lengths", [(MAX_JSON + 1, 0), (2, MAX_DISPLAY_BYTES + 1)])
def test_a_frame_over_a_limit_is_refused_before_it_is_read(lengths: tuple[int, int]) -> None:
    with pytest.raises(BadFrame, match="over the limit"):
        read_lengths(HEADER.pack(*lengths))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000]
)
def test_bodies_that_are_no_object(body: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(BadFrame):
        assert isinstance(unpack(body), dict)


@given(st.dictionaries(FIELDS | st.text(max_size=8), JSON, max_size=8))
def test_any_object_is_read_or_refused_and_what_is_read_can_be_sent_on(frame: dict[str, Any]) -> None:
    received = unpack(pack(frame)[HEADER.size :])
    with suppress(BadFrame):
        done = reports.parse_result(received)
        outcome = Outcome(
            Status.OK, done.result, done.traceback, done.error_name, done.error_value, changed=done.variables
        )
        sent = outcome_to_proto(outcome)
        assert type(sent).FromString(sent.SerializeToString()) == sent
    with suppress(BadFrame):
        reports.parse_display(received, b"{}")


@given(TYPES, st.binary(max_size=80))
def test_any_display_is_read_dropped_or_refused(media_type: str, data: bytes) -> None:
    with suppress(BadFrame):
        found = reports.parse_display({"media_type": media_type}, data)
        assert found is None or reports.is_valid(found.media_type, found.data)


@pytest.mark.parametrize(
    "frame",
    [
        {"result": 1},
        {"error_name": None},
        {"traceback": ["x"]},
        {"variables": "x"},
        {"variables": ["x"]},
        {"variables": [{"name": 3}]},
    ],
)
def test_wrong_shapes_end_the_session(frame: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        reports.parse_result(frame)


def test_texts_are_cut_and_encodable() -> None:
    done = reports.parse_result(
        {"result": "x" * 1_000_000, "error_name": "\ud800" * 999, "variables": [{"name": "a"}] * 999}
    )
    assert (len(done.result), done.error_name, len(done.variables)) == (reports.TEXT, "?" * 200, 200)
    assert done.variables[0] == Variable("a", "", "")
    assert reports.parse_result({}) == WorkerResult()


def make_head(width: int, height: int) -> bytes:
    """Return the beginning of a PNG of this size."""
    return b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + width.to_bytes(4) + height.to_bytes(4)


def test_displays_are_what_their_type_says() -> None:
    figure = json.dumps({"data": [], "layout": {}}).encode()
    good = [(PLOTLY, figure), ("image/png", make_head(1_000, 1_000)), ("text/html", "<b>价</b>".encode())]
    good += [("image/svg+xml", b"<svg/>"), ("application/json", b"[1]"), ("application/json", b'"text"')]
    for media_type, data in good:
        assert reports.parse_display({"media_type": media_type}, data) == Display(media_type, data)
    bad = [(PLOTLY, b"[]"), (PLOTLY, b"no"), (PLOTLY, b"[" * 100_000), ("image/png", b"GIF89a"), ("text/html", b"\xff")]
    bad += [("application/json", b"no"), ("application/json", b"[" * 100_000), ("image/svg+xml", b"\xff")]
    # A picture of a few bytes that takes a viewer's memory when it is drawn.
    bad += [("image/png", make_head(60_000, 60_000)), ("image/png", reports.PNG_HEAD)]
    # Lists without end, and more values than a figure has.
    bad += [(PLOTLY, b'{"data": [' + b"[]," * 300_000 + b"0]}"), (PLOTLY, b'{"data": [' + b"1," * 1_100_000 + b"1]}")]
    for media_type, data in bad:
        assert reports.parse_display({"media_type": media_type}, data) is None


@pytest.mark.parametrize("frame", [{}, {"media_type": "application/javascript"}, {"media_type": 1}])
def test_displays_of_a_wrong_shape_end_the_session(frame: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        reports.parse_display(frame, b"")
