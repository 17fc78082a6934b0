"""Replacement of a file by a new one as a whole."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_whole(target: Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the place of ``target`` at the end, or vanishes when the block raises.

    A reader never sees half a file, and a killed writer leaves the old one.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, since only within one file system is the renaming atomic.
    # Under a name of its own: of two writers the last one wins as a whole.
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes) -> None:
    """Write a file, in the place of an earlier one, so that readers see either of them whole."""
    with replace_whole(target) as part:
        part.write_bytes(data)


def write_lines(target: Path, lines: Iterable[str]) -> int:
    """Write lines as ``write_whole`` does; return their number."""
    count = 0
    with replace_whole(target) as part, part.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count
