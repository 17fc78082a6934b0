"""What is graded, what it is given, and what a grader says of itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

VALUE_BUCKETS = (-0.5, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0)
"""Bounds of histograms of grades: dashboards compare training's with production's."""


@dataclass(frozen=True)
class ToolStep:
    """One tool call of a trajectory: whether it gave a result, and whether the same call was made before."""

    tool: str
    ok: bool = True
    repeated: bool = False


@dataclass(frozen=True)
class Item:
    """What is graded. ``response`` is the whole response, for graders that look at its form.

    ``parameters`` hold what the grader's own :class:`Parameter` list declares; absent ones have their default.
    """

    answer: str
    references: Sequence[str]
    parameters: Mapping[str, float] = field(default_factory=dict)
    response: str = ""
    steps: Sequence[ToolStep] = ()
    """Tool calls in order, for graders of tools."""
    expected_tools: Sequence[str] = ()
    """Tools that fit the task."""


@dataclass(frozen=True)
class Score:
    """A finite value and its parts."""

    value: float
    components: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Parameter:
    """A number that a grader takes, with its default and its largest value; the smallest is 0."""

    default: float
    most: float = math.inf


@dataclass(frozen=True)
class Grader:
    """A grader with what it says of itself."""

    grade: Callable[[Item], Score]
    description: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    references: bool = True
    numeric: bool = False
    tools: bool = False
    """Whether it must know which tools fit."""
