"""Page tokens: opaque to callers, bound to one text, rejected if tampered with.

They survive a change of the snapshot, as long as the document stays the same.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from fathom.errors import InvalidField


def write_token(text_key: str, ident: str, position: int) -> str:
    """Return a token for continuing with a document at a character position."""
    return base64.urlsafe_b64encode(f"{text_key[:16]}\n{ident}\n{position}".encode()).decode()


def read_token(token: str, text_key: str, ident: str, length: int) -> int:
    """Return the position; raise ``InvalidField("page_token")`` for a token of another text or not written here."""
    try:
        position = int(base64.urlsafe_b64decode(token.encode()).decode().rpartition("\n")[2])
    except ValueError:
        position = -1
    # Only what write_token writes is accepted, byte for byte.
    if not 0 < position < length or token != write_token(text_key, ident, position):
        raise InvalidField("page_token", "is not one that Fetch gave for this document as it is now")
    return position


def page_of_list(names: Sequence[str], page_size: int, page_token: str, largest: int = 1_000) -> tuple[list[str], str]:
    """Return a page of a list and the next page's token, which names the last item, so that new names do no harm.

    Raises ``InvalidField`` for a size out of range and for a token that this list did not return.
    """
    if not 0 <= page_size <= largest:
        raise InvalidField("page_size", f"must be 0 to {largest:,}")
    start = 0
    if page_token:
        if page_token not in names:
            raise InvalidField("page_token", "is not one that this list gave")
        start = list(names).index(page_token) + 1
    page = list(names[start : start + (page_size or 100)])
    return page, page[-1] if page and start + len(page) < len(names) else ""
