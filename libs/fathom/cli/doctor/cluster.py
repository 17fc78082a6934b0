"""``fathom doctor --cluster``: compares what a release needs with what its cluster has, with remedies."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fathom.cli.doctor.findings import Finding, print_findings
from fathom.cli.doctor.isolation import check_sandbox
from fathom.cli.doctor.upkeep import (
    check_alerts,
    check_backups,
    check_dashboards,
    check_restarts,
    check_schema,
    check_versions,
    find_unready,
)
from fathom.core.errors import FathomError, NotFound, UpstreamRefused
from fathom.operations.cluster.api import (
    CONFIGMAPS,
    EVENTS,
    PODS,
    Cluster,
    Object,
    ReleasePlace,
    Resource,
    UnknownKind,
    connect,
)
from fathom.operations.cluster.pending import Observed, reasons
from fathom.operations.cluster.rayjob import full_name
from fathom.transport.tls import CERTIFICATE, read_validity

# The oldest Kubernetes version that the chart supports.
OLDEST = (1, 29)
# cert-manager renews a certificate of 90 days a month before its end; in the last week something is wrong.
RENEWAL_S = 7 * 86_400.0
# The KubeRay version that the chart is tested with.
OPERATOR = (1, 7)
DEPLOYMENTS, STATEFULSETS = Resource("apps", "v1", "deployments"), Resource("apps", "v1", "statefulsets")
CLAIMS, SECRETS = Resource("", "v1", "persistentvolumeclaims"), Resource("", "v1", "secrets")
# Permissions for submitting, following and explaining a training: (verb, group, resource).
TRAINING = (
    ("create", "ray.io", "rayjobs"), ("get", "ray.io", "rayjobs"), ("watch", "ray.io", "rayjobs"),
    ("delete", "ray.io", "rayjobs"), ("list", "", "pods"), ("get", "", "pods/log"), ("list", "", "events"),
)  # fmt: skip
ENFORCE = "pod-security.kubernetes.io/enforce"
BRINGS: Mapping[str, str] = {
    "ray.io": "KubeRay's operator", "kueue.x-k8s.io": "Kueue", "keda.sh": "KEDA",
    "monitoring.coreos.com": "the Prometheus operator", "external-secrets.io": "External Secrets",
    "gateway.networking.k8s.io": "the Gateway API", "cert-manager.io": "cert-manager",
}  # fmt: skip
# Network plugins that enforce NetworkPolicies, by the prefixes of their DaemonSets' names.
CLOSES = ("calico", "cilium", "antrea", "kube-router", "weave", "kindnet", "ovn", "canal", "aws-node")


@dataclass(frozen=True)
class Release:
    """The release to examine; ``needs`` is the chart's own list of what its values need."""

    cluster: Cluster
    name: str
    needs: Mapping[str, Any]

    @property
    def labels(self) -> str:
        return f"app.kubernetes.io/name=fathom,app.kubernetes.io/instance={self.name}"

    def list_workloads(self) -> list[Object]:
        """Return the Deployments and StatefulSets of the release."""
        return [one for kind in (DEPLOYMENTS, STATEFULSETS) for one in self.cluster.list_objects(kind, self.labels)]


def examine_cluster(place: ReleasePlace) -> int:
    """Print the report; return 0 if nothing required is missing, else 1. Raises ``ConfigError``, ``MissingExtra``."""
    cluster = connect(place.namespace, place.context, place.kubeconfig)
    return print_findings(list(findings(cluster, place.release)))


def findings(cluster: Cluster, release: str) -> Iterator[Finding]:
    """Yield the result of every check in order; stop when the server cannot be reached."""
    try:
        yield version(cluster)
    except FathomError as error:
        yield Finding(
            "API server", False, error.message, "kubectl cluster-info; is the kubeconfig's context the right one?"
        )
        return
    needs, finding = read_needs(cluster, release)
    yield finding
    examined = Release(cluster, release, needs)
    for name, check in CHECKS:
        try:
            yield from check(examined)
        except FathomError as error:
            yield unseen(name, error)


def unseen(name: str, error: FathomError) -> Finding:
    """Return the finding for a failed check; missing permission to look is no fault of the release."""
    forbidden = isinstance(error, UpstreamRefused) and error.status == 403
    remedy = "ask who runs the cluster" if forbidden else "kubectl get --raw /readyz?verbose"
    return Finding(name, False, f"not known: {error.message}", remedy, needed=not forbidden)


