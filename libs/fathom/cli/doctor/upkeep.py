"""Checks of what keeps a release well: version, restarts, readiness, backups, alerts, dashboards, the age of CRDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fathom import __version__
from fathom.cli.doctor.findings import Finding
from fathom.core.errors import NotFound
from fathom.operations.cluster.api import CONFIGMAPS, PODS, Object, Resource, UnknownKind

if TYPE_CHECKING:
    from fathom.cli.doctor.cluster import Release

CRONJOBS = Resource("batch", "v1", "cronjobs")
MONITORING = "monitoring.coreos.com/v1"
VERSION = "app.kubernetes.io/version"
# An older restart was looked at, or did no harm: a pod keeps its count for as long as it lives.
RECENT_S = 86_400.0
# As the alert FathomBackupIsOld: a night, and two hours for a backup that takes long.
BACKUP_AGE_S = 26 * 3_600.0
# What the chart's trainings say since KubeRay 1.7; `helm upgrade` of the operator leaves older CRDs as they are.
TRAINING_FIELDS = ("deletionStrategy", "deletionRules")


def check_versions(release: Release) -> Iterator[Finding]:
    """Check that all workloads are of one version, and of the one that examines them."""
    held = {str(one["metadata"].get("labels", {}).get(VERSION, "?")) for one in release.list_workloads()}
    if not held:
        return  # another finding says that there are none
    said = " and ".join(sorted(held))
    if len(held) > 1:
        detail = f"{said} beside each other"
    else:
        detail = said if held == {__version__} else f"{said}, examined by {__version__}"
    remedy = f"charts/fathom/UPGRADING.md up to {__version__}, then helm upgrade; or examine it by its own version"
    yield Finding("version", held == {__version__}, detail, remedy, needed=False)


def check_restarts(release: Release, now: datetime | None = None) -> Iterator[Finding]:
    """Check for containers that ended by themselves in the last day, each with its end."""
    now = now or datetime.now(UTC)
    clean = True
    for pod in release.cluster.list_objects(PODS, release.labels):
        name = pod["metadata"]["name"]
        for status in (pod.get("status") or {}).get("containerStatuses", ()):
            ended = (status.get("lastState") or {}).get("terminated") or {}
            count, at = int(status.get("restartCount", 0)), read_time(ended.get("finishedAt"))
            if not count or at is None or (now - at).total_seconds() > RECENT_S:
                continue
            clean = False
            detail = f"restarted ({count} in all), last at {at:%Y-%m-%d %H:%M UTC}: {ended.get('reason') or 'Error'}"
            detail += f", exit status {ended.get('exitCode', '?')}"
            remedy = f"kubectl logs {name} --previous"
            if ended.get("reason") == "OOMKilled":
                remedy = f"more memory in the values: resources.limits of {status.get('name')}"
            yield Finding(f"pod/{name}", False, detail, remedy, needed=False)
    if clean:
        yield Finding("restarts", True, "no container has ended by itself in the last day")


def find_unready(pods: Sequence[Object], events: Sequence[Object]) -> Iterator[tuple[str, str]]:
    """Yield (reason, remedy) of pods that run and do not pass their readiness probe, in the probe's own words."""
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        conditions = {one.get("type"): one.get("status") for one in status.get("conditions", ())}
        if status.get("phase") != "Running" or conditions.get("Ready") != "False":
            continue
        for event in reversed(events):
            said = str(event.get("message") or "")
            is_about = (event.get("involvedObject") or {}).get("name") == name
            if is_about and event.get("reason") == "Unhealthy" and said.startswith("Readiness probe"):
                yield (
                    f"pod {name} runs and is not ready: {said[:300]}",
                    f"kubectl logs {name}: it names what it cannot reach (store, bus, another service)",
                )
                break


