"""Preview of an answer while it is being sampled: a call's string argument, read from the JSON that has arrived.

The output is a draft. It never exceeds what the finished call will contain, and is empty where the call is malformed;
the completion decides what was said. Both readers do work in proportion to the text: a completion arrives in
thousands of pieces, on the event loop of every run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fathom.domain.chat.hermes import OPEN

# Maximum number of characters between the tag and its object: line breaks, a code fence.
BEFORE_CALL = 60
# Maximum number of spaces or line breaks on each side of the argument's colon. It bounds the text that is searched
# again with each piece; a key with more around its colon is not previewed.
MAX_SPACE = 20
# Maximum number of keys of the argument's name that are tried. Each costs a parse of the whole beginning, so that
# without a bound a list of objects with that key would cost the square of its length.
MAX_KEYS = 8
# A part of the inside of a JSON string that can be decoded: plain characters, or an escape such as \n, \u82f9 and the
# pair \ud83d\ude00. Half a pair does not match, nor an escape that has not arrived completely. Parts are matched one by
# one: a repetition of groups would keep a way back for each, and the possessive one is broken in Python 3.11.2.
DECODABLE = re.compile(
    r"""[^"\\]+|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|"""
    r"""u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"""
)
LONGEST_ESCAPE = len(r"\ud83d\ude00")


class ArgumentDraft:
    """Follows the first call of a completion. Does no I/O and raises no errors for malformed input."""

    def __init__(self, tool: str, argument: str) -> None:
        self._tool, self._argument = tool, argument
        self._key = compile_key(argument)
        self._key_length = len(json.dumps(argument)) + 2 * MAX_SPACE + len(':"')
        self._call: list[str] = []
        self._undecided = ""
        self._keys = 0
        self._read: Callable[[str], str] = self._find_call

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` adds to the argument, "" if none."""
        return self._read(piece)

    def _find_call(self, piece: str) -> str:
        """Skip the text before the object of the first call."""
        text = self._undecided + piece
        tag = text.find(OPEN)
        if tag < 0:
            self._undecided = text[-len(OPEN) :]
            return ""
        start = tag + len(OPEN)
        brace = text.find("{", start, start + BEFORE_CALL)
        if brace >= 0:
            self._undecided, self._read = "", self._find_argument
            return self._read(text[brace:])
        if len(text) >= start + BEFORE_CALL:
            return self._stop()
        self._undecided = text[tag:]
        return ""

    def _find_argument(self, piece: str) -> str:
        """Collect the call until the string of the argument begins."""
        self._call.append(piece)
        text = self._undecided + piece
        while found := self._key.search(text):
            self._keys += 1
            text = text[found.end() :]
            call = "".join(self._call)
            if self._is_argument(call[: len(call) - len(text)]):
                self._call.clear()
                self._undecided, self._read = "", self._decode
                return self._read(text)
            if self._keys == MAX_KEYS:
                return self._stop()
        self._undecided = text[-self._key_length :]
        return ""

    def _is_argument(self, call: str) -> bool:
        """Return True if the beginning of a call ends at the opening quote of the wanted argument."""
        try:
            # So completed it is well-formed only if the string stands directly among the call's arguments: the parser
            # settles what is a key, a nested object or text. Line breaks in strings are accepted as in finished calls.
            pairs = json.loads(call + '"}}', strict=False, object_pairs_hook=list)
        except (ValueError, RecursionError):
            return False
        # The order counts: whose argument it is must be known when its first character arrives.
        name = next((value for key, value in reversed(pairs) if key == "name"), None)
        key, arguments = pairs[-1]
        return (
            isinstance(name, str)
            and name.strip() == self._tool
            and key in ("arguments", "parameters")
            and arguments[-1] == (self._argument, "")
        )

    def _decode(self, piece: str) -> str:
        """Return the characters of the string that ``piece`` completes."""
        text = self._undecided + piece
        end = 0
        while found := DECODABLE.match(text, end):
            end = found.end()
        self._undecided = text[end:]
        # An unescaped quote ends the string. A longer rest is no escape that is still to arrive, but a fault.
        if self._undecided.startswith('"') or len(self._undecided) >= LONGEST_ESCAPE:
            self._stop()
        decoded: str = json.loads(f'"{text[:end]}"', strict=False)
        return decoded

    def _stop(self) -> str:
        self._undecided, self._read = "", lambda piece: ""
        self._call.clear()
        return ""


def compile_key(argument: str) -> re.Pattern[str]:
    """Return the pattern of the argument's key, colon and opening quote: ``"answer": "``."""
    return re.compile(rf"{re.escape(json.dumps(argument))}\s{{0,{MAX_SPACE}}}:\s{{0,{MAX_SPACE}}}\"")


class ProseDraft:
    """Follows a completion that may answer without a call; stops where a call begins."""

    def __init__(self) -> None:
        self._space: list[str] = []
        self._undecided = ""
        self._has_begun = self._is_finished = False

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` adds to the prose before a call."""
        if not self._has_begun:
            self._space.append(piece)
            first = piece.lstrip()[:1]
            if not first:
                return ""
            piece, self._has_begun = "".join(self._space), True
            self._is_finished = first in "{`"  # a bare call, fenced or not
        if self._is_finished:
            return ""
        text = self._undecided + piece
        end = text.find(OPEN)
        self._is_finished = end >= 0
        if end < 0:
            # The end of the text may be the beginning of a tag.
            end = len(text) - next((n for n in range(len(OPEN) - 1, 0, -1) if text.endswith(OPEN[:n])), 0)
        self._undecided = text[end:]
        return text[:end]


def written_head(name: str) -> str:
    """Return the opening text of a Hermes call, for an endpoint that has its own call format.

    The arguments follow, then ``WRITTEN_TAIL``.
    """
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


WRITTEN_TAIL = "}\n</tool_call>\n"
