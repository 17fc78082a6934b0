"""Number literals in text, to check that a summary loses none and invents none."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A date is one number. Digits behind a letter belong to a name (sheet_1, fig_2); letters behind digits are a unit.
NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])(?>\d{4}-\d{2}-\d{2}|[-+−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-+−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)%?"
)


def find_numbers(text: str) -> list[str]:
    """Return the distinct number literals in order of appearance."""
    return list(dict.fromkeys(match.group() for match in NUMBER.finditer(text)))


def canonicalise(number: str) -> str:
    """Normalize separators, sign and percent mark, so that ``+1,250`` equals ``1250``."""
    return number.replace(",", "").replace("−", "-").lstrip("+").removesuffix("%")


def find_missing(wanted: Iterable[str], text: str) -> list[str]:
    """Return the wanted numbers that the text lacks."""
    known = {canonicalise(number) for number in find_numbers(text)}
    return [number for number in wanted if canonicalise(number) not in known]
