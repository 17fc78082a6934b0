"""Frames of a hostile worker: the supervisor reads them or refuses them, and never fails itself."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.sandbox.ipc.frames import (
    FRAME_HEADER,
    MAX_DISPLAY_BYTES,
    MAX_HEAD_BYTES,
    MAX_RESULT_BYTES,
    MAX_TEXTS,
    MEDIA_TYPES,
    PLOTLY,
    BadFrame,
    FrameKind,
    pack_frame,
    pack_request,
    read_head,
    split_texts,
    unpack_request,
)
from fathom.services.sandbox.supervisor.events import Display, Outcome, Status, Variable
from fathom.services.sandbox.supervisor.servicer import outcome_to_proto
from fathom.services.sandbox.supervisor.worker import reports
from fathom.services.sandbox.supervisor.worker.reports import WorkerResult

NONCE = "0f" * 16


def pack_head(number: int, text_bytes: int, data_bytes: int) -> bytes:
    return FRAME_HEADER.pack(bytes.fromhex(NONCE), number, text_bytes, data_bytes)


def test_round_trip() -> None:
    frame = pack_frame(FrameKind.DISPLAY, NONCE, ("", "价\ud800"), b"image")
    kind, text_bytes, data_bytes = read_head(frame[: FRAME_HEADER.size], NONCE)
    body = frame[FRAME_HEADER.size :]
    # A half of a character that no transport takes.
    assert (kind, split_texts(body[:text_bytes])) == (FrameKind.DISPLAY, ["", "价?"])
    assert (body[text_bytes:], data_bytes) == (b"image", 5)
    assert unpack_request(pack_request({"code": "价"})[4:]) == {"code": "价"}


@pytest.mark.parametrize(
    ("number", "text_bytes", "data_bytes"),
    [(1, MAX_RESULT_BYTES + 1, 0), (1, 0, 1), (2, 0, MAX_DISPLAY_BYTES + 1), (2, MAX_HEAD_BYTES + 1, 1)],
)
def test_a_frame_over_a_limit_is_refused_before_it_is_read(number: int, text_bytes: int, data_bytes: int) -> None:
    with pytest.raises(BadFrame, match="over the limit"):
        read_head(pack_head(number, text_bytes, data_bytes), NONCE)


def test_a_frame_of_another_request_or_kind_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadFrame, match="belongs to no request"):
        read_head(pack_head(1, 4, 0), "00" * 16)
    with pytest.raises(BadFrame, match="unknown kind"):
        read_head(pack_head(3, 4, 0), NONCE)


def test_the_longest_result_of_a_worker_fits() -> None:
    text = "\U0001f600" * (32 * 1024)
    texts = [text, text, "\U0001f600" * 200, text, *["\U0001f600" * 200] * (MAX_TEXTS - 4)]
    frame = pack_frame(FrameKind.RESULT, NONCE, texts)
    assert read_head(frame[: FRAME_HEADER.size], NONCE).kind is FrameKind.RESULT
    assert split_texts(frame[FRAME_HEADER.size :]) == texts


@pytest.mark.parametrize(
    "body", [b"\0", b"\0\0\0", b"\0\0\0\2x", b"\xff\xff\xff\xffx", b"\0\0\0\1\xff", bytes(4 * (MAX_TEXTS + 1))]
)
def test_bodies_that_are_no_texts(body: bytes) -> None:
    with pytest.raises(BadFrame):
        split_texts(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(BadFrame):
        assert all(isinstance(text, str) for text in split_texts(body))
    with suppress(BadFrame):
        read_head(body[: FRAME_HEADER.size].ljust(FRAME_HEADER.size), body[:16].ljust(16).hex())


@given(st.lists(st.text(max_size=8), max_size=16))
def test_any_texts_are_read_or_refused_and_what_is_read_can_be_sent_on(texts: list[str]) -> None:
    received = split_texts(pack_frame(FrameKind.RESULT, NONCE, texts)[FRAME_HEADER.size :])
    with suppress(BadFrame):
        done = reports.parse_result(received)
        outcome = Outcome(
            Status.OK, done.result, done.traceback, done.error_name, done.error_value, changed=done.variables
        )
        sent = outcome_to_proto(outcome)
        assert type(sent).FromString(sent.SerializeToString()) == sent
    with suppress(BadFrame):
        reports.parse_display(received, b"{}")


@pytest.mark.parametrize("count", [0, 3, 5, 6])
def test_another_number_of_texts_ends_the_session(count: int) -> None:
    with pytest.raises(BadFrame, match="no result"):
        reports.parse_result([""] * count)


def test_texts_are_cut() -> None:
    done = reports.parse_result(["x" * 1_000_000, "", "y" * 999, "", "a", "", "z" * 999])
    assert (len(done.result), done.error_name) == (reports.TEXT, "y" * 200)
    assert done.variables == (Variable("a", "", "z" * 200),)
    assert reports.parse_result([""] * 4) == WorkerResult()


def make_head(width: int, height: int) -> bytes:
    """Return the beginning of a PNG of this size."""
    return b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + width.to_bytes(4) + height.to_bytes(4)


def test_pictures_are_pictures_and_the_rest_is_the_fronts_to_judge() -> None:
    for media_type in MEDIA_TYPES:
        data = make_head(1_000, 1_000) if media_type == "image/png" else b"\xff"
        assert reports.parse_display([media_type], data) == Display(media_type, data)
    # One of a few bytes that takes a viewer's memory when it is drawn.
    for bad in (b"GIF89a", make_head(60_000, 60_000), reports.PNG_HEAD):
        assert reports.parse_display(["image/png"], bad) is None


@pytest.mark.parametrize(
    ("texts", "data"), [([], b"1"), (["application/javascript"], b"1"), ([PLOTLY, PLOTLY], b"1"), ([PLOTLY], b"")]
)
def test_displays_of_a_wrong_shape_end_the_session(texts: list[str], data: bytes) -> None:
    with pytest.raises(BadFrame):
        reports.parse_display(texts, data)
