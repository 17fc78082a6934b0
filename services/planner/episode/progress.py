"""Recognition of a model that makes no progress, from the recorded rounds alone: a resumed run decides alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from fathom.domain.chat.messages import Completion
from fathom.services.planner.episode.loop_detector import is_repetition
from fathom.services.planner.model.episode import Step, ToolStatus

MAX_EMPTY = 2
"""Empty replies in a row that end a run: the request stays the same, so the third is empty too."""
MAX_REPEATING = 3
"""Rounds in a row with nothing but repeated calls, after which only ``finish`` is left: the first repetition may be a
slip, and the second has been told that the call was blocked."""
MAX_IDLE = 6
"""Rounds in a row in which no call gave anything new, after which only ``finish`` is left. Plans, thoughts and failed
attempts belong to good runs, but six of them in a row without one finding do not."""
# Records of earlier versions have "abort" for both.
WITHHELD = frozenset({"abort", "content_filter"})
NO_FINDING = frozenset({"think", "todo", "finish"})
"""Tools whose results are the model's own words."""


def is_empty(completion: Completion) -> bool:
    """Return whether a reply has neither text nor calls; a thought alone is no reply."""
    return not completion.tool_calls and not completion.text.strip()


def is_filtered(completion: Completion) -> bool:
    """Return whether the endpoint withheld a reply or its end."""
    return completion.finish_reason.value in WITHHELD


def is_repeating(step: Step) -> bool:
    """Return whether a round had nothing but calls that were made before."""
    return bool(step.results) and all(map(is_repetition, step.results))


def is_idle(step: Step) -> bool:
    """Return whether no call of a round gave anything new."""
    return all(
        result.status is not ToolStatus.OK or result.call.name in NO_FINDING or is_repetition(result)
        for result in step.results
    )


def count_last(steps: Sequence[Step], holds: Callable[[Step], bool]) -> int:
    """Return the number of steps at the end for which ``holds`` is True."""
    return sum(1 for _ in takewhile(holds, reversed(steps)))


def count_empty(steps: Sequence[Step]) -> int:
    """Return the number of empty replies at the end."""
    return count_last(steps, lambda step: is_empty(step.completion))


def find_stall(steps: Sequence[Step]) -> str:
    """Return why the model must end now: "repeating", "idle", or "" when it makes progress."""
    if count_last(steps, is_repeating) >= MAX_REPEATING:
        return "repeating"
    return "idle" if count_last(steps, is_idle) >= MAX_IDLE else ""