def version(cluster: Cluster) -> Finding:
    said = cluster.raw("GET", "/version")["gitVersion"]
    found = numbers(said)
    oldest = ".".join(map(str, OLDEST))
    return Finding("Kubernetes", found >= OLDEST, said, f"the chart wants {oldest} or newer: upgrade")


def numbers(text: str) -> tuple[int, int]:
    """Return major and minor of a version; (0, 0) for none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def read_needs(cluster: Cluster, release: str) -> tuple[Mapping[str, Any], Finding]:
    """Return the release's own list of its needs, with a finding about it."""
    subject, name = f"release {release}", f"{full_name(release)}-needs"
    try:
        needs: Mapping[str, Any] = json.loads(cluster.read(CONFIGMAPS, name)["data"]["needs.json"])
        return needs, Finding(subject, True, f"in namespace {cluster.namespace}")
    except (FathomError, KeyError, ValueError) as error:
        said = f"ConfigMap {name} in {cluster.namespace}: {error}"
        return {}, Finding(subject, False, said, "helm list -A, then --release and --namespace; or install it")


def namespace(release: Release) -> Iterator[Finding]:
    """Check Pod Security; a violation that only warns at the Deployment fails at its pods."""
    name = release.cluster.namespace
    labels = release.cluster.raw("GET", f"/api/v1/namespaces/{quote(name)}")["metadata"].get("labels", {})
    level = labels.get(ENFORCE, "")
    detail = f"{ENFORCE}={level or 'not set'}"
    # A namespace that only warns lets such pods in, which is easily mistaken for enforcement.
    if level != "restricted" and labels.get(ENFORCE.replace("enforce", "warn")) == "restricted":
        detail += " (it only warns)"
    yield Finding(
        "Pod Security", level == "restricted", detail, f"kubectl label ns {name} {ENFORCE}=restricted --overwrite"
    )


def permissions(release: Release) -> Iterator[Finding]:
    """Check the permissions for training; report all missing ones in one line."""
    refused = [
        f"{verb} {resource}" for verb, group, resource in TRAINING if not may(release.cluster, verb, group, resource)
    ]
    role = f"bind yourself to the Role {full_name(release.name)}-trainer: training.subjects in the values"
    detail = f"may not {', '.join(refused)}" if refused else "submit, follow, explain and delete trainings"
    yield Finding("permissions", not refused, detail, role)


def may(cluster: Cluster, verb: str, group: str, resource: str) -> bool:
    """Ask the server whether the user may do this (SelfSubjectAccessReview)."""
    plural, _, part = resource.partition("/")
    asked = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": plural, "subresource": part}
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in asked.items() if value}},
    }  # fmt: skip
    answer = cluster.raw("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"].get("allowed"))


def kinds(release: Release) -> Iterator[Finding]:
    """Check custom resources: those that the values use, and RayJobs, which training needs."""
    used = [str(kind) for kind in release.needs.get("kinds", ())]
    for kind in [*used, *({"ray.io/v1/rayjobs"} - set(used))]:
        group, number, plural = kind.split("/")
        try:
            listed = release.cluster.raw("GET", f"/apis/{group}/{number}").get("resources", [])
            there = any(one["name"] == plural for one in listed)
        except (UnknownKind, NotFound):
            there = False
        remedy = f"install {BRINGS.get(group, group)}, or turn off in the values what needs it"
        yield Finding(f"{plural}.{group}", there, number if there else "not installed", remedy, needed=kind in used)


def operator(release: Release) -> Iterator[Finding]:
    """Check that KubeRay's operator is running and not older than the version the chart is tested with."""
    path = "/apis/apps/v1/deployments?labelSelector=" + quote("app.kubernetes.io/name=kuberay-operator")
    found = release.cluster.raw("GET", path).get("items", [])
    needed = any(str(kind).startswith("ray.io/") for kind in release.needs.get("kinds", ()))
    if not found:
        yield Finding("KubeRay", False, "no operator", "helm install kuberay-operator kuberay/kuberay-operator", needed)
    for deployment in found:
        image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
        tag = image.rpartition(":")[2]
        place = deployment["metadata"].get("namespace", "?")
        ready = (deployment.get("status") or {}).get("readyReplicas", 0) > 0
        if not ready:
            yield Finding("KubeRay", False, f"{tag} in {place} is not ready", f"kubectl -n {place} get pods", needed)
        else:
            remedy = f"the chart is checked against {OPERATOR[0]}.{OPERATOR[1]}: helm upgrade it"
            yield Finding("KubeRay", numbers(tag) >= OPERATOR, f"{tag} in {place}", remedy, needed=False)
        yield from check_operator_access(release, place)


