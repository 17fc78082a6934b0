"""JSON that cells display: what is none, or would cost its readers too much, is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import InvalidField
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.json_displays import SHORT_BYTES, check_json
from fathom.services.sandbox.ipc.frames import JSON, PLOTLY, TABLE
from fathom.services.sandbox.server import SandboxServicer
from fathom.transport.store import open_store


@pytest.mark.parametrize(
    ("media_type", "data"),
    [(PLOTLY, b'{"data": [], "layout": null}'), (TABLE, b"{}"), (JSON, b"[1]"), (JSON, '"价"'.encode())],
)
def test_json_of_its_type_is_left_as_it_is(media_type: str, data: bytes) -> None:
    check_json(media_type, data)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        (PLOTLY, b"[]"), (TABLE, b"null"), (JSON, b"no"), (JSON, b"\xff"), (JSON, b"[" * 100_000), (PLOTLY, b'{"a":' * 9_999),
        # Lists without end, and more values than a figure has.
        (PLOTLY, b'{"data": [' + b"[]," * 300_000 + b"0]}"), (PLOTLY, b'{"data": [' + b"1," * 1_100_000 + b"1]}"),
    ],
)  # fmt: skip
def test_other_json_is_refused(media_type: str, data: bytes) -> None:
    with pytest.raises(InvalidField, match="display"):
        check_json(media_type, data)


async def test_the_front_leaves_out_what_is_no_figure_whether_short_or_long() -> None:
    good = b'{"data": [], "layout": {"title": "' + b"x" * SHORT_BYTES + b'"}}'
    displays = [pb.Display(media_type=PLOTLY, data=data) for data in (b"no figure", good, good[:-1])]

    async def execute(request: pb.ExecuteRequest) -> Any:
        for display in displays:
            yield pb.ExecuteResponse(display=display)

    servicer = SandboxServicer(SimpleNamespace(execute=execute), open_store("memory://"), Config())  # type: ignore[arg-type]
    try:
        request = pb.ExecuteRequest(session_id="s", code="1")
        first, shown, last = [event async for event in servicer.Execute(request, Call.new())]
    finally:
        servicer.close()
    assert shown.display.data == good
    text = f"\n[… {PLOTLY} left out: display: is no {PLOTLY} …]\n"
    assert (first.output.text, last.output.text) == (text, text)
