"""Reader of gretl's native database: a text index, and values as little-endian float32, one series after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fathom.core.errors import CorruptData
from fathom.domain.frames import arrow, widen_floats

# A line of the index: frequency, first and last period, number of values.
SPAN = re.compile(r"(?P<frequency>[AQM])\s+(?P<start>[\d.:]+)\s+-\s+(?P<end>[\d.:]+)\s+n = (?P<n>\d+)")
FREQUENCIES = {"A": ("annual", 1), "Q": ("quarterly", 4), "M": ("monthly", 12)}
# gretl's mark of a missing value.
MISSING = -999.0


@dataclass(frozen=True)
class Series:
    """One series; ``dates`` are the last days of its periods (ISO), and NaN marks a missing value."""

    id: str
    name: str
    unit: str
    frequency: str
    dates: list[str]
    values: list[float]


def read_database(index: str, data: bytes) -> list[Series]:
    """Parse all series; raises ``CorruptData`` when index and data do not match."""
    import numpy as np

    stored = np.frombuffer(data, dtype="<f4")
    numbers = widen_floats(arrow().array(stored)).to_numpy(zero_copy_only=False, writable=True)
    numbers[numbers == MISSING] = np.nan
    lines = [line for line in index.splitlines() if line and not line.startswith("#")]
    series, position = [], 0
    # Two lines per series: name and description, then its span.
    for head, span in zip(lines[::2], lines[1::2], strict=True):
        match = SPAN.match(span)
        if match is None:
            raise CorruptData("fedstl.idx", f"cannot read {span!r}")
        count = int(match["n"])
        frequency, per_year = FREQUENCIES[match["frequency"]]
        dates = list(iter_period_ends(match["start"], per_year, count))
        ident, _, description = head.partition(" ")
        name, unit = split_description(description.strip())
        values = numbers[position : position + count].tolist()
        series.append(Series(ident, name, unit, frequency, dates, values))
        position += count
    if position != len(numbers):
        raise CorruptData("fedstl.bin", f"has {len(numbers):,} values, the index lists {position:,}")
    return series


def split_description(text: str) -> tuple[str, str]:
    """Split a description such as "Unemployment Rate, %, SA" into name and unit: "Unemployment Rate", "% (SA)"."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) < 3:
        return text, ""
    return ", ".join(parts[:-2]), f"{parts[-2]} ({parts[-1]})"


def iter_period_ends(start: str, per_year: int, count: int) -> Iterator[str]:
    """Yield ISO dates of the last days of ``count`` periods from ``start`` ("1959", "1959.1", "1959.01", "1959:1")."""
    import calendar

    year, _, part = start.replace(":", ".").partition(".")
    first = int(year) * per_year + (int(part) - 1 if part else 0)
    months = 12 // per_year
    for number in range(first, first + count):
        month = (number % per_year + 1) * months
        last = calendar.monthrange(number // per_year, month)[1]
        yield f"{number // per_year:04d}-{month:02d}-{last:02d}"
