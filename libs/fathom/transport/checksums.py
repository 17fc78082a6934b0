"""Checksums of files as text: 64 hexadecimal digits are a SHA-256, ``blake3:`` and 64 digits a BLAKE3.

SHA-256 is what everything has. Weights are hashed by whoever writes and whoever reads them, and there BLAKE3 takes a
third of the processor's time, and that of a file is shared among several processors.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from fathom.core.extras import name_missing_extra

SHA256, BLAKE3 = "sha256", "blake3"
CHECKSUM, DIGITS = re.compile(r"(?:blake3:)?[0-9a-f]{64}"), re.compile(r"[0-9a-f]{64}")


class Hasher(Protocol):
    """A hash that is computed piece by piece."""

    def update(self, data: Any, /) -> Any:
        """Add bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the hash in lower-case hexadecimal."""
        ...


def make_hasher(algorithm: str) -> Hasher:
    """Return a new hash; raises ``MissingExtra`` for BLAKE3 without its package."""
    if algorithm == SHA256:
        return hashlib.sha256()
    hasher: Hasher = import_blake3()()
    return hasher


def import_blake3() -> Any:
    with name_missing_extra():
        return importlib.import_module("blake3").blake3


def choose_algorithm() -> str:
    """Return what weights are hashed with: BLAKE3 where its package is installed."""
    return BLAKE3 if find_spec("blake3") else SHA256


def format_checksum(algorithm: str, digits: str) -> str:
    """Return the checksum of these hexadecimal digits."""
    return digits if algorithm == SHA256 else f"{algorithm}:{digits}"


def algorithm_of(checksum: str) -> str:
    """Return the algorithm of a checksum."""
    return BLAKE3 if checksum.startswith(f"{BLAKE3}:") else SHA256


def digits_of(checksum: str) -> str:
    """Return a checksum's hexadecimal digits."""
    return checksum.rpartition(":")[2]


def hash_bytes(data: bytes, algorithm: str = SHA256) -> str:
    """Return the checksum of some bytes."""
    hasher = make_hasher(algorithm)
    hasher.update(data)
    return format_checksum(algorithm, hasher.hexdigest())


def hash_file(path: Path, algorithm: str = SHA256) -> str:
    """Return a file's checksum; nobody may shorten the file meanwhile."""
    if algorithm == SHA256:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    blake3 = import_blake3()
    hasher = blake3(max_threads=blake3.AUTO)
    # Mapped, not read: its parts are hashed side by side, and nothing is copied.
    hasher.update_mmap(path)
    return format_checksum(BLAKE3, hasher.hexdigest())
