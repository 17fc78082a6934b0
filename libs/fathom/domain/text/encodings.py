"""The encoding of a text that does not say it: UTF-8, UTF-16, GB 18030 or Windows-1252."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# What no text holds; form feeds and the mark of DOS for its end stand in some.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f]")
# A byte over 127 and the next one, which GB 18030 reads as one character.
PAIR = re.compile(rb"[\x81-\xfe][\x30-\x7e\x80-\xfe]")
WINDOWS = "cp1252"


class DecodedText(NamedTuple):
    """A text and the name of the encoding by which it was read."""

    text: str
    encoding: str

    @property
    def is_guess(self) -> bool:
        """Return whether only the look of the bytes spoke for the encoding."""
        return self.encoding == WINDOWS


def decode_text(data: bytes) -> DecodedText | None:
    """Decode by byte order mark, or as UTF-8, GB 18030 or Windows-1252; None for what is no text in any of them."""
    for mark, name in BOMS:
        if data.startswith(mark):
            return DecodedText(data.decode(name, errors="replace"), name)
    # UTF-8 first: the other two accept nearly any bytes.
    for name in ("utf-8", WINDOWS if is_western(data) else "gb18030", WINDOWS):
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        # Binary files and UTF-16 without a mark decode, too; nearly any bytes do by the last encoding.
        is_binary = CONTROL.search(text) if name == WINDOWS else "\x00" in text
        return None if is_binary else DecodedText(text, name)
    return None


def is_western(data: bytes) -> bool:
    """Return whether most bytes over 127 stand before a letter of ASCII, as accents do in words.

    In Chinese text nearly every second byte of a character is over 127, too: the 6,763 characters of GB 2312 have no
    other ones.
    """
    pairs: list[bytes] = PAIR.findall(data)
    return sum(pair[1] < 0x80 for pair in pairs) * 2 > len(pairs)
