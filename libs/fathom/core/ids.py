"""Identifiers and content hashes."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from typing import Any

from fathom.core.errors import InvalidField

# Neither a dot, which separates the tokens of a subject, nor a slash, which separates folders; at most 128 characters,
# so that a file name with a suffix stays below the 255 bytes of common file systems.
ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def new_id(prefix: str) -> str:
    """Return a unique id that sorts by creation time, e.g. ``run_0198c2f31a7b_9f3ac41d22e07b55``."""
    # Milliseconds first, in a fixed width, so that a listing by name is one by time; 64 random bits keep ids of one
    # millisecond apart, in all processes.
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}_{secrets.token_hex(8)}"


def checked_id(field: str, value: str) -> str:
    """Return ``value`` if it is safe as a key, a subject token and a file name; raise ``InvalidField`` otherwise."""
    if not ID_PATTERN.fullmatch(value):
        raise InvalidField(field, "must be 1 to 128 letters, digits, '_' or '-', starting with a letter or digit")
    return value


def sha256(data: bytes) -> str:
    """Return the SHA-256 in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form (sorted keys, no spaces)."""
    # One spelling per value: keys in another order, or spaces, must not make another hash.
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
