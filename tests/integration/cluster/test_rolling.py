"""A rolling restart under load loses nothing: no call, no run, no event, no remembered turn.

By default the services that hold something restart, all at once: planner (runs), sandbox (sessions), memory (the one
with a single pod), gateway (event streams). ``FATHOM_ROLLING=all`` restarts every service, one after the other, with
two pods of each; that takes minutes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chart.rendering import TOOLS
from tests.integration.cluster.node import inside, why_not
from tests.integration.cluster.report import HEAD, rows
from tests.integration.cluster.scenarios import ALL_SERVICES, HOLDERS, TWO_WHERE_IT_MATTERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(not (TOOLS / "helm4").exists(), reason="no helm: run python deploy/helm.py .fathom/tools"),
]
USERS = {"datafetch", "gateway", "memory", "planner", "policy", "question", "retrieval", "reward", "sandbox"}


def test_a_rolling_restart_under_load_loses_nothing(tmp_path: Path) -> None:
    every = os.environ.get("FATHOM_ROLLING") == "all"
    arguments = [",".join(ALL_SERVICES)] if every else ["+".join(HOLDERS), *TWO_WHERE_IT_MATTERS]
    findings = inside("rolling", tmp_path / "node", *arguments, timeout_s=1700)
    found = list(rows(findings))
    print(HEAD, *found, sep="\n")
    assert findings["load"][0] == 0, findings["load"][1]
    assert not findings["crashes"], "nobody was restarted for its health, or ended by itself"
    assert all(window["in_time"] for window in findings["windows"]), "every pod ended within its grace period"
    for window in findings["windows"][1:]:
        assert {row.what for row in found if row.stage == window["name"]} == USERS
    lost = [item for item in findings["operations"] if "error" in item]
    assert not lost, lost
