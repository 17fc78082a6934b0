"""The watch's only door: metrics, health that says no as well as yes, and a port that is taken."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from fathom.operations.monitoring.door import Door
from fathom.transport.sockets import PortInUse


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_and_health_are_answered_and_nothing_else() -> None:
    registry, well = CollectorRegistry(), [False]
    Counter("fathom_seen", "Seen", registry=registry).inc()
    door = Door(registry, {"/healthz/ready": lambda: well[0]})
    port = door.open("grading", "127.0.0.1", 0)
    try:
        assert fetch(port, "/healthz/ready")[0] == 503
        well[0] = True
        assert fetch(port, "/healthz/ready") == (200, "ok\n")
        status, text = fetch(port, "/metrics")
        assert status == 200
        assert "fathom_seen_total 1.0" in text
        assert fetch(port, "/")[0] == 404
        with pytest.raises(PortInUse, match=str(port)):
            Door(registry, {}).open("grading", "127.0.0.1", port)
    finally:
        door.close()
