"""Keyset pagination, so that a list that grows meanwhile repeats nothing. Tokens are opaque and validated."""

from __future__ import annotations

import base64
import json
import math

from fathom.errors import InvalidField

DEFAULT_PAGE, MAX_PAGE = 100, 1_000
Key = str | int | float


def page_size(requested: int) -> int:
    """Return the page size to use, the default for 0; raise ``InvalidField("page_size")``."""
    if not 0 <= requested <= MAX_PAGE:
        raise InvalidField("page_size", f"must be 0 to {MAX_PAGE:,}")
    return requested or DEFAULT_PAGE


def write_token(of: str, *key: Key) -> str:
    """Return a token for continuing after ``key`` in the list ``of``."""
    return base64.urlsafe_b64encode(json.dumps([of, *key], ensure_ascii=False).encode()).decode()


def read_token(token: str, of: str, kinds: tuple[type[Key], ...]) -> tuple[Key, ...]:
    """Return the key; raise ``InvalidField("page_token")`` for a token of another list or not written here."""
    try:
        found = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and found and found[0] == of and tuple(type(value) for value in found[1:]) == kinds:
        key: tuple[Key, ...] = tuple(found[1:])
        finite = all(not isinstance(value, float) or math.isfinite(value) for value in key)
        small = all(not isinstance(value, int) or abs(value) < 2**63 for value in key)
        # Only what write_token writes is accepted, byte for byte.
        if finite and small and token == write_token(of, *key):
            return key
    raise InvalidField("page_token", "is not one that this list gave")
