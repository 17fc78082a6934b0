"""Preview of an answer while it is being sampled: a call's string argument, decoded as its characters arrive.

The output is a draft. It never exceeds what the finished call will contain, and is empty where the call is malformed;
the completion decides what was said.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress

from fathom.protocol.hermes import OPEN

Reader = Generator[None, str, None]
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
BEFORE_CALL = 60
MAX_DEPTH = 40
UNKNOWN = "\ufffd"


class Malformed(Exception):
    """The text is not a call that can be followed; private to this module."""


class ArgumentDraft:
    """Follows the first call of a completion. Does no I/O and raises no errors for malformed input."""

    def __init__(self, tool: str, argument: str) -> None:
        self._tool, self._path = tool, (("arguments", argument), ("parameters", argument))
        self._name = ""
        self._back = ""
        self._out: list[str] = []
        self._reader: Reader | None = self._call()
        next(self._reader)

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` adds to the argument, "" if none."""
        self._out.clear()
        for character in piece:
            if self._reader is None:
                break
            try:
                self._reader.send(character)
            except (Malformed, StopIteration):
                self._reader = None
        return "".join(self._out)

    def _next(self) -> Generator[None, str, str]:
        if self._back:
            character, self._back = self._back, ""
            return character
        return (yield)

    def _visible(self) -> Generator[None, str, str]:
        """Return the next character that is not a space."""
        while (character := (yield from self._next())).isspace():
            pass
        return character

    def _call(self) -> Reader:
        seen = ""
        while not seen.endswith(OPEN):
            seen = (seen + (yield from self._next()))[-len(OPEN) :]
        for _ in range(BEFORE_CALL):
            if (yield from self._next()) == "{":
                yield from self._object(())
                return
        raise Malformed

    def _value(self, path: tuple[str, ...]) -> Reader:
        first = yield from self._visible()
        if first == '"':
            live = path in self._path and self._name == self._tool
            text = yield from self._string(live)
            if path == ("name",):
                self._name = text.strip()
        elif first in "{[":
            if len(path) > MAX_DEPTH:
                raise Malformed
            yield from self._object(path) if first == "{" else self._array(path)
        else:
            while (character := (yield from self._next())) not in ",]}":
                if character in '{["':
                    raise Malformed
            self._back = character

    def _object(self, path: tuple[str, ...]) -> Reader:
        while True:
            mark = yield from self._visible()
            if mark == "}":
                return
            if mark != '"':
                raise Malformed
            key = yield from self._string(False)
            if (yield from self._visible()) != ":":
                raise Malformed
            yield from self._value((*path, key))
            if (yield from self._visible()) == "}":
                return

    def _array(self, path: tuple[str, ...]) -> Reader:
        first = yield from self._visible()
        if first == "]":
            return
        self._back = first
        while True:
            yield from self._value((*path, "[]"))
            if (yield from self._visible()) == "]":
                return

    def _string(self, live: bool) -> Generator[None, str, str]:
        text: list[str] = []
        while (character := (yield from self._next())) != '"':
            if character == "\\":
                character = yield from self._escaped()
            text.append(character)
            if live:
                self._out.append(character)
        return "".join(text)

    def _escaped(self) -> Generator[None, str, str]:
        kind = yield from self._next()
        if kind != "u":
            return ESCAPES.get(kind, kind)
        code = yield from self._hex()
        if 0xD800 <= code < 0xDC00:  # the first half of a pair: the second must follow
            if (yield from self._next()) != "\\" or (yield from self._next()) != "u":
                raise Malformed
            low = yield from self._hex()
            if not 0xDC00 <= low < 0xE000:
                return UNKNOWN
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        return UNKNOWN if 0xDC00 <= code < 0xE000 else chr(code)

    def _hex(self) -> Generator[None, str, int]:
        digits = ""
        for _ in range(4):
            digits += yield from self._next()
        with suppress(ValueError):
            return int(digits, 16)
        raise Malformed


class ProseDraft:
    """Follows a completion that may answer without a call; stops where a call begins."""

    def __init__(self) -> None:
        self._text = ""
        self._given = 0

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` adds to the prose before a call."""
        self._text += piece
        if self._text.lstrip()[:1] in ("{", "`", ""):  # a bare call, fenced or not, or nothing yet
            return ""
        end = self._text.find(OPEN)
        if end < 0:
            held = next((n for n in range(len(OPEN) - 1, 0, -1) if self._text.endswith(OPEN[:n])), 0)
            end = len(self._text) - held
        added, self._given = self._text[self._given : end], max(self._given, end)
        return added


def written_head(name: str) -> str:
    """Return the opening text of a Hermes call, for an endpoint that has its own call format.

    The arguments follow, then ``WRITTEN_TAIL``.
    """
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


WRITTEN_TAIL = "}\n</tool_call>\n"
