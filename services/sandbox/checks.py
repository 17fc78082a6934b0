"""Checks of code and names from callers, made in the service front before any worker sees them."""

from __future__ import annotations

import builtins
import keyword
import unicodedata

from fathom.errors import InvalidField

RESERVED = frozenset({"pd", "np", "to_date", "In", "Out", "exit", "quit", "get_ipython", "display", *dir(builtins)})
MAX_CODE_BYTES = 262_144
MAX_DESCRIPTION = 1_000


def checked_code(code: str) -> str:
    """Return the code; raise ``InvalidField("code")`` unless it has 1 to ``MAX_CODE_BYTES`` bytes."""
    if not 1 <= len(code.encode()) <= MAX_CODE_BYTES:
        raise InvalidField("code", f"must be 1 to {MAX_CODE_BYTES:,} bytes")
    return code


def checked_name(name: str) -> str:
    """Return the name of a frame; raise ``InvalidField("name")`` unless it is a free, plain identifier."""
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if not plain or keyword.iskeyword(name) or name.startswith("_") or len(name) > 64:
        raise InvalidField("name", f"{name[:80]!r} is no plain identifier of at most 64 characters")
    if name in RESERVED:
        raise InvalidField("name", f"{name!r} is taken by Python or by the session itself")
    return name