def check_backups(release: Release, now: datetime | None = None) -> Iterator[Finding]:
    """Check that backups are made and that the last good one is of the last night."""
    now = now or datetime.now(UTC)
    jobs = release.cluster.list_objects(CRONJOBS, f"{release.labels},app.kubernetes.io/component=backup")
    if not jobs and release.needs:
        remedy = "backup.enabled=true, backup.urlSecret= (docs/operations.md, Back up and restore)"
        yield Finding("backups", False, "off in the values", remedy, needed=False)
    for job in jobs:
        name, last = job["metadata"]["name"], read_time((job.get("status") or {}).get("lastSuccessfulTime"))
        since = last or read_time(job["metadata"].get("creationTimestamp")) or now
        is_old = (now - since).total_seconds() > BACKUP_AGE_S
        is_suspended = bool(job["spec"].get("suspend"))
        detail = f"the last good one is of {last:%Y-%m-%d %H:%M UTC}" if last else "none has ended well yet"
        if is_suspended:
            detail += "; suspended"
        remedy = f"kubectl logs of the last job of cronjob/{name}; FathomBackupIsOld in docs/operations.md"
        yield Finding(f"cronjob/{name}", not is_old and not is_suspended, detail, remedy)


def check_alerts(release: Release) -> Iterator[Finding]:
    """Check that alerts and scrapes are made, and that a Prometheus selects them by their labels."""
    if not release.needs:
        return
    for subject, plural, selector, value in (
        ("alerts", "prometheusrules", "ruleSelector", "monitoring.rules"),
        ("scrapes", "servicemonitors", "serviceMonitorSelector", "monitoring.serviceMonitor"),
    ):
        if f"{MONITORING}/{plural}" not in release.needs.get("kinds", ()):
            yield Finding(subject, False, "off in the values", f"{value}.enabled=true", needed=False)
            continue
        try:
            made = release.cluster.list_objects(Resource("monitoring.coreos.com", "v1", plural), release.labels)
            watchers = release.cluster.raw("GET", f"/apis/{MONITORING}/prometheuses").get("items", [])
        except (UnknownKind, NotFound):
            continue  # the kinds that are not installed are named by themselves
        chosen = any(selects(one["spec"].get(selector), rule) for one in watchers for rule in made)
        detail = f"{len(made)}, selected by a Prometheus" if chosen else f"{len(made)}, which no Prometheus selects"
        remedy = f"{value}.labels= what {selector} of your Prometheus asks for: kubectl get prometheus -A -o yaml"
        yield Finding(subject, chosen, detail, remedy, needed=False)


def selects(selector: Mapping[str, Any] | None, item: Object) -> bool:
    """Return whether a label selector chooses an object: none chooses nothing, an empty one everything."""
    if selector is None:
        return False
    labels = item["metadata"].get("labels", {})
    # Expressions are rare here, and what they ask for is given the benefit of the doubt.
    return all(labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items())


def check_dashboards(release: Release) -> Iterator[Finding]:
    """Check that the dashboards are there for Grafana."""
    if not release.needs:
        return
    names = [one["metadata"]["name"] for one in release.cluster.list_objects(CONFIGMAPS, release.labels)]
    found = sorted(name.partition("-dashboard-")[2] for name in names if "-dashboard-" in name)
    detail = ", ".join(found) or "off in the values"
    yield Finding("dashboards", bool(found), detail, "monitoring.dashboards.enabled=true", needed=False)


def check_schema(release: Release) -> Iterator[Finding]:
    """Check that the CRD of RayJobs knows the fields that trainings are written with."""
    if release.needs.get("queue"):
        return  # with Kueue trainings use fields that every version has
    try:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayjobs.ray.io"
        versions = release.cluster.raw("GET", path)["spec"]["versions"]
    except NotFound:
        return  # that RayJobs are not known is a finding by itself
    found = {one["name"]: one for one in versions}.get("v1", {})
    schema = (found.get("schema") or {}).get("openAPIV3Schema") or {}
    for field in ("spec", *TRAINING_FIELDS):
        schema = (schema.get("properties") or {}).get(field) or {}
    remedy = "kubectl apply --server-side -f the CRDs of KubeRay 1.7: helm upgrade leaves them as they are"
    detail = "knows the rules of deletion" if schema else "is older than the chart: it knows no rules of deletion"
    needed = "ray.io/v1/rayjobs" in release.needs.get("kinds", ())
    yield Finding("crd/rayjobs.ray.io", bool(schema), detail, remedy, needed=needed)


def read_time(text: str | None) -> datetime | None:
    """Return a time of the API server, None for none."""
    return datetime.fromisoformat(text) if text else None
