"""Graders of tool use: which tools were chosen, and the result of each call."""

from __future__ import annotations

from fathom.domain.grading.model import Item, Score


def tool_choice(item: Item) -> Score:
    """Score the F1 of the tools used against the suitable tools, with precision and recall."""
    used, fitting = {step.tool for step in item.steps}, set(item.expected_tools)
    common = len(used & fitting)
    precision, recall = (common / len(one) if one else 0.0 for one in (used, fitting))
    value = 2 * precision * recall / (precision + recall) if common else 0.0
    strange = sorted(used - fitting)
    return Score(value, {"precision": precision, "recall": recall}, f"{strange[0]} does not fit" if strange else "")


def tool_steps(item: Item) -> Score:
    """Score the mean over calls of 1 for a new call with a result, else 0; less ``cost`` per call, at least 0.

    Without any call the score is 0.
    """
    if not item.steps:
        return Score(0.0, {"calls": 0.0}, "no tool was called")
    good = sum(step.ok and not step.repeated for step in item.steps)
    count = len(item.steps)
    value = max(0.0, good / count - item.parameters["cost"] * count)
    failed, repeated = (sum(flags) for flags in zip(*((not s.ok, s.repeated) for s in item.steps), strict=True))
    return Score(value, {"calls": float(count), "without_result": float(failed), "repeated": float(repeated)})
