"""Figures of a run: what cells display as drawings, pictures or HTML, stored under the run's own names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from fathom.api.planner.v1.trajectory_pb2 import Figure
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref

PLOTLY = "application/vnd.plotly.v1+json"
PNG, HTML = "image/png", "text/html"
# By media type of a display: the type under which it is stored and shown, and the ending of its key. The sandbox has
# cleaned HTML and SVG.
KINDS = {
    PLOTLY: ("application/json", "json"),
    PNG: (PNG, "png"),
    "image/svg+xml": ("image/svg+xml", "svg"),
    HTML: (HTML, "html"),
}
ENDINGS = dict(KINDS.values())
PNG_HEAD = b"\x89PNG\r\n\x1a\n"
# Characters of a figure's title that a run's record holds.
MAX_TITLE = 300


@dataclass
class FigureStore:
    """Store of the figures of one run, which counts them."""

    store: ObjectStore
    run_id: str
    count: int = 0

    async def put_display(self, display: pb.Display) -> Figure:
        """Store what a cell has displayed; raise ``ValueError`` for plotly's bytes that are no JSON."""
        data = display.data or await read_ref(self.store, display.ref)
        return await self.put(data, *read_form(display.media_type, data))

    async def put(self, data: bytes, content_type: str, title: str) -> Figure:
        """Store a figure under the run's next name."""
        self.count += 1
        key = f"figures/{self.run_id}/fig_{self.count}.{ENDINGS[content_type]}"
        stored = await self.store.put(key, data, content_type)
        return Figure(id=f"fig_{self.count}", title=title, ref=to_ref(stored))


def is_figure(event: pb.ExecuteResponse) -> bool:
    """Return whether an event is a display that becomes a figure of the run."""
    return event.HasField("display") and event.display.media_type in KINDS


def is_drawing(figure: Figure) -> bool:
    """Return whether a figure is a chart or a picture, and not a text as HTML."""
    return figure.ref.content_type != HTML


def read_form(media_type: str, data: bytes) -> tuple[str, str]:
    """Return the type under which a display is stored, and its title; raise ``ValueError`` as ``put_display``."""
    content_type, _ = KINDS[media_type]
    if media_type == PLOTLY:
        # A cell can claim any media type for its bytes, and the page would render them: only JSON is stored.
        return content_type, read_title(json.loads(data))
    return content_type, read_png_title(data) if media_type == PNG else ""


def read_title(figure: object) -> str:
    """Return the title in a figure's JSON; "" without one, and for a layout that plotly would not draw."""
    layout = figure.get("layout") if isinstance(figure, dict) else None
    title = layout.get("title") if isinstance(layout, dict) else None
    text = title.get("text") if isinstance(title, dict) else title
    return text[:MAX_TITLE] if isinstance(text, str) else ""


def read_png_title(data: bytes) -> str:
    """Return the title in the texts of a PNG, which matplotlib's figures have; "" for a picture without one."""
    for kind, content in read_chunks(data):
        keyword, _, rest = content.partition(b"\0")
        if keyword != b"Title":
            continue
        if kind == b"tEXt":
            return rest.decode("latin-1")[:MAX_TITLE]
        if kind == b"iTXt":
            # Whether it is compressed, how, language, keyword in that language, text (PNG specification, 11.3.4.5).
            text = rest[2:].split(b"\0", 2)[-1]
            return ("" if rest[:1] == b"\1" else text.decode("utf-8", "replace"))[:MAX_TITLE]
    return ""


def read_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield type and content of the chunks of a PNG, up to the first that is broken off."""
    position = len(PNG_HEAD) if data.startswith(PNG_HEAD) else len(data)
    while position + 12 <= len(data):
        size = int.from_bytes(data[position : position + 4])
        content = data[position + 8 : position + 8 + size]
        if len(content) < size:
            return
        yield data[position + 4 : position + 8], content
        position += 12 + size