def check_operator_access(release: Release, place: str) -> Iterator[Finding]:
    """Check that the network policies admit the operator's namespace, identified by its label."""
    wanted = release.needs.get("rayOperator") or {}
    name = wanted.get("kubernetes.io/metadata.name", place)
    if release.needs.get("networkPolicies") and name != place:
        remedy = f"networkPolicy.rayOperatorNamespace={{kubernetes.io/metadata.name: {place}}} in the values"
        yield Finding("KubeRay's way in", False, f"the walls let in {name}, the operator is in {place}", remedy)


def workloads(release: Release) -> Iterator[Finding]:
    """Check Deployments and StatefulSets, with the reasons of those that are not ready."""
    found = release.list_workloads()
    for one in found:
        status, count = one.get("status") or {}, one["spec"].get("replicas", 1)
        ready = status.get("readyReplicas", 0)
        # Until the controller has seen the newest generation, the counts of ready pods are those of the one before.
        rolled = status.get("observedGeneration", 0) >= one["metadata"].get("generation", 0)
        good = ready >= count and rolled
        detail = f"{ready}/{count} ready" + ("" if rolled else ", a change is not rolled out")
        why = [] if good else why_not(release.cluster, one)
        detail = "; ".join([detail, *(what for what, _ in why)])
        name = one["metadata"]["name"]
        yield Finding(name, good, detail, "; ".join(remedy for _, remedy in why) or f"kubectl logs of {name}'s pods")
    if not found:
        yield Finding("workloads", False, f"none of release {release.name}", "helm status; helm install")


def why_not(cluster: Cluster, workload: Object) -> Sequence[tuple[str, str]]:
    """Return the reasons of a workload's pods: (reason, remedy)."""
    labels = ",".join(f"{name}={value}" for name, value in workload["spec"]["selector"]["matchLabels"].items())
    pods = cluster.list_objects(PODS, labels)
    name = workload["metadata"]["name"]
    events = [
        e for e in cluster.list_objects(EVENTS) if str((e.get("involvedObject") or {}).get("name", "")).startswith(name)
    ]
    found = [(reason.what, reason.remedy) for reason in reasons(Observed(workload, None, pods, events, None))]
    return [*found, *find_unready(pods, events)]


def claims(release: Release) -> Iterator[Finding]:
    """Check that volumes are bound."""
    for claim in release.cluster.list_objects(CLAIMS, release.labels):
        phase = (claim.get("status") or {}).get("phase", "Pending")
        kind = claim["spec"].get("storageClassName") or "the default StorageClass"
        remedy = f"kubectl describe pvc {claim['metadata']['name']}; is there {kind}, and room in it?"
        yield Finding(f"pvc/{claim['metadata']['name']}", phase == "Bound", phase, remedy)


def secrets(release: Release) -> Iterator[Finding]:
    """Check the Secrets that the values name, with every key that is read."""
    for name, keys in (release.needs.get("secrets") or {}).items():
        there: set[str] | None = None
        try:
            held = release.cluster.read(SECRETS, name)
            there = {key for key, value in (held.get("data") or {}).items() if value}
        except NotFound:
            there = None
        except FathomError as error:
            yield unseen(f"secret/{name}", error)
            continue
        missing = sorted(set(keys) - (there or set()))
        detail = "missing" if there is None else f"without {', '.join(missing)}" if missing else ", ".join(keys)
        yield Finding(f"secret/{name}", not missing, detail, remedy_of(name, keys))
        if CERTIFICATE in keys and not missing:
            yield certificate(name, b64decode(held["data"][CERTIFICATE]))


def remedy_of(name: str, keys: Sequence[str]) -> str:
    """Return the command that makes a Secret: by our own commands where these make what it holds."""
    create = f"kubectl create secret generic {name}"
    if "signing.pem" in keys:
        return f"fathom identity keys {name} && {create} --from-file={name}"
    if "keys.jsonl" in keys:
        return f"fathom identity api-key NAME TENANT --file keys.jsonl && {create} --from-file=keys.jsonl"
    if CERTIFICATE in keys:
        return f"certificates.issuer.name= of a cert-manager in the values, or {create} --from-file=FOLDER of " + (
            ", ".join(keys)
        )
    return f"{create} {' '.join(f'--from-literal={key}=…' for key in keys)}"


