"""Alerts and dashboards ask for metrics that the services have, in expressions that Prometheus reads; each alert
starts a guide that names it, and no guide waits for an alert that there is not."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from fathom.services.planner.metrics import Metrics as PlannerMetrics
from fathom.services.planner.metrics import Spending
from fathom.services.policy.metrics import PolicyMetrics
from tests.chart.rendering import CHART, ROOT, by_key, render
from tests.chart.test_against_the_code import SERVICES, WATCHES, parses

SUFFIXES = ("_total", "_bucket", "_count", "_sum")
OTHERS = {
    "up", "kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes",
    "kube_cronjob_status_last_successful_time", "kube_deployment_status_replicas_unavailable",
    "kube_pod_container_status_restarts_total",
}  # fmt: skip
"""Metrics of Prometheus, the kubelets and kube-state-metrics."""
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CHART / "files" / "rules" / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def find_declared() -> set[str]:
    """Return names of metrics in the code; planner and policy put theirs together, so they are asked."""
    sources = [path.read_text() for room in ("libs", "services") for path in (ROOT / room).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'"(fathom_[a-z_]+)"', text)}
    registry = CollectorRegistry()
    PlannerMetrics.register(registry)
    Spending.register(registry)
    PolicyMetrics.register(registry)
    return names | {family.name for family in registry.collect()}


def find_metrics(expression: str) -> set[str]:
    names = set(re.findall(r"\bfathom_[a-z_]+", expression))
    return {bare(name) for name in names}


def bare(name: str) -> str:
    """A metric without what its kind adds."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def selectors(node: Any) -> Iterator[str]:
    """Names of metrics in a parsed expression."""
    # The parser prints every selector with braces, also where the expression has none.
    return iter(re.findall(r"([a-zA-Z_:][\w:]*)\{", str(node)))


