"""Data types of grading: items, scores, parameters and grader descriptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Histogram buckets for grades, shared so that dashboards can compare training with production.
VALUE_BUCKETS = (-0.5, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0)


@dataclass(frozen=True)
class ToolStep:
    """One tool call of a trajectory: whether it returned a result, and whether the same call was made before."""

    tool: str
    ok: bool = True
    repeated: bool = False


@dataclass(frozen=True)
class Item:
    """An item to grade. ``response`` is the whole response, for graders that look at its format.

    ``parameters`` are those that the grader declares as :class:`Parameter`; absent ones have their default.
    """

    answer: str
    references: Sequence[str]
    parameters: Mapping[str, float] = field(default_factory=dict)
    response: str = ""
    steps: Sequence[ToolStep] = ()
    """Tool calls in order, for graders of tool use."""
    expected_tools: Sequence[str] = ()
    """Tools suitable for the task."""


@dataclass(frozen=True)
class Score:
    """A finite value, its components and an optional reason."""

    value: float
    components: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Parameter:
    """A numeric parameter of a grader, with its default and maximum; the minimum is 0."""

    default: float
    most: float = math.inf


@dataclass(frozen=True)
class Grader:
    """A grader with its description and requirements."""

    grade: Callable[[Item], Score]
    description: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    references: bool = True
    numeric: bool = False
    tools: bool = False
    """True when the grader needs the list of suitable tools."""
