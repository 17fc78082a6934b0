"""Names of ratios that follow from the names of what they are computed from.

Whoever calls revenue "sales" also asks for "R&D expense divided by sales". Files of indicators list the usual
names of a ratio and never all combinations of the names of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fathom.services.datafetch.catalog.schema import IndicatorSpec

# Shorter names are found by chance in others, of which they are no part.
MIN_PART = 2
WORD = re.compile(r"\w+")


def iter_composed_names(specs: Sequence[IndicatorSpec]) -> Iterator[tuple[str, str]]:
    """Yield names of computed indicators in which the name of a part is replaced by its others, with their ids."""
    computed = [spec for spec in specs if spec.formula]
    for spec in computed:
        parts = [part for part in specs if is_part(part, spec)]
        for name in dict.fromkeys((spec.name, spec.name_zh, *spec.synonyms)):
            yield from ((other, spec.id) for part in parts for other in replace_part(name, list_names(part)))


def is_part(part: IndicatorSpec, whole: IndicatorSpec) -> bool:
    """Return whether an indicator's id stands in the formula of another, or its own formula does."""
    if part.id == whole.id:
        return False
    return part.id in WORD.findall(whole.formula) or bool(part.formula and f"({part.formula})" in whole.formula)


def list_names(spec: IndicatorSpec) -> list[str]:
    """Return the names of an indicator, the longest first."""
    return sorted({name for name in (spec.name, spec.name_zh, *spec.synonyms) if len(name) >= MIN_PART}, key=len)[::-1]


def replace_part(name: str, names: Iterable[str]) -> Iterator[str]:
    """Yield a name with the longest of ``names`` that stands in it, whole words, replaced by each other one."""
    names = list(names)
    found = next((part for part in names if part in name), "")
    # In Latin letters the end of a word is an end; Chinese has none.
    if not found or re.search(rf"[a-z]{re.escape(found)}|{re.escape(found)}[a-z]", name, re.IGNORECASE):
        return
    before, _, after = name.partition(found)
    yield from (f"{before}{other}{after}" for other in names if other != found and other.isascii() == found.isascii())
