"""Page tokens: opaque to callers, bound to one document of one snapshot, refused when they are anything else."""

from __future__ import annotations

import base64

from fathom.errors import InvalidField


def write_token(snapshot: str, ident: str, position: int) -> str:
    """A token for going on with a document at a character position."""
    return base64.urlsafe_b64encode(f"{snapshot[:16]}\n{ident}\n{position}".encode()).decode()


def read_token(token: str, snapshot: str, ident: str, length: int) -> int:
    """The position; raises ``InvalidField("page_token")`` for a token of another document, snapshot or maker."""
    try:
        position = int(base64.urlsafe_b64decode(token.encode()).decode().rpartition("\n")[2])
    except ValueError:
        position = -1
    # Only what write_token writes is accepted, byte for byte.
    if not 0 < position < length or token != write_token(snapshot, ident, position):
        raise InvalidField("page_token", "is not one that Fetch gave for this document of this snapshot")
    return position


def only_page(page_size: int, page_token: str, largest: int = 1_000) -> None:
    """For lists that always fit one page: checks the fields, since no token was ever given."""
    if not 0 <= page_size <= largest:
        raise InvalidField("page_size", f"must be 0 to {largest:,}")
    if page_token:
        raise InvalidField("page_token", "is not one that this list gave")
