"""Check of the sandbox's pods: the isolation that each achieved at its start, beside its RuntimeClass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fathom.cli.doctor.findings import Finding
from fathom.core.errors import FathomError
from fathom.operations.cluster.api import PODS, Cluster

if TYPE_CHECKING:
    from fathom.cli.doctor.cluster import Release

SUBJECT, EVENT = "sandbox isolation", "sandbox isolation"
# The event is among the first lines of a pod; a log of weeks is not read for it.
LOG_BYTES = 256 << 10
# Levels behind a kernel of their own, which is what a RuntimeClass is for (fathom.services.sandbox.ipc.levels).
OWN_KERNEL = ("guest-kernel", "vm")
REMEDY = "services.sandbox.runtimeClassName= a class of gVisor or Kata Containers (SECURITY.md, RuntimeClasses)"


def check_sandbox(release: Release) -> Iterator[Finding]:
    """Check the level that each pod reports; without a report, name the least with which a pod starts."""
    wanted = release.needs.get("sandbox")
    if not wanted:
        return  # a release from before its needs named the sandbox
    labels = f"{release.labels},app.kubernetes.io/component=sandbox"
    names = sorted(pod["metadata"]["name"] for pod in release.cluster.list_objects(PODS, labels))
    found = {name: read_report(release.cluster, name) for name in names}
    by_class = wanted.get("runtimeClass") or ""
    behind = f"RuntimeClass {by_class}" if by_class else "the cluster's default RuntimeClass"
    for name, report in found.items():
        if report:
            yield judge(name, report, by_class, behind)
    silent = [name for name, report in found.items() if not report]
    if silent or not names:
        who = f"no report in the log of {', '.join(silent)}" if silent else "no pod"
        least = wanted.get("minIsolation") or "namespace"
        detail = f"at least {least}, below which no pod starts; {behind} ({who})"
        yield Finding(SUBJECT, least != "none", detail, REMEDY, needed=False)


def judge(name: str, report: Mapping[str, Any], by_class: str, behind: str) -> Finding:
    """Return the finding for one pod's report; a RuntimeClass that gives no kernel of its own is a fault."""
    level = str(report["achieved"])
    detail = f"{level}; {behind}"
    if missing := report.get("missing"):
        detail += f"; without {', '.join(map(str, missing))}"
    if by_class and level not in OWN_KERNEL:
        remedy = (
            f"kubectl get runtimeclass {by_class} -o yaml: is its handler gVisor's or Kata's on the node of {name}?"
        )
        return Finding(f"{SUBJECT}/{name}", False, f"{detail}, which gives no kernel of its own", remedy)
    return Finding(f"{SUBJECT}/{name}", level != "none", detail, REMEDY, needed=level == "none")


def read_report(cluster: Cluster, pod: str) -> Mapping[str, Any]:
    """Return the event in which a pod logs its isolation; an empty one where its log has none or cannot be read."""
    try:
        for line in cluster.log(pod, "sandbox", limit_bytes=LOG_BYTES):
            # Each line begins with its time.
            text = line.partition(" ")[2]
            if EVENT in text and (report := parse_event(text)):
                return report
    except FathomError:
        # A pod that has not started has no log; another finding says why.
        return {}
    return {}


def parse_event(text: str) -> Mapping[str, Any]:
    """Return a log line's event if it is the one with the level, else an empty one."""
    try:
        event = json.loads(text)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and event.get("event") == EVENT and event.get("achieved") else {}
