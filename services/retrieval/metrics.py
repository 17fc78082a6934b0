"""Prometheus metrics of the retrieval service, from the counts kept by ``QueryExecutor``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fathom.services.retrieval.serving.query_execution import QueryExecutor


class SearchFigures(Collector):
    """Collector of queue lengths and batches by kind of work (words, vectors), and of cached and joined queries.

    Failed rounds of the background work are counted beside them.
    """

    def __init__(self, executor: QueryExecutor, count_failed_rounds: Callable[[], int]) -> None:
        self._executor, self._count_failed_rounds = executor, count_failed_rounds

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        executor, label = self._executor, ("work",)
        waiting = GaugeMetricFamily("fathom_retrieval_waiting", "Queries that wait for a batch", labels=label)
        batches = CounterMetricFamily("fathom_retrieval_batches", "Batches that were run", labels=label)
        queries = CounterMetricFamily("fathom_retrieval_batched_queries", "Queries in these batches", labels=label)
        refused = CounterMetricFamily("fathom_retrieval_refused", "Queries refused for a full queue", labels=label)
        for name, batcher in executor.batchers.items():
            waiting.add_metric((name,), batcher.waiting)
            batches.add_metric((name,), batcher.batches)
            queries.add_metric((name,), batcher.jobs)
            refused.add_metric((name,), batcher.refused)
        cached = CounterMetricFamily("fathom_retrieval_cached", "Queries answered from the cache", value=executor.hits)
        text = "Queries that joined an equal one under way"
        joined = CounterMetricFamily("fathom_retrieval_joined", text, value=executor.join_count)
        text = "Refreshes of the corpora and sweeps of callers' own ones that failed"
        failed = CounterMetricFamily("fathom_retrieval_failed_rounds", text, value=self._count_failed_rounds())
        return [waiting, batches, queries, refused, cached, joined, failed]


def register(registry: CollectorRegistry, executor: QueryExecutor, count_failed_rounds: Callable[[], int]) -> None:
    """Register the metrics."""
    # A collector reads the counts when it is scraped, so that ranking does not touch the metrics at all.
    registry.register(SearchFigures(executor, count_failed_rounds))
