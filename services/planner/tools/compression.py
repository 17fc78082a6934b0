"""How much smaller a table gets by being shown as a digest (rows M01, R15)."""

from __future__ import annotations

import re

# A digest's rows begin with their number in the table.
ROW = re.compile(r"^\d+ .*$", re.MULTILINE)


def compression(rows: int, digest: str) -> float:
    """Bytes of the whole table, written like the rows of its digest, by bytes of the digest.

    ``rows`` is the table's length; 1.0 when the digest shows no rows.
    """
    shown = [len(line.encode()) + 1 for line in ROW.findall(digest)]
    if not shown or not rows:
        return 1.0
    return sum(shown) / len(shown) * rows / len(digest.encode())