def anchors() -> set[str]:
    titles = re.findall(r"^#+ (.+)$", OPERATIONS, re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_expression_is_one_that_prometheus_reads_and_knows() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        # An expression that Prometheus cannot read stops the loading of the whole file.
        parsed = promql_parser.parse(rule["expr"])
        names = set(selectors(parsed))
        assert names, rule
        foreign = {name for name in names if not name.startswith("fathom_")}
        assert foreign <= recorded | OTHERS, f"{rule}: {foreign - recorded - OTHERS}"
        assert find_metrics(rule["expr"]) <= find_declared(), rule


def test_recorded_rules_are_asked_for() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert recorded <= {name for rule in alerts() for name in selectors(promql_parser.parse(rule["expr"]))}


def test_each_alert_starts_its_guide_and_each_guide_has_an_alert() -> None:
    assert len(alerts()) >= 15
    guides = set(re.findall(r"^### (Fathom\w+)$", OPERATIONS, re.M))
    assert guides == {rule["alert"] for rule in alerts()}
    for rule in alerts():
        file, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (file, anchor) == ("docs/operations.md", rule["alert"].lower())
        assert anchor in anchors()
        assert rule["labels"]["severity"] in ("page", "ticket")


@pytest.mark.parametrize("alert", [rule["alert"] for rule in alerts()])
def test_a_guide_says_what_starts_it_and_how_it_ends(alert: str) -> None:
    guide = OPERATIONS.partition(f"\n### {alert}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    expression = next(rule["expr"] for rule in alerts() if rule["alert"] == alert)
    for metric in selectors(promql_parser.parse(expression)):
        assert bare(metric) in guide, f"the guide does not name {metric}"
    for part in ("**Starts it:**", "**See:**", "**Causes:**", "**Mend:**", "**Verify:**"):
        assert part in guide, f"{alert} has no {part}"


def test_budgets_are_watched_in_two_windows_each() -> None:
    """The long one says how much of the month's budget is gone, the short one that it still goes on."""
    hours = {"m": 1 / 60, "h": 1.0}
    spent = {}
    for rule in alerts():
        found = re.findall(r"ratio(\d+)([mh]) > ([\d.]+) \* 0\.005", rule["expr"])
        # Other alerts look at one window alone.
        if found:
            (long, short), (rate, same) = [int(n) * hours[u] for n, u, _ in found], [float(f) for *_, f in found]
            assert rate == same
            assert long / short == pytest.approx(12)
            spent[rule["alert"]] = round(rate * long / (30 * 24), 3)
    assert spent == {"FathomErrorBudgetBurnsFast": 0.02, "FathomErrorBudgetBurns": 0.05}


def test_absence_is_noticed_for_every_service() -> None:
    (rule,) = [rule for rule in alerts() if rule["alert"] == "FathomServiceIsAbsent"]
    assert set(re.findall(r'component="(\w+)"', rule["expr"])) == set(SERVICES)


def test_prometheus_scrapes_every_service_and_watch() -> None:
    documents = by_key(render("helm4", CHART / "ci" / "full-values.yaml"))
    (monitor,) = [document["spec"] for (kind, _), document in documents.items() if kind == "ServiceMonitor"]
    wanted, ports = monitor["selector"]["matchLabels"].items(), {one["port"] for one in monitor["endpoints"]}
    scraped = {
        document["metadata"]["labels"]["app.kubernetes.io/component"]
        for (kind, _), document in documents.items()
        if kind == "Service" and wanted <= document["metadata"]["labels"].items()
        and ports & {port["name"] for port in document["spec"]["ports"]}
    }  # fmt: skip
    assert {*SERVICES, *WATCHES} <= scraped


def test_the_runbooks_may_lie_elsewhere() -> None:
    settings = ("monitoring.rules.enabled=true", "monitoring.runbooks=https://runbooks.example.com/fathom")
    documents = render("helm4", CHART / "ci" / "minimal-values.yaml", "demo", *settings)
    (rule,) = [document for document in documents if document["kind"] == "PrometheusRule"]
    urls = {r["annotations"]["runbook_url"] for g in rule["spec"]["groups"] for r in g["rules"] if "alert" in r}
    assert all(url.startswith("https://runbooks.example.com/fathom#fathom") for url in urls)


def test_panels_ask_for_metrics_that_exist() -> None:
    for path in (CHART / "files" / "dashboards").glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert panels
        assert len({panel["id"] for panel in panels}) == len(panels)
        # Grafana moves panels that lie on each other, and then nothing is where the guide says.
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
        assert len(set(places)) == len(places)
        for panel in panels:
            for target in panel["targets"]:
                promql_parser.parse(target["expr"])
                assert find_metrics(target["expr"]), panel["title"]
                assert find_metrics(target["expr"]) <= find_declared(), panel["title"]


def test_each_dashboard_is_rendered_under_a_name_of_its_own() -> None:
    documents = render("helm4", CHART / "ci" / "minimal-values.yaml", "demo", "monitoring.dashboards.enabled=true")
    rendered = [
        (document["metadata"]["name"], document["metadata"]["labels"]["grafana_dashboard"], name, json.loads(text))
        for document in documents
        if document["kind"] == "ConfigMap" and "-dashboard-" in document["metadata"]["name"]
        for name, text in document["data"].items()
    ]
    files = sorted(path.name for path in (CHART / "files" / "dashboards").glob("*.json"))
    assert sorted(name for _, _, name, _ in rendered) == files
    assert {label for _, label, _, _ in rendered} == {"1"}
    # Grafana keeps one dashboard of a uid: the second would replace the first.
    assert len({dashboard["uid"] for *_, dashboard in rendered}) == len(files)


def test_cost_is_shown_per_run_and_per_tenant() -> None:
    panels = json.loads((CHART / "files" / "dashboards" / "cost.json").read_text())["panels"]
    grouped = {
        (group, bare(metric))
        for panel in panels for target in panel["targets"]
        for group in re.findall(r"by \((\w+)", target["expr"]) for metric in selectors(promql_parser.parse(target["expr"]))
    }  # fmt: skip
    assert {("model", "fathom_planner_run_cost"), ("tenant", "fathom_planner_tenant_cost")} <= grouped


def test_metrics_of_the_runbooks_exist() -> None:
    assert find_metrics(OPERATIONS) <= find_declared(), find_metrics(OPERATIONS) - find_declared()


def commands(program: str) -> list[list[str]]:
    """Commands of the runbooks, as words; what stands in capitals is the operator's to fill in."""
    found = re.findall(rf"(?:^|[`\s(]){program} ((?:[a-z-]+|--)[^`\n|;&)#]*)", OPERATIONS)
    return [shlex.split(text.translate(str.maketrans("…", "x", "[]\\"))) for text in found]


def test_commands_of_the_runbooks_are_known() -> None:
    given = {"FATHOM_BACKUP_URL": "file:///backups"}
    tried = [
        words for words in commands("fathom") if words[0] in ("backup", "eval", "train", "doctor", "runs", "ask", "up")
    ]
    assert len(tried) >= 5
    for words in tried:
        kept = {name: value for name, value in os.environ.items() if name not in given}
        try:
            os.environ.update(given)
            parses(words)
        finally:
            for name in given.keys() - kept.keys():
                os.environ.pop(name, None)


def test_targets_of_the_runbooks_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`make ([a-z-]+)", OPERATIONS))
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"


def test_values_of_the_runbooks_are_in_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = set(re.findall(r"--set ([a-zA-Z.]+)=", OPERATIONS)) | set(
        re.findall(rf"`((?:{'|'.join(values)})\.[a-zA-Z.]+)`", OPERATIONS)
    )
    assert len(named) >= 15
    for path in sorted(named):
        place: Any = values
        for key in path.replace("services.NAME", "services.planner").split("."):
            if isinstance(place, dict) and key not in place and path.startswith("services."):
                place = values["defaults"]
            if place == {}:
                break  # the keys are the operator's own
            assert isinstance(place, dict), path
            assert key in place, f"{path}: no {key}"
            place = place[key]
