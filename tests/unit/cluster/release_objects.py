"""A release on the cluster of the tests, as its objects are when all is well, and changes of them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

from fathom.cli.doctor.cluster import findings
from fathom.cli.doctor.findings import Finding
from fathom.operations.cluster.api import Cluster
from tests.chart.rendering import ROOT
from tests.unit.cluster.apiserver import FakeApiServer, Object

APPS = "/apis/apps/v1/namespaces/research"
CORE = "/api/v1/namespaces/research"
NEEDS = f"{CORE}/configmaps/fathom-needs"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayjobs.ray.io"
CRONJOB = "/apis/batch/v1/namespaces/research/cronjobs/fathom-backup"
MONITORING = "/apis/monitoring.coreos.com/v1/namespaces/research"
PROMETHEUS = "/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses/main"
LABELS = {"app.kubernetes.io/name": "fathom", "app.kubernetes.io/instance": "fathom"}
OPERATOR = "/apis/apps/v1/namespaces/ray-system/deployments/kuberay-operator"


def operator(tag: str, ready: int = 1) -> Object:
    return {
        "metadata": {"namespace": "ray-system", "labels": {"app.kubernetes.io/name": "kuberay-operator"}},
        "spec": {"template": {"spec": {"containers": [{"image": f"quay.io/kuberay/operator:{tag}"}]}}},
        "status": {"readyReplicas": ready},
    }


def secret(server: FakeApiServer, name: str, *keys: str) -> None:
    data = {key: base64.b64encode(b"x").decode() for key in keys}
    server.put(f"{CORE}/secrets/{name}", {"metadata": {"name": name}, "data": data})


def needs(server: FakeApiServer, **more: object) -> None:
    held = server.objects[NEEDS]
    held["data"]["needs.json"] = json.dumps({**json.loads(held["data"]["needs.json"]), **more})


def report(cluster: Cluster) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings(cluster, "fathom")}


def print_time(ago_s: float = 0.0) -> str:
    """Return a time as the API server writes it."""
    return f"{datetime.now(UTC) - timedelta(seconds=ago_s):%Y-%m-%dT%H:%M:%SZ}"


def keep_well(server: FakeApiServer) -> None:
    """Add what an operator turns on besides: backups, alerts, scrapes and dashboards, and a Prometheus that selects them."""
    server.groups["batch/v1"] = ["cronjobs"]
    server.groups["monitoring.coreos.com/v1"] = ["prometheusrules", "servicemonitors", "prometheuses"]
    kinds = ["prometheusrules", "servicemonitors"]
    needs(server, kinds=[f"monitoring.coreos.com/v1/{kind}" for kind in kinds])
    for kind in kinds:
        server.put(f"{MONITORING}/{kind}/fathom", {"metadata": {"labels": {**LABELS, "release": "kps"}}})
    selector = {"matchLabels": {"release": "kps"}}
    server.put(PROMETHEUS, {"metadata": {}, "spec": {"ruleSelector": selector, "serviceMonitorSelector": {}}})
    job = {
        "metadata": {"labels": {**LABELS, "app.kubernetes.io/component": "backup"}},
        "spec": {"schedule": "0 3 * * *"},
    }
    server.put(CRONJOB, {**job, "status": {"lastSuccessfulTime": print_time(3_600.0)}})
    for name in ("fathom", "cost"):
        server.put(f"{CORE}/configmaps/fathom-dashboard-{name}", {"metadata": {"labels": dict(LABELS)}})
    schema = json.loads((ROOT / "tests" / "golden" / "schemas" / "rayjob.json").read_text())
    server.put(CRD, {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
