"""Prometheus metrics of the sandbox, held in the service front; labels come from closed sets."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# A fork with walls takes 10 to 50 ms; seconds mean that the fork server had to be started first.
SPAWN_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 5)


@dataclass(frozen=True)
class Metrics:
    """Metrics of sessions, those taken back for people, spawns, cells by status and the achieved isolation."""

    sessions: Gauge
    sessions_opened: Counter
    sessions_reclaimed: Counter
    spawn_seconds: Histogram
    cells: Counter
    isolation: Gauge
    failed_sweeps: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> Metrics:
        return cls(
            Gauge("fathom_sandbox_sessions", "Open sessions", registry=registry),
            Counter("fathom_sandbox_sessions_opened", "Sessions by origin", ("origin",), registry=registry),
            Counter(
                "fathom_sandbox_sessions_reclaimed",
                "Sessions ended between two cells because people waited, by lane",
                ("lane",),
                registry=registry,
            ),
            Histogram(
                "fathom_sandbox_spawn_seconds",
                "Fork to ready, walls included",
                buckets=SPAWN_BUCKETS,
                registry=registry,
            ),
            Counter("fathom_sandbox_cells", "Cells by how they ended", ("status",), registry=registry),
            Gauge("fathom_sandbox_isolation", "1 for the achieved level", ("level",), registry=registry),
            Counter("fathom_sandbox_failed_sweeps", "Sweeps of old displays that failed", registry=registry),
        )

    def note(self, name: str, label: str, value: float) -> None:
        """Record one measurement; raise ``KeyError`` for an unknown name."""
        if name == "sessions":
            self.sessions.set(value)
        elif name == "spawn_seconds":
            self.spawn_seconds.observe(value)
        elif name == "isolation":
            self.isolation.labels(label).set(value)
        else:
            counters = {
                "sessions_opened": self.sessions_opened,
                "sessions_reclaimed": self.sessions_reclaimed,
                "cells": self.cells,
            }
            counters[name].labels(label).inc(value)
