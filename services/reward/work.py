"""What one item of a Score request asks for."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.grading.graders import Item
from fathom.store.base import StoredObject


@dataclass(frozen=True)
class Frame:
    """A table that a cell finds under ``name``: the bytes of an Arrow stream, or an object of the store."""

    name: str
    data: bytes | StoredObject


@dataclass(frozen=True)
class Work:
    """A grader's or composite's name, what it grades, and the tables for graders that run a cell."""

    grader: str
    item: Item
    frames: tuple[Frame, ...] = ()
