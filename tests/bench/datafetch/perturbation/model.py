"""A question to be asked otherwise, and how it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum


class Kind(StrEnum):
    """Name what is changed."""

    DATES = "dates"
    NAMES = "names"
    TYPOS = "typos"
    COLLOQUIAL = "colloquial"
    RELATIVE = "relative"
    UNITS = "units"
    PHRASING = "phrasing"


@dataclass(frozen=True)
class Thing:
    """Something that a question names: other names that stand for it and nothing else."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question as it stands. ``money`` tells that its answer is an amount of "CNY" or "USD"."""

    text: str
    lang: str
    as_of: date | None = None
    things: tuple[Thing, ...] = ()
    money: str = ""
    answerable: bool = True


@dataclass(frozen=True)
class Variant:
    """The question otherwise. ``as_of``: ask with this today; ``unit`` and ``scale``: what amounts were asked for in."""

    text: str
    kinds: tuple[Kind, ...]
    as_of: date | None = None
    unit: str = ""
    scale: float = field(default=1.0)
