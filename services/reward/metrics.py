"""What reward counts: grades by grader and lane, which is what production is watched by, and failures."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from fathom.call import Lane, current_call
from fathom.grading.model import VALUE_BUCKETS


@dataclass(frozen=True)
class Metrics:
    """Of one reward service. Labels are names of graders and composites, and lanes."""

    values: Histogram
    failures: Counter

    @classmethod
    def on(cls, registry: CollectorRegistry | None) -> Metrics:
        """Metrics of this registry; None keeps them to the process that made them."""
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

    def graded(self, grader: str, value: float) -> None:
        """Counts a grade under the lane of the call being handled."""
        call = current_call()
        self.values.labels(grader, (call.lane if call else Lane.INTERACTIVE).value).observe(value)
