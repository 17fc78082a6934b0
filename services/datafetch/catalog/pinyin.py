"""Pinyin of Chinese names: "贵州茅台" is also "guizhoumaotai" and "gzmt"."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, cast

from fathom.core.errors import MissingExtra
from fathom.services.datafetch.catalog.text import CJK

# Windows of a question, of at most 20 characters, are read several times. These take at most 3 MB; 50,000 of them, with
# syllables of their own each, took 30 MB.
REMEMBERED = 4_096


@lru_cache(maxsize=REMEMBERED)
def split_syllables(text: str) -> tuple[str, ...]:
    """Return one syllable per Chinese character and other characters unchanged; raises ``MissingExtra``."""
    try:
        from pypinyin import lazy_pinyin
    except ImportError as error:
        raise MissingExtra("pypinyin", "data") from error
    # pypinyin calls this for runs that are not Chinese; its stubs know only the forms that give one string.
    each = cast(Any, lambda rest: [*rest])
    # There are some 400 syllables without tones: each is held once.
    return tuple(map(sys.intern, lazy_pinyin(text, errors=each)))


def romanise(name: str) -> list[str]:
    """Return the full pinyin and, from three characters on, the initials of a name of 2 to 8 Chinese characters.

    Other names have none.
    """
    if not 2 <= len(name) <= 8 or not all(CJK.match(char) for char in name):
        return []
    parts = split_syllables(name)
    initials = "".join(part[0] for part in parts)
    # Two initials are an abbreviation of anything.
    return ["".join(parts), *([initials] if len(initials) >= 3 else [])]
