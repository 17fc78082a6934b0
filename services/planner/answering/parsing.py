r"""Incremental parser of model text; the events do not depend on how the text is split into pieces.

Grammar, on top of CommonMark, whose own syntax passes through unchanged:
- ``[3]``, ``[1, 2]``: a citation of material numbers; not before ``(``, which makes it a link.
- ``{{table:sheet_1}}``, ``{{figure:fig_1}}``: a reference.
- ``<figure>`` around one fenced Python block ``</figure>``: a chart to run. Anything else in the tag, or a tag that
  is never closed, leaves the tag as text.
- None of this applies in code: fenced blocks, spans in backticks. ``\`` before a mark makes it text.
- Any other ``<`` that could begin HTML is a ``Markup``, which ``escape_html`` turns into text.
The concatenated sources of all events are the text. An incomplete mark is held back until it is decided, up to a
bounded number of characters; everything else is emitted immediately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

# Longest marks in characters. They bound what is held back while a mark is incomplete, and the cost of each match.
MAX_FIGURE = 20_000
MAX_SPAN = 2_000
MAX_FENCE_LINE = 400

# Up to sixteen numbers of three digits: ``[3]``, ``[1, 2]``, ``[1，2]``; a longer list is no citation.
CITATION = re.compile(r"\[(\d{1,3}(?:[ \t]{0,2}[,，][ \t]{0,2}\d{1,3}){0,15})\]")
CITATION_BEGUN = re.compile(r"\[(?:\d|[,，]|[ \t]){0,128}$")
REFERENCE = re.compile(r"\{\{(table|figure):([^{}\n]{1,120})\}\}")
REFERENCE_BEGUN = re.compile(r"\{(?:\{[^{}\n]{0,130}\}?)?$")
# A fence of backticks must not contain backticks in its info string (CommonMark), one of tildes may.
FENCE = re.compile(rf" {{0,3}}(`{{3,}}(?=[^`\n]{{0,{MAX_FENCE_LINE}}}\n)|~{{3,}})[^\n]{{0,{MAX_FENCE_LINE}}}\n")
FENCE_BEGUN = re.compile(r" {0,3}(?:`{1,2}|~{1,2})?$")
# The same without the newline: a first line that may be complete or still arriving.
FENCED_LINE = re.compile(rf" {{0,3}}(?:`{{3,}}[^`\n]{{0,{MAX_FENCE_LINE}}}|~{{3,}}[^\n]{{0,{MAX_FENCE_LINE}}})$")
PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\n {0,3}(?:```|~~~)")
# All repetitions are bounded, so that no input makes the match expensive.
FIGURE_OPEN = re.compile(
    r"<figure[ \t]{0,8}>\s{0,40}(`{3,20}|~{3,20})[ \t]{0,8}(?:python|py)?[ \t]{0,8}\n", re.IGNORECASE
)
# Every proper prefix of FIGURE_OPEN, spelled out, to decide whether more text could complete the tag.
FIGURE_BEGUN = re.compile(
    r"<(?:f(?:i(?:g(?:u(?:r(?:e[ \t]{0,8}(?:>\s{0,40}(?:`{1,20}|~{1,20})?[ \t]{0,8}[a-z]{0,6}[ \t]{0,8})?)?)?)?)?)?)?$",
    re.IGNORECASE,
)
FIGURE_END = re.compile(r"\s{0,40}</figure[ \t]{0,8}>", re.IGNORECASE)
TAG = re.compile(r"<[A-Za-z/!?]")
AUTOLINK = re.compile(r"<https?://[^\s<>]{1,2000}>", re.IGNORECASE)
# Every proper prefix of AUTOLINK, likewise.
AUTOLINK_BEGUN = re.compile(r"<(?:h(?:t(?:t(?:p(?:s?(?::(?:/(?:/[^\s<>]{0,2000})?)?)?)?)?)?)?)?$", re.IGNORECASE)
PLAIN = re.compile(r"[^\\`\[{<\n]+")


@dataclass(frozen=True)
class Event:
    """Part of the text: ``source`` is its text, ``start`` its offset in characters."""

    start: int
    source: str

    @property
    def end(self) -> int:
        return self.start + len(self.source)


@dataclass(frozen=True)
class Text(Event):
    """Markdown."""


@dataclass(frozen=True)
class Code(Event):
    """A code span or a part of a fenced block, delimiters included."""


@dataclass(frozen=True)
class Citation(Event):
    """A citation of material numbers."""

    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reference(Event):
    """A reference; ``kind`` is table or figure."""

    kind: str = ""
    name: str = ""


@dataclass(frozen=True)
class FigureBlock(Event):
    """Python code of a chart."""

    code: str = ""


@dataclass(frozen=True)
class Markup(Event):
    """A ``<`` that could begin HTML."""


Found = Event | None | bool
"""Result of a rule: an event, None for no match, or False when more text is needed."""


class AnswerParser:
    """Incremental parser: call ``feed`` with pieces in order, then ``close``. Every input is valid."""

    def __init__(self) -> None:
        self._buffer = ""
        self._start = 0
        self._fresh_line = True
        self._fence = ""
        self._closed = False

    def feed(self, piece: str) -> list[Event]:
        """Add a piece and return the events it completes; text of one line may be split into several events."""
        self._buffer += piece
        return list(self._decide())

    def close(self) -> list[Event]:
        """End the text and return the remaining events; incomplete marks become text."""
        self._closed = True
        return list(self._decide())

    def _decide(self) -> Iterator[Event]:
        while self._buffer:
            event = self._read_fenced_line() if self._fence else self._read_next()
            if event is None:
                return
            self._buffer = self._buffer[len(event.source) :]
            self._start = event.end
            self._fresh_line = event.source.endswith("\n")
            yield event

    def _read_fenced_line(self) -> Event | None:
        """Return one line of a fenced block; None while it is incomplete."""
        end = self._buffer.find("\n") + 1
        if not end:
            if not self._closed:
                return None
            end = len(self._buffer)
        line = self._buffer[:end]
        mark = self._fence[0]
        inner = line.strip(" \t\n")
        # Four spaces make an indented line, which cannot close a fence (CommonMark).
        if len(line) - len(line.lstrip(" ")) < 4 and len(inner) >= len(self._fence) and inner == mark * len(inner):
            self._fence = ""
        return Code(self._start, line)

    def _read_next(self) -> Event | None:
        rules: list[Callable[[], Found]] = []
        first = self._buffer[0]
        if self._fresh_line and first in " `~":
            rules.append(self._read_fence)
        by_mark: dict[str, tuple[Callable[[], Found], ...]] = {
            "`": (self._read_span,), "[": (self._read_citation,), "{": (self._read_reference,),
            "<": (self._read_figure, self._read_markup), "\\": (self._read_escape,),
        }  # fmt: skip
        rules.extend(by_mark.get(first, ()))
        for rule in rules:
            found = rule()
            if found is False:
                return None
            if isinstance(found, Event):
                return found
        # Everything up to the next character that can begin a mark, in one event.
        plain = PLAIN.match(self._buffer)
        if plain and first != "\n":
            return Text(self._start, plain.group())
        # A mark that came to nothing is text; of backticks the whole run, or its rest would be tried again as a shorter
        # fence.
        run = re.match(r"`+|.|\n", self._buffer, re.DOTALL)
        return Text(self._start, run.group() if run else self._buffer)

    def _read_fence(self) -> Found:
        found = FENCE.match(self._buffer)
        if found:
            self._fence = found.group(1)
            return Code(self._start, found.group())
        if self._closed:
            # A fence whose first line is the last one of the text opens an empty block.
            return Code(self._start, self._buffer) if FENCED_LINE.match(self._buffer) else None
        undecided = FENCE_BEGUN.match(self._buffer) or FENCED_LINE.match(self._buffer)
        return False if undecided else None

    def _read_span(self) -> Found:
        marks = re.match("`+", self._buffer)
        width = len(marks.group()) if marks else 0
        # More backticks may follow, and a span ends with as many as it began with.
        if width == len(self._buffer) and not self._closed:
            return False if width <= MAX_SPAN else None
        window = self._buffer[: MAX_SPAN + 1]
        boundary = PARAGRAPH_END.search(window, width)
        limit = boundary.start() if boundary else len(window)
        for closing in re.finditer("`+", window[:limit]):
            if closing.start() == 0 or len(closing.group()) != width:
                continue
            if closing.end() == len(window) and len(window) <= MAX_SPAN and not self._closed:
                return False
            return Code(self._start, window[: closing.end()]) if closing.end() <= MAX_SPAN else None
        if boundary or self._closed or len(window) > MAX_SPAN:
            return None
        return False

    def _read_citation(self) -> Found:
        found = CITATION.match(self._buffer)
        if found is None:
            return False if CITATION_BEGUN.match(self._buffer) and not self._closed else None
        # The next character decides whether this is a link, ``[1](url)``.
        if found.end() == len(self._buffer) and not self._closed:
            return False
        if self._buffer[found.end() : found.end() + 1] == "(":
            return None
        numbers = tuple(int(text) for text in re.split(r"[,，]", found.group(1)))
        return Citation(self._start, found.group(), numbers)

    def _read_reference(self) -> Found:
        found = REFERENCE.match(self._buffer)
        if found:
            return Reference(self._start, found.group(), found.group(1), found.group(2).strip())
        return False if REFERENCE_BEGUN.match(self._buffer) and not self._closed else None

    def _read_figure(self) -> Found:
        opened = FIGURE_OPEN.match(self._buffer)
        if opened is None:
            return False if FIGURE_BEGUN.match(self._buffer) and not self._closed else None
        fence = opened.group(1)
        closing = re.compile(rf"^[ \t]*{re.escape(fence)}{re.escape(fence[0])}*[ \t]*(?=\n|</figure)", re.MULTILINE)
        ended = closing.search(self._buffer, opened.end())
        if ended is not None:
            tag = FIGURE_END.match(self._buffer, ended.end())
            if tag and tag.end() <= MAX_FIGURE:
                code = self._buffer[opened.end() : ended.start()].strip("\n")
                return FigureBlock(self._start, self._buffer[: tag.end()], code) if code.strip() else None
            begun = re.compile(r"\s{0,40}(?:<(?:/[figure]{0,6}[ \t]{0,8})?)?$", re.IGNORECASE)
            if not begun.match(self._buffer, ended.end()):
                return None
        return None if self._closed or len(self._buffer) > MAX_FIGURE else False

    def _read_markup(self) -> Found:
        autolink = AUTOLINK.match(self._buffer)
        if autolink:
            return Text(self._start, autolink.group())
        if AUTOLINK_BEGUN.match(self._buffer) and not self._closed:
            return False
        return Markup(self._start, "<") if TAG.match(self._buffer) else None

    def _read_escape(self) -> Found:
        if len(self._buffer) == 1 and not self._closed:
            return False
        return Text(self._start, self._buffer[: 1 if self._buffer[1:2] == "\n" else 2])


def merge_events(events: Iterable[Event]) -> list[Event]:
    """Merge adjacent text events and adjacent code events, so that the result does not depend on the pieces."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if last is not None and type(last) is type(event) and isinstance(event, Text | Code):
            out[-1] = replace(last, source=last.source + event.source)
        else:
            out.append(event)
    return out


def parse(markdown: str) -> list[Event]:
    """Return the merged events of a complete text."""
    parser = AnswerParser()
    return merge_events([*parser.feed(markdown), *parser.close()])


def escape_html(event: Event) -> str:
    """Return the event as Markdown without HTML."""
    return "\\<" if isinstance(event, Markup) else event.source
