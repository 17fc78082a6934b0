"""Preferences that a prompt shows of its user, as the reference policy follows them: currency, unit, language, list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.profile.guidance import Line, find_value
from fathom.domain.profile.kinds import Kind
from fathom.services.policy.reference.reading import Reading, load_table, say
from fathom.services.policy.reference.tables import Sheet, list_columns

CODE = re.compile(r"[A-Z]{3}")
# Units of large amounts, as tables name them.
SCALED = re.compile(r"\b(?:thou|mil|bil|tril)[a-z]*\b|[千百十]?[万亿]", re.IGNORECASE)


def ask_preferred(question: str, lines: Sequence[Line], reading: Reading, sheets: Sequence[Sheet]) -> str:
    """Return the question in the currency or unit that the user prefers; "" where its tables have it, or none fits.

    What the question itself asks for binds.
    """
    if reading.texts("output"):
        return ""
    # The tables say whether there is anything to convert: a rate in per cent is in no currency.
    units = [str(column.get("unit", "")) for sheet in sheets for column in list_columns(sheet)]
    currency, unit = find_value(lines, Kind.CURRENCY), find_value(lines, Kind.UNITS)
    if currency and any(CODE.fullmatch(one) and one != currency for one in units):
        return f"{question} in {currency}"
    # Only where the source counts in thousands or more; a share price is no large amount.
    if unit and any(SCALED.search(one) for one in units):
        return f"{question} {load_table('texts')['units'][unit]}"
    return ""


def list_used(question: str, lines: Sequence[Line], is_zh: bool, *, is_converted: bool) -> list[str]:
    """Return what of the user's memory has changed the answer, in words."""
    used = []
    if is_converted:
        used += [line.value for line in lines if line.kind in (Kind.CURRENCY, Kind.UNITS)]
    # The planner has put all its names into a question that left them out.
    watched = find_value(lines, Kind.WATCH_LIST)
    if watched and all(name in question for name in watched.split(",")):
        used.append(say("memory_list", is_zh, watched.replace(",", ", ")))
    return [say("memory", is_zh, text) for text in used]
