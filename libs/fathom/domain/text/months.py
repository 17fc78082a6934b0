"""English names of the months; ``calendar.month_name`` is no substitute, since it follows the locale of the process."""

from __future__ import annotations

from collections.abc import Mapping

MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTHS: Mapping[str, int] = {
    form: number for number, name in enumerate(MONTH_NAMES, 1) for form in (name.lower(), name[:3].lower())
} | {"sept": 9}
"""Month by its name or abbreviation in lower case."""
# The longest first: an alternation takes the first form that fits, and would leave "ruary" of "february" unmatched.
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
"""Pattern of a name or abbreviation in lower case."""
