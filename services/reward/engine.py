"""Batches of items to their graders."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fathom.errors import Internal, InvalidField
from fathom.grading.graders import GRADERS, Grader, Item, Score
from fathom.grading.text import numbers

MAX_NAME_CHARS = 100


async def score(items: Sequence[tuple[str, Item]], max_items: int) -> list[Score]:
    """Grades pairs of grader name and item, in order; raises ``InvalidField`` naming the item's field.

    All items are checked before one is graded, and the work is done in a thread.
    """
    if not 1 <= len(items) <= max_items:
        raise InvalidField("items", f"must be 1 to {max_items:,}")
    return await asyncio.to_thread(score_all, items)


def score_all(items: Sequence[tuple[str, Item]]) -> list[Score]:
    work = [(name, *checked(f"items[{index}]", name, item)) for index, (name, item) in enumerate(items)]
    return [finite(name, grader.grade(item)) for name, grader, item in work]


def checked(path: str, name: str, item: Item) -> tuple[Grader, Item]:
    """The grader, and the item with all parameters; raises ``InvalidField`` below ``path``."""
    grader = GRADERS.get(name)
    if grader is None:
        raise InvalidField(f"{path}.grader", f"no grader {name[:MAX_NAME_CHARS]!r}; known: {', '.join(GRADERS)}")
    if grader.references and not any(reference.strip() for reference in item.references):
        raise InvalidField(f"{path}.references", f"grader {name!r} needs at least one")
    if grader.numeric and not any(numbers(reference) for reference in item.references):
        raise InvalidField(f"{path}.references", f"grader {name!r} needs a number")
    return grader, replace(item, parameters=complete(f"{path}.parameters", name, grader, item.parameters))


def complete(path: str, name: str, grader: Grader, given: Mapping[str, float]) -> dict[str, float]:
    """All parameters of the grader; raises ``InvalidField`` for an unknown one and one out of range."""
    unknown = sorted(set(given) - set(grader.parameters))
    if unknown:
        known = ", ".join(grader.parameters) or "no parameters"
        raise InvalidField(path, f"grader {name!r} has no {unknown[0][:MAX_NAME_CHARS]!r}, but {known}")
    for key, value in given.items():
        if not (math.isfinite(value) and 0 <= value <= grader.parameters[key].most):
            raise InvalidField(f"{path}[{key!r}]", f"must be 0 to {grader.parameters[key].most}, not {value}")
    return {key: given.get(key, parameter.default) for key, parameter in grader.parameters.items()}


def finite(name: str, graded: Score) -> Score:
    """The score; raises ``Internal`` when a part of it is no finite number: trainers must never see one."""
    if not all(math.isfinite(value) for value in (graded.value, *graded.components.values())):
        raise Internal(f"grader {name!r} gave {graded.value} with {dict(graded.components)}")
    return graded
