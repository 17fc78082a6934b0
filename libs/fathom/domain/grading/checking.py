"""Validation of items before grading: grader names, references and parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fathom.core.errors import InvalidField
from fathom.domain.grading.model import Grader, Item, Parameter
from fathom.domain.grading.text import numbers

# Names are repeated in messages, whatever a caller sent.
MAX_NAME_CHARS = 100


def checked_item(path: str, name: str, item: Item, graders: Mapping[str, Grader], others: Iterable[str] = ()) -> Item:
    """Return the item with all parameters of the grader; raise ``InvalidField`` below ``path``.

    ``others`` are further names that are valid where the item comes from, for the message only.
    """
    grader = graders.get(name)
    if grader is None:
        known = ", ".join([*graders, *others])
        raise InvalidField(f"{path}.grader", f"no grader {name[:MAX_NAME_CHARS]!r}; known: {known}")
    if grader.references and not any(map(str.strip, item.references)):
        raise InvalidField(f"{path}.references", f"grader {name!r} needs at least one")
    if grader.numeric and not any(map(numbers, item.references)):
        raise InvalidField(f"{path}.references", f"grader {name!r} needs a number")
    if grader.tools and not item.expected_tools:
        raise InvalidField(f"{path}.expected_tools", f"grader {name!r} needs at least one")
    return replace(item, parameters=complete(f"{path}.parameters", name, grader.parameters, item.parameters))


def complete(path: str, name: str, known: Mapping[str, Parameter], given: Mapping[str, float]) -> dict[str, float]:
    """Return all parameters of the grader; raise ``InvalidField`` for an unknown or out-of-range one."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        names = ", ".join(known) or "no parameters"
        raise InvalidField(path, f"grader {name!r} has no {unknown[0][:MAX_NAME_CHARS]!r}, but {names}")
    for key, value in given.items():
        if not (math.isfinite(value) and 0 <= value <= known[key].most):
            raise InvalidField(f"{path}[{key!r}]", f"must be 0 to {known[key].most}, not {value}")
    return {key: given.get(key, parameter.default) for key, parameter in known.items()}
