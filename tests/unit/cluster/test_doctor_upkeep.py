"""``fathom doctor --cluster`` on what keeps a release well: each finding with what spoils it, and its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom import __version__
from fathom.cli.doctor.cluster import examine_cluster
from fathom.operations.cluster.api import Cluster, ReleasePlace
from tests.unit.cluster.apiserver import FakeApiServer, Object
from tests.unit.cluster.recorded import event, put_event
from tests.unit.cluster.release_objects import APPS, CORE, CRD, CRONJOB, LABELS, PROMETHEUS, needs, print_time, report

Change = Callable[[FakeApiServer], None]
HOUR = 3_600.0


def put_pod(server: FakeApiServer, container: Object, **status: object) -> None:
    """Put a pod of the planner with the state of its container."""
    labels = server.objects[f"{APPS}/deployments/fathom-planner"]["spec"]["selector"]["matchLabels"]
    content = {"metadata": {"labels": {**LABELS, **labels}}, "status": {"containerStatuses": [container], **status}}
    server.put(f"{CORE}/pods/fathom-planner-x", content)


def end_container(reason: str, code: int, ago_s: float) -> Change:
    """Return the change after which a container of the planner has ended once and was started again."""
    ended = {"reason": reason, "exitCode": code, "finishedAt": print_time(ago_s)}
    container = {"name": "planner", "restartCount": 2, "lastState": {"terminated": ended}, "state": {"running": {}}}
    return lambda server: put_pod(server, container, phase="Running")


def set_version(version: str, *names: str) -> Change:
    """Return the change after which these Deployments, or all, are of another version."""

    def change(server: FakeApiServer) -> None:
        for path, content in server.objects.items():
            if path.startswith(APPS) and (not names or path.rpartition("/")[2] in names):
                content["metadata"]["labels"]["app.kubernetes.io/version"] = version

    return change


def hide_readiness(server: FakeApiServer) -> None:
    """Let a planner run that has lost its store, as the kubelet tells it."""
    server.objects[f"{APPS}/deployments/fathom-planner"]["status"]["readyReplicas"] = 1
    put_pod(server, {"name": "planner"}, phase="Running", conditions=[{"type": "Ready", "status": "False"}])
    said = 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
    put_event(server, "e", event("fathom-planner-x", "Unhealthy", said, kind="Pod"))


def lose_node(server: FakeApiServer) -> None:
    """Let the node of a planner go silent: its pod still says that it runs."""
    hide_readiness(server)
    server.objects[f"{CORE}/pods/fathom-planner-x"]["spec"] = {"nodeName": "worker-2"}
    put_event(server, "e", event("fathom-planner-x", "NodeNotReady", "Node is not ready", kind="Pod"))


def lose_node_yesterday(server: FakeApiServer) -> None:
    """Let the node have gone silent so long ago that no event tells it, and its pod wait for its end."""
    hide_readiness(server)
    pod = server.objects[f"{CORE}/pods/fathom-planner-x"]
    pod["spec"] = {"nodeName": "worker-2"}
    pod["metadata"]["deletionTimestamp"] = print_time(20 * HOUR)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    pod["status"]["conditions"].append(evicted)


def age_crd(server: FakeApiServer) -> None:
    """Let the CRD be one from before the rules of deletion."""
    schema = server.objects[CRD]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["deletionStrategy"]["properties"]["deletionRules"]


def age_crd_of_jobs(server: FakeApiServer) -> None:
    """Let the values have trainings of their own, too."""
    age_crd(server)
    needs(server, kinds=["ray.io/v1/rayjobs"])


def label_prometheus(server: FakeApiServer) -> None:
    server.objects[PROMETHEUS]["spec"]["ruleSelector"] = {"matchLabels": {"release": "another"}}


def without_selector(server: FakeApiServer) -> None:
    server.objects[PROMETHEUS]["spec"]["serviceMonitorSelector"] = None


def age_backup(server: FakeApiServer) -> None:
    server.objects[CRONJOB]["status"]["lastSuccessfulTime"] = print_time(27 * HOUR)


def never_backed_up(server: FakeApiServer) -> None:
    server.objects[CRONJOB]["status"] = {}
    server.objects[CRONJOB]["metadata"]["creationTimestamp"] = print_time(30 * HOUR)


def suspend_backup(server: FakeApiServer) -> None:
    server.objects[CRONJOB]["spec"]["suspend"] = True


def hide_dashboards(server: FakeApiServer) -> None:
    for path in [path for path in server.objects if "-dashboard-" in path]:
        del server.objects[path]


FAULTS: dict[str, tuple[Change, str, str, str]] = {
    "a planner that has lost its store": (hide_readiness, "fathom-planner", "is not ready: Readiness probe failed: service unhealthy", "kubectl logs fathom-planner-x: it names what it cannot reach"),
    "a planner whose node is lost": (lose_node, "fathom-planner", "1/2 ready; node worker-2 of pod fathom-planner-x is not ready", "kubectl delete node worker-2"),
    "a planner whose node was lost long ago": (lose_node_yesterday, "fathom-planner", "node worker-2 of pod fathom-planner-x is not ready", "kubectl delete node worker-2"),
    "an old backup": (age_backup, "cronjob/fathom-backup", "the last good one is of 20", "FathomBackupIsOld"),
    "no backup that ended well": (never_backed_up, "cronjob/fathom-backup", "none has ended well yet", "FathomBackupIsOld"),
    "a suspended backup": (suspend_backup, "cronjob/fathom-backup", "; suspended", "FathomBackupIsOld"),
    "older CRDs, and trainings of the values": (age_crd_of_jobs, "crd/rayjobs.ray.io", "is older than the chart", "kubectl apply --server-side"),
}  # fmt: skip
HINTS: dict[str, tuple[Change, str, str, str]] = {
    "a container that had too little memory": (end_container("OOMKilled", 137, HOUR), "pod/fathom-planner-x", "restarted (2 in all), last at 20", "resources.limits of planner"),
    "a container that failed": (end_container("Error", 1, HOUR), "pod/fathom-planner-x", "Error, exit status 1", "kubectl logs fathom-planner-x --previous"),
    "an earlier release": (set_version("0.1.0"), "version", f"0.1.0, examined by {__version__}", "UPGRADING.md"),
    "an upgrade that stopped half-way": (set_version("0.1.0", "fathom-planner"), "version", f"0.1.0 and {__version__} beside each other", "helm upgrade"),
    "no backups": (lambda s: void(s.objects.pop(CRONJOB)), "backups", "off in the values", "backup.enabled=true"),
    "no alerts": (lambda s: needs(s, kinds=[]), "alerts", "off in the values", "monitoring.rules.enabled=true"),
    "no scrapes": (lambda s: needs(s, kinds=[]), "scrapes", "off in the values", "monitoring.serviceMonitor.enabled=true"),
    "alerts that no Prometheus selects": (label_prometheus, "alerts", "1, which no Prometheus selects", "monitoring.rules.labels="),
    "scrapes that no Prometheus selects": (without_selector, "scrapes", "1, which no Prometheus selects", "monitoring.serviceMonitor.labels="),
    "no dashboards": (hide_dashboards, "dashboards", "off in the values", "monitoring.dashboards.enabled=true"),
    "older CRDs": (age_crd, "crd/rayjobs.ray.io", "knows no rules of deletion", "CRDs of KubeRay 1.7"),
    "CronJobs that may not be listed": (lambda s: s.denied.add(("list", "cronjobs")), "backups", "403", "ask who runs the cluster"),
}  # fmt: skip


def void(_: object) -> None:
    return


@pytest.mark.parametrize("case", [*FAULTS, *HINTS])
def test_what_spoils_a_release_is_said_with_what_mends_it(
    sound: FakeApiServer, cluster: Cluster, kubeconfig: Path, case: str
) -> None:
    change, subject, detail, remedy = {**FAULTS, **HINTS}[case]
    change(sound)
    found = report(cluster)[subject]
    assert not found.good
    assert detail in found.detail
    assert remedy in found.remedy
    # A hint leaves a script of an operator as it was; a fault ends it.
    assert found.needed == (case in FAULTS)
    assert examine_cluster(ReleasePlace(kubeconfig=kubeconfig)) == int(case in FAULTS)


def test_what_is_well_is_said_too(sound: FakeApiServer, cluster: Cluster) -> None:
    found = report(cluster)
    assert found["version"].detail == __version__
    assert found["restarts"].good
    assert found["cronjob/fathom-backup"].detail.startswith("the last good one is of 20")
    assert found["alerts"].detail == found["scrapes"].detail == "1, selected by a Prometheus"
    assert found["dashboards"].detail == "cost, fathom"
    assert found["crd/rayjobs.ray.io"].detail == "knows the rules of deletion"


def test_a_restart_of_the_day_before_yesterday_is_not_told(sound: FakeApiServer, cluster: Cluster) -> None:
    end_container("Error", 1, 48 * HOUR)(sound)
    assert report(cluster)["restarts"].good


def test_a_release_of_today_may_wait_for_its_first_backup(sound: FakeApiServer, cluster: Cluster) -> None:
    sound.objects[CRONJOB]["status"] = {}
    sound.objects[CRONJOB]["metadata"]["creationTimestamp"] = print_time(HOUR)
    found = report(cluster)["cronjob/fathom-backup"]
    assert (found.good, found.detail) == (True, "none has ended well yet")


def test_with_a_queue_the_age_of_the_crds_does_not_count(sound: FakeApiServer, cluster: Cluster) -> None:
    """Kueue takes trainings without rules of deletion alone."""
    age_crd(sound)
    needs(sound, queue="training")
    assert "crd/rayjobs.ray.io" not in report(cluster)


def test_what_the_check_of_the_crd_asks_for_is_what_trainings_say(sound: FakeApiServer) -> None:
    held = sound.objects[f"{CORE}/configmaps/fathom-rayjob"]["data"]["rayjob.json"]
    assert "deletionRules" in json.loads(held)["spec"]["deletionStrategy"]
