"""Input of one item of a Score request."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.domain.grading.graders import Item
from fathom.transport.store.base import StoredObject


@dataclass(frozen=True)
class Frame:
    """A table available to a cell as ``name``: the bytes of an Arrow stream, or an object of the store."""

    name: str
    data: bytes | StoredObject


@dataclass(frozen=True)
class GradingRequest:
    """A grader's or composite's name, the item to grade, and the tables for graders that run a cell."""

    grader: str
    item: Item
    frames: tuple[Frame, ...] = ()
