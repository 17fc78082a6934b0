"""Sampled rows of a training: which steps are kept, and how long token lists are cut.

At most ``KEPT_STEPS`` steps are kept of a training of any length, evenly, with the first and the newest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from fathom.core.errors import CorruptData

KEPT_STEPS = 64
HEAD_TOKENS, TAIL_TOKENS = 1_200, 800
"""Tokens that are shown of the beginning and of the end of a prompt or a response."""


def stride(step: int) -> int:
    """Return the distance between kept steps once a training has come to ``step``: a power of two."""
    return 1 << (step // KEPT_STEPS).bit_length()


def is_due(step: int, total: int) -> bool:
    """Return whether a step's rows are to be kept: the first, the last, and every ``stride`` steps."""
    return step in (1, total) or step % stride(step) == 0


def surplus(steps: Iterable[int], newest: int) -> list[int]:
    """Return the kept steps that are to go, now that ``newest`` is kept.

    Steps after it are of an attempt that was begun anew.
    """
    distance = stride(newest)
    return [step for step in steps if step > newest or (step not in (1, newest) and step % distance)]


def choose_shown(sizes: Sequence[tuple[int, int]], budget: int) -> list[int]:
    """Return the steps whose samples fit into ``budget`` bytes: the newest, the first, then evenly between them.

    ``sizes`` has (step, bytes), ascending.
    """
    count = len(sizes)
    # The order of a van der Corput sequence: every prefix of it is spread evenly.
    spread = sorted(range(count), key=lambda place: int(f"{place:032b}"[::-1], 2))
    order = dict.fromkeys([count - 1, 0, *spread] if count else [])
    chosen, size = [], 0
    for place in order:
        step, own = sizes[place]
        if size + own <= budget:
            chosen.append(step)
            size += own
    return sorted(chosen)


def cut(values: Sequence[Any]) -> tuple[list[Any], dict[str, int] | None]:
    """Return the values without their middle when there are many, and where how many are left out."""
    left_out = len(values) - HEAD_TOKENS - TAIL_TOKENS
    if left_out <= 0:
        return list(values), None
    return [*values[:HEAD_TOKENS], *values[-TAIL_TOKENS:]], {"at": HEAD_TOKENS, "count": left_out}


def read_sample(source: str, data: bytes) -> dict[str, Any]:
    """Read a step's rows; raises ``CorruptData`` naming ``source``."""
    try:
        content = json.loads(data)
        if not isinstance(content["rows"], list):
            raise TypeError("rows are no list")
        return dict(content)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(source, f"holds no sample: {error}") from error
