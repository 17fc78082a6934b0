"""Figures of a run: every kind of display under its own type, with the title that it brings."""

from __future__ import annotations

import zlib

import pytest

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.services.planner.tools.figures import (
    MAX_TITLE,
    PLOTLY,
    PNG_HEAD,
    FigureStore,
    is_drawing,
    is_figure,
    read_png_title,
)
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import read_ref


def make_chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)


PICTURE = PNG_HEAD + make_chunk(b"IHDR", bytes(13)) + make_chunk(b"tEXt", b"Title\0Prices")


async def test_each_kind_is_stored_under_its_type() -> None:
    store = MemoryStore()
    figures = FigureStore(store, "run_1", 2)
    displays = [
        pb.Display(media_type=PLOTLY, data=b'{"data": [], "layout": {"title": "Lines"}}'),
        pb.Display(media_type="image/png", data=PICTURE),
        pb.Display(media_type="image/svg+xml", data=b"<svg/>"),
        pb.Display(media_type="text/html", data=b"<b>x</b>"),
    ]
    stored = [await figures.put_display(display) for display in displays]
    assert [(figure.id, figure.title, figure.ref.content_type) for figure in stored] == [
        ("fig_3", "Lines", "application/json"),
        ("fig_4", "Prices", "image/png"),
        ("fig_5", "", "image/svg+xml"),
        ("fig_6", "", "text/html"),
    ]
    assert [await read_ref(store, figure.ref) for figure in stored] == [display.data for display in displays]
    assert [is_drawing(figure) for figure in stored] == [True, True, True, False]


@pytest.mark.parametrize(("media_type", "expected"), [(PLOTLY, True), ("image/png", True), ("application/json", False)])
def test_which_displays_are_figures(media_type: str, expected: bool) -> None:
    assert is_figure(pb.ExecuteResponse(display=pb.Display(media_type=media_type))) is expected
    assert not is_figure(pb.ExecuteResponse(output=pb.OutputChunk(text="x")))


async def test_bytes_that_claim_to_be_plotlys_are_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        await FigureStore(MemoryStore(), "run_1").put_display(pb.Display(media_type=PLOTLY, data=b"<script>"))


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (PICTURE, "Prices"),
        (PNG_HEAD + make_chunk(b"iTXt", b"Title\0\0\0\0\0" + "价格".encode()), "价格"),
        (PNG_HEAD + make_chunk(b"iTXt", b"Title\0\1\0\0\0" + zlib.compress(b"x")), ""),
        (PNG_HEAD + make_chunk(b"tEXt", b"Title\0" + b"x" * 9_999), "x" * MAX_TITLE),
        (PNG_HEAD + make_chunk(b"tEXt", b"Author\0me"), ""),
        (PNG_HEAD + b"\xff\xff\xff\xff" + b"tEXt" + b"Title\0x", ""),
        (PICTURE[: len(PICTURE) - 8], ""),
        (PNG_HEAD, ""),
        (b"", ""),
        (b"GIF89a", ""),
    ],
)
def test_the_title_of_a_picture(data: bytes, title: str) -> None:
    assert read_png_title(data) == title
