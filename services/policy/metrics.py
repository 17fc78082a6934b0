"""Prometheus metrics of policy, labelled by model, lane and error reason."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
            gauge("running", "Generations that run", "model"),
            gauge("waiting", "Generations that wait for their turn", "model", "lane"),
            gauge("tokens_in_flight", "Tokens that the running generations have reserved", "model"),
            gauge("kv_pressure", "Reserved tokens as a share of what may be in flight", "model"),
            gauge("kv_cache_share", "Share of the key-value cache that the engine says is taken", "model"),
            counter("shed", "Generations that were refused for load", "model", "lane"),
            seconds("queue_seconds", "Time from asking to being let in", "model", "lane"),
            gauge("version", "Main version of a lane", "model", "lane"),
            seconds("load_seconds", "Time to fetch, check and serve a version", "model"),
            counter("load_failures", "Versions that could not be served", "model", "reason"),
        )
