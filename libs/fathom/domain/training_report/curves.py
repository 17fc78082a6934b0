"""Metrics of a training as series, and their reduction to as many points as a page can draw.

A reduced point stands for an equal stretch of steps and has the mean, minimum and maximum of what was measured there:
a spike of one step stays visible whatever the length of the training.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fathom.core.errors import CorruptData

MAX_NAMES = 400
"""Metrics of one training that a page gets; more are named as left out."""
DIGITS = 5
"""Significant digits of a value on the page."""
TIME, TOKENS = "time", "tokens"
"""Series besides the metrics: seconds since the epoch, and tokens trained on so far."""
TRAINED, STEP_S = "state_tokens/total", "timing_s/step"
SPEED = "perf/tokens_per_s"


@dataclass
class Series:
    """One metric: its steps, ascending, and its values, all finite."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: int, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)

    def cut(self, step: int) -> None:
        """Drop everything from ``step`` on."""
        place = bisect_left(self.steps, step)
        del self.steps[place:], self.values[place:]

    def copy(self) -> Series:
        return Series(self.steps[:], self.values[:])


@dataclass
class Curves:
    """All metrics of a training by name."""

    last: int = -1
    """Step of the last line."""
    series: dict[str, Series] = field(default_factory=dict)
    not_finite: dict[str, int] = field(default_factory=dict)
    """First step at which a metric was NaN or infinite, by name."""
    left_out: set[str] = field(default_factory=set)

    def add_lines(self, source: str, text: str, skip: int = 0) -> int:
        """Add lines {"step", "time", "metrics"} after the first ``skip``, and return the number of all lines.

        A line of a step that was there begins an attempt anew: what an earlier one had from there on is dropped. An
        unfinished last line, as a training that is writing leaves one, is not counted. Raises ``CorruptData`` naming
        ``source`` and the line.
        """
        lines = text.split("\n")[:-1]
        for number, line in enumerate(lines[skip:], skip + 1):
            try:
                content = json.loads(line)
                step, metrics = int(content["step"]), dict(content["metrics"])
                self.add(step, {str(name): float(value) for name, value in metrics.items()}, content.get("time"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise CorruptData(f"{source}:{number}", f"is no line of metrics: {error}") from error
        return len(lines)

    def add(self, step: int, metrics: Mapping[str, float], time: float | None = None) -> None:
        """Add the metrics of a step."""
        if step <= self.last:
            self._cut(step)
        self.last = step
        found = dict(metrics)
        trained, seconds = found.get(TRAINED, 0.0), found.get(STEP_S, 0.0)
        if trained and seconds > 0:
            found[SPEED] = trained / seconds
        if time is not None:
            found[TIME] = float(time)
        if trained:
            before = self.series.get(TOKENS)
            found[TOKENS] = trained + (before.values[-1] if before and before.values else 0.0)
        for name, value in found.items():
            if not math.isfinite(value):
                self.not_finite.setdefault(name, step)
            elif name in self.series or len(self.series) < MAX_NAMES:
                self.series.setdefault(name, Series()).add(step, value)
            else:
                self.left_out.add(name)

    def _cut(self, step: int) -> None:
        for series in self.series.values():
            series.cut(step)
        self.series = {name: series for name, series in self.series.items() if series.steps}
        self.not_finite = {name: first for name, first in self.not_finite.items() if first < step}

    def copy(self) -> Curves:
        series = {name: one.copy() for name, one in self.series.items()}
        return Curves(self.last, series, dict(self.not_finite), set(self.left_out))

    @property
    def size_bytes(self) -> int:
        return sum(16 * len(series.steps) + 200 for series in self.series.values())


def reduce_curves(curves: Curves, points: int) -> dict[str, Any]:
    """Return the curves as JSON values, each of at most ``points`` points.

    All series with a value per step share one list of steps, which is not repeated.
    """
    shared: list[list[int]] = []
    found: dict[str, dict[str, Any]] = {}
    for name, series in sorted(curves.series.items()):
        steps, reduced = reduce_series(series, points)
        if steps not in shared:
            shared.append(steps)
        found[name] = {"x": shared.index(steps), **reduced}
    return {
        "steps": shared,
        "series": found,
        "summary": {name: summarise(series) for name, series in sorted(curves.series.items())},
        "not_finite": dict(sorted(curves.not_finite.items())),
        "left_out": sorted(curves.left_out),
        "last": curves.last,
    }


def reduce_series(series: Series, points: int) -> tuple[list[int], dict[str, list[float]]]:
    """Return the steps and the values ``y``; of a longer series means, with ``lo`` and ``hi`` of each stretch."""
    if len(series.steps) <= points:
        return list(series.steps), {"y": [round_value(value) for value in series.values]}
    first, last = series.steps[0], series.steps[-1]
    edges = [first + (last + 1 - first) * number // points for number in range(points + 1)]
    places = [bisect_left(series.steps, edge) for edge in edges]
    steps: list[int] = []
    reduced: dict[str, list[float]] = {"y": [], "lo": [], "hi": []}
    for start, end in pairwise(places):
        if start == end:
            continue
        part = series.values[start:end]
        # The last step of the stretch: the curve ends where the training is.
        steps.append(series.steps[end - 1])
        for name, value in (("y", math.fsum(part) / len(part)), ("lo", min(part)), ("hi", max(part))):
            reduced[name].append(round_value(value))
    return steps, reduced


def summarise(series: Series) -> dict[str, float | int]:
    """Return first and last value, and the extremes with their steps, of the whole series."""
    low, high = min(series.values), max(series.values)
    return {
        "first": round_value(series.values[0]),
        "last": round_value(series.values[-1]),
        "min": round_value(low),
        "max": round_value(high),
        "min_step": series.steps[series.values.index(low)],
        "max_step": series.steps[series.values.index(high)],
        "count": len(series.steps),
    }


def round_value(value: float) -> float:
    """Return the value with ``DIGITS`` significant digits; times and counts, which need all of theirs, to a unit."""
    return round(value) if abs(value) >= 10**DIGITS else float(f"{value:.{DIGITS}g}")


def share_points(names: Iterable[Sequence[str]], total: int, most: int, least: int) -> int:
    """Return how many points each curve gets when all of them together have ``total``, within the bounds."""
    count = sum(len(one) for one in names)
    return max(least, min(most, total // max(1, count)))
