"""Prometheus metrics of production grades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fathom.domain.grading.model import VALUE_BUCKETS

# Maximum number of models with their own label; later ones share one.
MAX_MODELS, OTHERS = 50, "other"


@dataclass(frozen=True)
class Metrics:
    """Metrics of one copy. Each end is counted by the copy that settled it, so sums over copies count it once."""

    values: Histogram
    runs: Counter
    ungraded: Counter
    models: set[str] = field(default_factory=set)

    @classmethod
    def on(cls, registry: CollectorRegistry, behind_s: Callable[[], float]) -> Metrics:
        """Register the metrics; ``behind_s`` returns the age in seconds of the oldest unsettled end."""
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
        """Return the label of a model."""
        # Names come from requests: unbounded labels would grow Prometheus' memory with every new one.
        if name not in self.models and len(self.models) >= MAX_MODELS:
            return OTHERS
        self.models.add(name)
        return name
