"""Text of a display for a model: the text of a bundle of forms."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from fathom.services.sandbox.ipc.frames import HTML, JSON

DUMP = json.JSONEncoder(ensure_ascii=False).encode
# Forms whose source says more than the name of the object's class.
SOURCES = ("text/markdown", "text/latex")


def choose_text(bundle: dict[str, Any]) -> str:
    """Return the text of a bundle, or what another form says where the text is the mere name of an object."""
    text = str(bundle.get("text/plain") or "")
    if text and not (text.startswith("<") and text.endswith(">") and "\n" not in text):
        return text
    source = next((bundle[kind] for kind in (*SOURCES, JSON) if bundle.get(kind)), None)
    if source is not None:
        return source if isinstance(source, str) else DUMP(source)
    return read_html(str(bundle[HTML])) or text if bundle.get(HTML) else text


def read_html(markup: str) -> str:
    """Return the text between the tags: a line per block or row, cells apart."""
    reader = TextReader()
    reader.feed(markup)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)


class TextReader(HTMLParser):
    """Parser that collects text, without that of scripts and styles."""

    HIDDEN = frozenset({"script", "style", "template", "title"})
    INLINE = frozenset({"a", "abbr", "b", "code", "em", "i", "s", "small", "span", "strong", "sub", "sup", "u"})
    CELLS = frozenset({"td", "th"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self.HIDDEN
        if tag not in self.INLINE:
            self.parts.append(" " if tag in self.CELLS else "\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self.HIDDEN))
        if tag not in self.INLINE | self.CELLS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            # Line breaks in the source are blanks.
            self.parts.append(" ".join(data.split("\n")))
