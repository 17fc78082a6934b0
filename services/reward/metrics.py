"""Prometheus metrics of the reward service: grades by grader and lane, and failures."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from fathom.core.call import Lane, current_call
from fathom.domain.grading.model import VALUE_BUCKETS


@dataclass(frozen=True)
class Metrics:
    """Metrics of one reward service. Labels are names of graders and composites, and lanes."""

    values: Histogram
    failures: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry | None) -> Metrics:
        """Register the metrics; with None they are not exported."""
        return cls(
            Histogram(
                "fathom_reward_value",
                "Grades by grader and lane",
                ("grader", "lane"),
                buckets=VALUE_BUCKETS,
                registry=registry,
            ),
            Counter("fathom_reward_failures", "Gradings that failed and were worth 0", ("grader",), registry=registry),
        )

    def record(self, grader: str, value: float) -> None:
        """Record a grade under the lane of the call being handled."""
        # The lane is that of the call and no label of the request: its values are a closed set.
        call = current_call()
        self.values.labels(grader, (call.lane if call else Lane.INTERACTIVE).value).observe(value)
