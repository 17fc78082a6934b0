"""Difference of two files of equal length as the little-endian words that changed; exact to the bit.

After an optimiser step most bfloat16 weights are unchanged, so the difference is a few percent of the file. Layout: 8
bytes magic, word size and length of the file (u64 each), number of changed words (u64), then two zlib blocks, each
preceded by its length (u64): gaps between changed positions (u32), and the new words.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from typing import Any

from fathom.core.errors import CorruptData

MAGIC = b"FATHOMD1"
HEADER = struct.Struct("<8sQQQ")
LENGTH = struct.Struct("<Q")
# The words of bfloat16, of which most models' weights are; a file of another type is still exact, only less small.
WORD = 2
# zlib's fastest: random low bits hardly compress, and the gaps compress at any level.
LEVEL = 1


def encode(base: bytes, new: bytes) -> bytes | None:
    """Encode the changes that turn ``base`` into ``new``; None when no delta is possible.

    That is so for files of different or odd length, empty files, and gaps of 2^32 words or more.
    """
    # Another length means another layout of the file, for which differences by position say nothing.
    if len(base) != len(new) or len(new) % WORD or not new:
        return None
    numpy: Any = importlib.import_module("numpy")
    before, after = numpy.frombuffer(base, "<u2"), numpy.frombuffer(new, "<u2")
    positions = numpy.flatnonzero(before != after)
    gaps = numpy.diff(positions, prepend=0)
    if gaps.size and int(gaps.max()) >= 2**32:
        return None
    blocks = [zlib.compress(block.tobytes(), LEVEL) for block in (gaps.astype("<u4"), after[positions])]
    parts = [part for block in blocks for part in (LENGTH.pack(len(block)), block)]
    return b"".join((HEADER.pack(MAGIC, WORD, len(new), positions.size), *parts))


def decode(base: bytes, delta: bytes, key: str) -> bytes:
    """Apply a delta to its base and return the new file; raise ``CorruptData(key)`` for a delta that does not fit."""
    numpy: Any = importlib.import_module("numpy")
    try:
        magic, word, length, changed = HEADER.unpack_from(delta)
        # Every number of the header is checked before anything of that size is allocated.
        if magic != MAGIC or word != WORD or length != len(base) or changed * WORD > length:
            raise CorruptData(key, "is no difference to a file of this length")
        offset, blocks = HEADER.size, []
        for item_bytes in (4, WORD):
            (size,) = LENGTH.unpack_from(delta, offset)
            offset += LENGTH.size
            blocks.append(unpack(delta[offset : offset + size], changed * item_bytes))
            offset += size
    except (struct.error, zlib.error, ValueError) as error:
        raise CorruptData(key, f"is no difference: {error}") from error
    positions = numpy.cumsum(numpy.frombuffer(blocks[0], "<u4"), dtype=numpy.int64)
    if changed and int(positions[-1]) * WORD >= length:
        raise CorruptData(key, "names a position behind the end")
    result = numpy.frombuffer(base, "<u2").copy()
    result[positions] = numpy.frombuffer(blocks[1], "<u2")
    made: bytes = result.tobytes()
    return made


def unpack(block: bytes, size: int) -> bytes:
    """Decompress a block of exactly ``size`` bytes; raise ``ValueError`` or ``zlib.error`` for any other."""
    reader = zlib.decompressobj()
    # Bounded, so that a block that claims to be small cannot expand without limit.
    data = reader.decompress(block, size + 1)
    if len(data) != size or not reader.eof:
        raise ValueError("a block has another length than the header says")
    return data