def certificate(name: str, pem: bytes, now: float | None = None) -> Finding:
    """Check the validity of a certificate; one that ends soon is a warning: it should have been renewed by now."""
    subject, remedy = f"certificate/{name}", f"kubectl describe certificate,secret {name}: who renews it?"
    try:
        begins, ends = read_validity(pem)
    except ValueError as error:
        return Finding(subject, False, f"is no certificate: {error}", remedy)
    now = time.time() if now is None else now
    until = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M UTC}"
    if not begins <= now < ends:
        return Finding(subject, False, f"expired on {until}" if ends <= now else "is not valid yet", remedy)
    soon = ends - now < RENEWAL_S
    return Finding(
        subject, not soon, f"valid until {until}" + (", which is soon" if soon else ""), remedy, needed=False
    )


def classes(release: Release) -> Iterator[Finding]:
    """Check RuntimeClasses, e.g. gvisor for the sandbox."""
    for name in release.needs.get("runtimeClasses", ()):
        try:
            handler = release.cluster.raw("GET", f"/apis/node.k8s.io/v1/runtimeclasses/{quote(name)}")["handler"]
            yield Finding(f"runtimeclass/{name}", True, f"handler {handler}")
        except NotFound:
            yield Finding(
                f"runtimeclass/{name}", False, "missing", "install gVisor on the nodes; runtimeClass.create=true"
            )


def network(release: Release) -> Iterator[Finding]:
    """Guess from the installed network plugin whether NetworkPolicies are enforced; no API reports it."""
    if not release.needs:
        return  # without a release there are no values that could say it
    if not release.needs.get("networkPolicies"):
        yield Finding("network policies", False, "off in the values", "networkPolicy.enabled=true", needed=False)
        return
    found = release.cluster.raw("GET", "/apis/apps/v1/namespaces/kube-system/daemonsets").get("items", [])
    names = [str(one["metadata"]["name"]) for one in found]
    known = [name for name in names if name.startswith(CLOSES)]
    detail = f"enforced by {known[0]}, as far as its name tells" if known else "nobody is known to enforce them"
    remedy = "a network that enforces them (Calico, Cilium …); without one the sandbox's walls are its own alone"
    yield Finding("network policies", bool(known), detail, remedy, needed=False)


def stores(release: Release) -> Iterator[Finding]:
    """Check what the policies let through by the name of a Service: it is there, and its pods listen on that port."""
    for place in release.needs.get("places", ()):
        namespace, name, port = place["namespace"], place["service"], int(place["port"])
        subject = f"service/{namespace}/{name}"
        remedy = "networkPolicy.externalStores in the values, as {namespace, port} of its pods or {cidr, port}"
        try:
            path = f"/api/v1/namespaces/{quote(namespace)}/services/{quote(name)}"
            ports = release.cluster.raw("GET", path)["spec"].get("ports", [])
        except NotFound:
            yield Finding(subject, False, "missing: the policies let nobody to another place of this name", remedy)
            continue
        # Policies look at the packet behind the Service: at the port of the pod.
        wanted = next((one for one in ports if one["port"] == port), None)
        target = wanted.get("targetPort", port) if wanted else None
        if wanted is None:
            detail = f"has no port {port}"
        elif isinstance(target, int) and target != port:
            detail = f"sends port {port} to {target} of its pods, which the policies do not let through"
        else:
            detail = f"port {port}"
        yield Finding(subject, detail == f"port {port}", detail, remedy)


def queue(release: Release) -> Iterator[Finding]:
    """Check Kueue's LocalQueue for trainings."""
    name = release.needs.get("queue")
    if name:
        try:
            release.cluster.read(Resource("kueue.x-k8s.io", "v1beta1", "localqueues"), name)
            yield Finding(f"localqueue/{name}", True, "there")
        except (NotFound, UnknownKind):
            yield Finding(f"localqueue/{name}", False, "missing", "make it, or training.queue= in the values")


CHECKS: tuple[tuple[str, Callable[[Release], Iterator[Finding]]], ...] = (
    ("Pod Security", namespace),
    ("permissions", permissions),
    ("kinds", kinds),
    ("KubeRay", operator),
    ("CRDs", check_schema),
    ("version", check_versions),
    ("workloads", workloads),
    ("restarts", check_restarts),
    ("volumes", claims),
    ("secrets", secrets),
    ("RuntimeClasses", classes),
    ("sandbox isolation", check_sandbox),
    ("network policies", network),
    ("stores", stores),
    ("queue", queue),
    ("backups", check_backups),
    ("alerts", check_alerts),
    ("dashboards", check_dashboards),
)
