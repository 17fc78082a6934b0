"""What Prometheus sees of production's grades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fathom.grading.model import VALUE_BUCKETS

MAX_MODELS, OTHERS = 50, "other"
"""Names of models that get a label of their own; those that come later share one."""


@dataclass(frozen=True)
class Metrics:
    """Of one copy: an end is counted by the copy that settled it, so sums over copies count each end once."""

    values: Histogram
    runs: Counter
    ungraded: Counter
    models: set[str] = field(default_factory=set)

    @classmethod
    def on(cls, registry: CollectorRegistry, behind_s: Callable[[], float]) -> Metrics:
        """``behind_s`` gives the age in seconds of the oldest end that is not settled."""
        behind = Gauge("fathom_grading_behind_seconds", "Age of the oldest end not graded yet", registry=registry)
        behind.set_function(behind_s)
        return cls(
            Histogram(
                "fathom_grading_value",
                "Grades of production's runs",
                ("grader", "model"),
                buckets=VALUE_BUCKETS,
                registry=registry,
            ),
            Counter("fathom_grading_runs", "Runs that were graded", ("model",), registry=registry),
            Counter(
                "fathom_grading_ungraded",
                "Grades that could not be had; no grader where it was the run",
                ("grader", "reason"),
                registry=registry,
            ),
        )

    def model(self, name: str) -> str:
        """The label of a model."""
        if name not in self.models and len(self.models) >= MAX_MODELS:
            return OTHERS
        self.models.add(name)
        return name
