"""Page tokens and pages: keyset pagination, so that a list that grows meanwhile repeats nothing.

A token says after which key of which list to continue. It is opaque to callers and accepted only as it was written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence

from fathom.core.errors import InvalidField

# The largest page bounds an answer's size and a query's time; a client that wants more follows the tokens.
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
        # Not signed: a token only says where to continue, and everything that it leads to is checked again.
        found = json.loads(base64.urlsafe_b64decode(token.encode()))
    # A token comes from outside: broken base64 or JSON are ValueErrors, brackets without end a RecursionError.
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and found and found[0] == of and tuple(type(value) for value in found[1:]) == kinds:
        key: tuple[Key, ...] = tuple(found[1:])
        finite = all(not isinstance(value, float) or math.isfinite(value) for value in key)
        # Larger integers do not fit into the databases that the keys go to.
        small = all(not isinstance(value, int) or abs(value) < 2**63 for value in key)
        # Only what write_token writes is accepted, byte for byte.
        if finite and small and token == write_token(of, *key):
            return key
    raise unknown_token()


def page_of_list(names: Sequence[str], of: str, requested: int, token: str) -> tuple[list[str], str]:
    """Return a page of unique names and the token of the next page, empty after the last one.

    Raises ``InvalidField`` for a size out of range, and for a token of another list or of a name that is gone.
    """
    size, start = page_size(requested), 0
    if token:
        (last,) = read_token(token, of, (str,))
        if last not in names:
            raise unknown_token()
        start = list(names).index(str(last)) + 1
    page = list(names[start : start + size])
    return page, write_token(of, page[-1]) if page and start + len(page) < len(names) else ""


def unknown_token() -> InvalidField:
    """Return the error for a token that the list did not give."""
    return InvalidField("page_token", "is not one that this list gave")
