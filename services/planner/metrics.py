"""Prometheus metrics of the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fathom.domain.chat.messages import Usage
from fathom.services.planner.model.episode import Step
from fathom.services.planner.tools.arguments import read_argument

# Buckets around the recommended length of a thought (200 characters).
CHARS = (25, 50, 100, 150, 200, 300, 400, 800, 2000)
# Buckets up to the usual limits of rounds and calls.
COUNTS = (0, 1, 2, 3, 5, 8, 12, 16, 20, 30, 50, 100)
# Buckets from a cached call to a delegated run.
SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
# Buckets in the currency of the prices, from a question to a small model to a report by a large one.
COSTS = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 20, 100)
# Names that a label takes before further ones are counted together: callers choose them, and each is kept for ever.
MAX_NAMES, OTHERS = 200, "(others)"


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
    def register(cls, registry: CollectorRegistry | None) -> Metrics:
        """Register the metrics; with None they are not exported."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"fathom_planner_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"fathom_planner_{name}", text, labels, buckets=buckets, registry=registry)

        return cls(
            counter("cells", "Code cells by style", "style"),
            # Labels are bounded: names of tools that do not exist are counted as "unknown" by the caller.
            counter("tool_calls", "Tool calls by status", "tool", "status"),
            histogram("tool_seconds", "Seconds per tool call", SECONDS, "tool"),
            Gauge("fathom_planner_tool_queue", "Queued tool calls", ("tool",), registry=registry),
            histogram("tool_wait_seconds", "Seconds that a tool call was queued", SECONDS, "tool"),
            counter("repeated_calls", "Repeated tool calls by action: cached or blocked", "tool", "action"),
            counter("finish_refusals", "Refused ends of an episode by reason", "reason"),
            histogram("thought_chars", "Characters per thought", CHARS),
            histogram("thoughts_per_run", "Thoughts per finished episode", COUNTS),
            histogram("tool_rounds_per_run", "Rounds with a tool call per finished episode", COUNTS),
            counter("stage_flaws", "Flaws in the output of workflow stages", "stage", "fault"),
        )

    def observe_episode(self, steps: Sequence[Step]) -> None:
        """Count a finished episode."""
        # From the recorded steps and not as they happen, since an episode may be played by several workers.
        thoughts = [result.call for step in steps for result in step.results if result.call.name == "think"]
        for call in thoughts:
            self.thought_chars.observe(len(read_argument(call, "content")))
        self.thoughts.observe(len(thoughts))
        self.rounds.observe(len(list(filter(attrgetter("results"), steps))))


@dataclass(frozen=True)
class Spending:
    """Metrics of what runs have cost, by model and by tenant; each leg of a run counts once, when it ends."""

    costs: Histogram
    tenant_cost: Counter
    tenant_tokens: Counter
    tenant_runs: Counter
    models: set[str] = field(default_factory=set)
    tenants: set[str] = field(default_factory=set)

    @classmethod
    def register(cls, registry: CollectorRegistry | None) -> Spending:
        """Register the metrics; with None they are not exported."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"fathom_planner_tenant_{name}", text, labels, registry=registry)

        text = "Cost per run in the currency of the prices"
        return cls(
            Histogram("fathom_planner_run_cost", text, ("model",), buckets=COSTS, registry=registry),
            counter("cost", "Cost of a tenant's runs in the currency of the prices", "tenant"),
            counter("tokens", "Tokens of a tenant's runs, prompts and completions", "tenant", "model"),
            counter("runs", "Runs of a tenant that ended", "tenant"),
        )

    def observe(self, tenant: str, model: str, usage: Usage, cost: float) -> None:
        """Count what a run has used."""
        tenant, model = bound_name(tenant, self.tenants), bound_name(model, self.models)
        self.costs.labels(model).observe(cost)
        self.tenant_cost.labels(tenant).inc(cost)
        self.tenant_tokens.labels(tenant, model).inc(usage.prompt_tokens + usage.completion_tokens)
        self.tenant_runs.labels(tenant).inc()


def bound_name(name: str, known: set[str]) -> str:
    """Return the name as a label, ``OTHERS`` where there are ``MAX_NAMES`` already."""
    if name not in known and len(known) >= MAX_NAMES:
        return OTHERS
    known.add(name)
    return name
