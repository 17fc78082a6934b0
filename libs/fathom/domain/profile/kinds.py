"""Kinds of facts about a user. All but statements are preferences, with a value that the product follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from fathom.core.errors import InvalidField


class Kind(StrEnum):
    """Subject of a fact, as in ``FactKind`` of the API."""

    STATEMENT = "statement"
    CURRENCY = "currency"
    UNITS = "units"
    LANGUAGE = "language"
    DEPTH = "depth"
    COLOURS = "colours"
    DECIMALS = "decimals"
    WATCH_LIST = "watch_list"
    MEMORY = "memory"


CHOICES: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        Kind.UNITS: ("thousand", "million", "billion", "wan", "yi"),
        Kind.LANGUAGE: ("en", "zh"),
        Kind.DEPTH: ("quick", "standard", "deep"),
        Kind.COLOURS: ("red_up", "green_up"),
        Kind.DECIMALS: ("point", "comma"),
        Kind.MEMORY: ("on", "off"),
    }
)
"""Values of the preferences that have a few."""
CURRENCY = re.compile(r"[A-Z]{3}")
ENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:^=/-]{0,63}")
MAX_WATCHED = 30


def check_value(kind: Kind, value: str, field: str = "value") -> str:
    """Return the value of a fact in canonical form; raise ``InvalidField`` for one that its kind does not have."""
    value = value.strip()
    if kind is Kind.STATEMENT:
        if value:
            raise InvalidField(field, "must be empty for a statement")
        return ""
    if kind is Kind.CURRENCY:
        if not CURRENCY.fullmatch(value.upper()):
            raise InvalidField(field, "must be the three letters of a currency, such as EUR")
        return value.upper()
    if kind is Kind.WATCH_LIST:
        return ",".join(check_watched(value, field))
    if value not in CHOICES[kind]:
        raise InvalidField(field, f"must be one of {', '.join(CHOICES[kind])}")
    return value


def check_watched(value: str, field: str) -> list[str]:
    """Return the distinct ids of a watch-list in order; raise ``InvalidField`` for none, too many or no ids."""
    names = list(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not 1 <= len(names) <= MAX_WATCHED:
        raise InvalidField(field, f"must have 1 to {MAX_WATCHED} ids of entities with commas between")
    for name in names:
        if not ENTITY.fullmatch(name):
            raise InvalidField(field, f"{name[:80]!r} is no id of an entity")
    return names
