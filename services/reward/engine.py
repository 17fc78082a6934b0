"""Batches of items to their graders."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fathom.errors import Internal, InvalidField
from services.reward.graders import GRADERS, Item, Score


def score(items: Sequence[tuple[str, Item]], max_items: int) -> list[Score]:
    """Grades pairs of grader name and item, in order; raises ``InvalidField`` naming the item's field."""
    if not 1 <= len(items) <= max_items:
        raise InvalidField("items", f"must be 1 to {max_items:,}")
    return [one(index, name, item) for index, (name, item) in enumerate(items)]


def one(index: int, name: str, item: Item) -> Score:
    grader = GRADERS.get(name)
    if grader is None:
        raise InvalidField(f"items[{index}].grader", f"no grader {name!r}; known: {', '.join(GRADERS)}")
    if grader.references and not item.references:
        raise InvalidField(f"items[{index}].references", f"grader {name!r} needs at least one")
    unknown = sorted(set(item.parameters) - set(grader.parameters))
    if unknown:
        raise InvalidField(f"items[{index}].parameters", f"grader {name!r} has no {', '.join(unknown)}")
    graded = grader.grade(item)
    if not math.isfinite(graded.value):
        raise Internal(f"grader {name!r} gave {graded.value} for item {index}")
    return graded
