"""Prometheus metrics of the context window."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

# Buckets around the trigger (28,000) and the size of the default window (40,000).
TOKENS = (1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 24_000, 28_000, 32_000, 40_000, 64_000)
# Buckets from a cached count to a summary written by a model.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30)
# Buckets of bytes of a table by bytes shown.
RATIOS = (1, 2, 5, 10, 20, 50, 100, 500)


@dataclass(frozen=True)
class WindowMetrics:
    """Request sizes in tokens, time to measure them, and savings of compactions and digests."""

    context: Histogram
    longest: Histogram
    measuring: Histogram
    compactions: Counter
    saved: Counter
    digest: Histogram

    @classmethod
    def register(cls, registry: CollectorRegistry) -> WindowMetrics:
        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"fathom_planner_{name}", text, buckets=buckets, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"fathom_planner_{name}", text, ("policy",), registry=registry)

        return cls(
            histogram("context_tokens", "Tokens per request to the model", TOKENS),
            histogram("max_context_tokens", "Tokens of the longest request of an episode", TOKENS),
            histogram("window_seconds", "Seconds to measure and, if needed, compact a request", SECONDS),
            counter("compactions", "Compactions of requests"),
            counter("compacted_tokens", "Tokens removed from requests by compactions"),
            histogram("digest_ratio", "Bytes of a table divided by bytes of its digest", RATIOS),
        )
