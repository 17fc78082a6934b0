"""Compression ratio of tables shown as digests."""

from __future__ import annotations

import re

# A digest's rows begin with their number in the table.
ROW = re.compile(r"^\d+ .*$", re.MULTILINE)


def measure_compression(rows: int, digest: str) -> float:
    """Estimate the size of the whole table, formatted like its digest's rows, divided by the size of the digest.

    ``rows`` is the table's length. Returns 1.0 when the digest shows no rows.
    """
    shown = [len(line.encode()) + 1 for line in ROW.findall(digest)]
    if not shown or not rows:
        return 1.0
    # Rows of one table are about equally long, so those shown stand for all.
    return sum(shown) / len(shown) * rows / len(digest.encode())
