"""Prometheus metrics of policy, labelled by model, lane and error reason."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fathom.core.admission import Admission
from fathom.core.call import Lane

# From an admission without a queue (1 ms) to loading a large model (1 min).
SECONDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True)
class PolicyMetrics:
    """Metrics of admission control, key-value caches and version changes."""

    running: Gauge
    waiting: Gauge
    tokens: Gauge
    pressure: Gauge
    cache: Gauge
    shed: Counter
    queue_seconds: Histogram
    version: Gauge
    swap_seconds: Histogram
    load_failures: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> PolicyMetrics:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"fathom_policy_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"fathom_policy_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"fathom_policy_{name}", text, labels, buckets=SECONDS, registry=registry)

        return cls(
            gauge("running", "Running generations", "model"),
            gauge("waiting", "Queued generations", "model", "lane"),
            gauge("tokens_in_flight", "Tokens reserved by running generations", "model"),
            # Reserved tokens say how close the model is to refusing; the cache's share below says what the engine
            # really holds. They differ, because a reservation assumes the longest completion.
            gauge("kv_pressure", "Reserved tokens as a fraction of the token limit", "model"),
            gauge("kv_cache_share", "Used fraction of the key-value cache, as reported by the engine", "model"),
            counter("shed", "Generations rejected because of load", "model", "lane"),
            seconds("queue_seconds", "Seconds from the request to its admission", "model", "lane"),
            gauge("version", "Version with the largest share of a lane", "model", "lane"),
            seconds("load_seconds", "Seconds to download, verify and activate a version", "model"),
            counter("load_failures", "Versions that could not be activated", "model", "reason"),
        )


@dataclass(frozen=True)
class AdmissionMetrics:
    """Observer of one model's admission queue."""

    model: str
    metrics: PolicyMetrics

    def record_admission(self, lane: Lane, waited_s: float) -> None:
        self.metrics.queue_seconds.labels(self.model, lane.value).observe(waited_s)

    def record_refusal(self, lane: Lane) -> None:
        self.metrics.shed.labels(self.model, lane.value).inc()

    def record_change(self, admission: Admission) -> None:
        self.metrics.running.labels(self.model).set(admission.running)
        self.metrics.tokens.labels(self.model).set(admission.units)
        self.metrics.pressure.labels(self.model).set(admission.units / admission.limits.units)
        for lane, waiting in admission.waiting.items():
            self.metrics.waiting.labels(self.model, lane.value).set(waiting)
