"""Prometheus metrics of the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.planner.model import Step
from services.planner.tools.arguments import argument

CHARS = (25, 50, 100, 150, 200, 300, 400, 800, 2000)
COUNTS = (0, 1, 2, 3, 5, 8, 12, 16, 20, 30, 50, 100)
SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)


@dataclass(frozen=True)
class Metrics:
    """Metrics of one planner.

    Episodes are counted when they end, from their steps, so that a resumed one counts once.
    """

    styles: Counter
    calls: Counter
    call_seconds: Histogram
    waiting: Gauge
    wait_seconds: Histogram
    repeats: Counter
    refusals: Counter
    thought_chars: Histogram
    thoughts: Histogram
    rounds: Histogram
    flaws: Counter

    @classmethod
    def on(cls, registry: CollectorRegistry | None) -> Metrics:
        """Register the metrics; with None they are not exported."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"fathom_planner_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"fathom_planner_{name}", text, labels, buckets=buckets, registry=registry)

        return cls(
            counter("cells", "Cells of models by style", "style"),
            counter("tool_calls", "Tool calls by how they ended", "tool", "status"),
            histogram("tool_seconds", "Seconds per tool call", SECONDS, "tool"),
            Gauge("fathom_planner_tool_queue", "Calls that wait for a place", ("tool",), registry=registry),
            histogram("tool_wait_seconds", "Seconds that a call waited for a place", SECONDS, "tool"),
            counter("repeated_calls", "Calls that were made before, by what became of them", "tool", "action"),
            counter("finish_refusals", "Ends that were refused once, by reason", "reason"),
            histogram("thought_chars", "Characters per thought", CHARS),
            histogram("thoughts_per_run", "Thoughts per ended episode", COUNTS),
            histogram("tool_rounds_per_run", "Rounds with a tool call per ended episode", COUNTS),
            counter("stage_flaws", "What was wrong with a workflow stage's output", "stage", "fault"),
        )

    def episode(self, steps: Sequence[Step]) -> None:
        """Count a finished episode."""
        thoughts = [result.call for step in steps for result in step.results if result.call.name == "think"]
        for call in thoughts:
            self.thought_chars.observe(len(argument(call, "content")))
        self.thoughts.observe(len(thoughts))
        self.rounds.observe(sum(1 for step in steps if step.results))
