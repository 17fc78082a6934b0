"""Alerts and dashboards ask for metrics that the services have, and name runbooks that are written."""

from __future__ import annotations

import json
import re

import yaml

from tests.chart.rendering import CHART, ROOT

SUFFIXES = ("_total", "_bucket", "_count", "_sum")


def declared() -> set[str]:
    """Names of metrics in the code."""
    sources = [path.read_text() for room in ("libs", "services") for path in (ROOT / room).rglob("*.py")]
    return {name for text in sources for name in re.findall(r'"(fathom_[a-z_]+)"', text)}


def asked(expression: str) -> set[str]:
    names = set(re.findall(r"\bfathom_[a-z_]+", expression))
    return {next((n.removesuffix(s) for s in SUFFIXES if n.endswith(s)), n) for n in names}


def test_alerts_ask_for_metrics_that_exist_and_start_a_runbook() -> None:
    groups = yaml.safe_load((CHART / "files" / "rules" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 5
    operations = (ROOT / "docs" / "operations.md").read_text()
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", operations, re.M)
    }
    for rule in rules:
        assert asked(rule["expr"]) <= declared(), rule["alert"]
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (file, anchor in anchors) == ("docs/operations.md", True), rule["annotations"]["runbook"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_panels_ask_for_metrics_that_exist() -> None:
    for path in (CHART / "files" / "dashboards").glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert panels
        assert len({panel["id"] for panel in panels}) == len(panels)
        for panel in panels:
            for target in panel["targets"]:
                assert asked(target["expr"]), panel["title"]
                assert asked(target["expr"]) <= declared(), panel["title"]
