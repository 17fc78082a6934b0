"""Diagnosis of a waiting training job from the job, its pods, their events and its queue, each reason with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import FathomError, NotFound
from fathom.operations.cluster.api import EVENTS, PODS, RAYCLUSTERS, WORKLOADS, Cluster, Object, Resource, UnknownKind
from fathom.operations.cluster.scheduling import Reason, unschedulable

QUEUE = "kueue.x-k8s.io/queue-name"
# The kubelet's words, with or without quotation marks: 'secret "store" not found', 'serviceaccount trainer not found',
# and "couldn't find key token in Secret fathom/keys".
MISSING = re.compile(r"(secret|configmap|serviceaccount|persistentvolumeclaim) \"?([^\"\s]+)\"? not found", re.I)
KEY = re.compile(r"couldn't find key (\S+) in (Secret|ConfigMap) (\S+)")


@dataclass(frozen=True)
class Observed:
    """Observed state of a job; ``unseen`` names what could not be read, and why."""

    job: Object
    cluster: Object | None
    pods: Sequence[Object]
    events: Sequence[Object]
    workloads: Sequence[Object] | None
    unseen: Sequence[str] = ()


def observe(cluster: Cluster, job: Object) -> Observed:
    """Read everything that belongs to the job; what may not be read is left out and named."""
    name, unseen = job["metadata"]["name"], []
    ray = str((job.get("status") or {}).get("rayClusterName") or "")

    def list_or_note(kind: Resource, labels: str = "") -> list[Object]:
        try:
            return cluster.list_objects(kind, labels)
        except FathomError as error:
            unseen.append(f"{kind}: {error.message}")
            return []

    around = None
    if ray:
        try:
            around = cluster.read(RAYCLUSTERS, ray)
        except NotFound:
            around = None
        except FathomError as error:
            unseen.append(f"{RAYCLUSTERS}: {error.message}")
    pods = [*list_or_note(PODS, f"job-name={name}"), *(list_or_note(PODS, f"ray.io/cluster={ray}") if ray else [])]
    names = {name, ray, *(pod["metadata"]["name"] for pod in pods)}
    # Events of pods that are gone count too: a pod that cannot be created leaves nothing else behind.
    events = [event for event in list_or_note(EVENTS) if about(event, names, ray)]
    return Observed(job, around, pods, events, list_workloads(cluster, job, unseen), unseen)


def about(event: Object, names: set[str], ray: str) -> bool:
    """Return True if the event concerns the job, its cluster or a pod of theirs, even a deleted one."""
    subject = str((event.get("involvedObject") or {}).get("name", ""))
    return subject in names or bool(ray and subject.startswith(f"{ray}-"))


def list_workloads(cluster: Cluster, job: Object, unseen: list[str]) -> list[Object] | None:
    """Return Kueue's workloads of the job; None when it is in no queue, or they cannot be read."""
    if QUEUE not in job["metadata"].get("labels", {}):
        return None
    try:
        found = cluster.list_objects(WORKLOADS)
    except UnknownKind:
        return []
    except FathomError as error:
        unseen.append(f"{WORKLOADS}: {error.message}")
        return None
    uid = job["metadata"].get("uid")
    return [one for one in found if any(o.get("uid") == uid for o in one["metadata"].get("ownerReferences", ()))]


def reasons(seen: Observed, *, silent: bool = False) -> list[Reason]:
    """Return every reason once, decisive ones first.

    ``silent`` means that the operator has had time enough to report a status.
    """
    found: list[Reason] = []
    for reason in (*of_job(seen, silent), *of_events(seen.events), *of_pods(seen)):
        if reason not in found:
            found.append(reason)
    if not found and seen.unseen:
        return [
            Reason(f"not known: {line}", "ask who runs the cluster for get, list and watch") for line in seen.unseen
        ]
    return found


def of_job(seen: Observed, silent: bool) -> Iterator[Reason]:
    """Yield reasons of the job itself: its queue, a manual suspension, an operator that does not act."""
    spec, status = seen.job["spec"], seen.job.get("status") or {}
    queue = seen.job["metadata"].get("labels", {}).get(QUEUE)
    if spec.get("suspend") and queue:
        yield from of_queue(queue, seen.workloads)
    elif spec.get("suspend"):
        name = seen.job["metadata"]["name"]
        yield Reason(
            "somebody has suspended it, and it is in no queue",
            f"""kubectl patch rayjob {name} --type merge -p '{{"spec":{{"suspend":false}}}}'""",
        )
    elif silent and not status.get("jobDeploymentStatus"):
        yield Reason(
            "KubeRay's operator has not touched it",
            "is it up (kubectl -n ray-system get pods), and does it watch this namespace (its value watchNamespace)?",
        )


def of_queue(queue: str, workloads: Sequence[Object] | None) -> Iterator[Reason]:
    """Yield Kueue's reasons for not admitting the job."""
    if workloads is None:
        return
    if not workloads:
        yield Reason(
            f"queue {queue!r}: Kueue has made no workload of it",
            "is Kueue installed, with ray.io/rayjob among its integrations? Without it: training.queue= in the values",
        )
    for workload in workloads:
        conditions = {c["type"]: c for c in (workload.get("status") or {}).get("conditions", ())}
        if conditions.get("Admitted", {}).get("status") == "True":
            continue
        told = conditions.get("Evicted") or conditions.get("QuotaReserved") or conditions.get("Admitted") or {}
        said = str(told.get("message") or "nothing yet")
        missing = "doesn't exist" in said or "not found" in said or "inactive" in said
        yield Reason(
            f"queue {queue!r} has not admitted it: {said}",
            f"kubectl get localqueues,clusterqueues: is {queue!r} there and active?"
            if missing
            else "it starts when others end; or ask for less (--workers, --gpus), or for a higher priority",
        )


def of_events(events: Sequence[Object]) -> Iterator[Reason]:
    """Yield reasons why pods could not be created; missing pods have no status to inspect."""
    for event in events:
        said, reason = str(event.get("message") or ""), str(event.get("reason") or "")
        if event.get("type") != "Warning":
            continue
        if "exceeded quota" in said:
            yield Reason(f"the namespace's quota is used up: {after(said, 'exceeded quota')}", MORE_QUOTA)
        elif "violates PodSecurity" in said:
            yield Reason(f"Pod Security refuses its pods: {after(said, 'violates PodSecurity')}", OWN_TEMPLATE)
        elif reason.startswith(("FailedCreate", "FailedToCreate")):
            yield missing_thing(said) or Reason(f"its pods cannot be made: {said[:300]}", OWN_TEMPLATE)
        elif reason == "FailedMount":
            yield missing_thing(said) or Reason(f"a volume cannot be mounted: {said[:300]}", "kubectl describe pod")


def of_pods(seen: Observed) -> Iterator[Reason]:
    """Yield reasons of existing pods that do not run."""
    scaling = {
        str((e.get("involvedObject") or {}).get("name")): e for e in seen.events if "Scale" in str(e.get("reason"))
    }
    for pod in seen.pods:
        status = pod.get("status") or {}
        if status.get("phase") not in ("Pending", "Unknown", "Running"):
            continue
        for condition in status.get("conditions", ()):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                yield from unschedulable(condition, scaling.get(pod["metadata"]["name"]))
        yield from of_lost_node(pod, seen.events)
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            waiting = (container.get("state") or {}).get("waiting")
            if waiting:
                yield from of_container(container, waiting, pod)


def of_lost_node(pod: Object, events: Sequence[Object]) -> Iterator[Reason]:
    """Yield the reason of a pod whose node has gone silent: its last status still says that it runs."""
    name = pod["metadata"]["name"]
    held = {c.get("type"): c for c in (pod.get("status") or {}).get("conditions", ())}
    conditions = {kind: condition.get("status") for kind, condition in held.items()}
    # Events are kept for an hour. Who deletes pods of a lost node says so on the pod, which then stays with its volume.
    is_evicted = held.get("DisruptionTarget", {}).get("reason") == "DeletionByTaintManager"
    is_lost = is_evicted or any(e.get("reason") == "NodeNotReady" and about(e, {name}, "") for e in events)
    if is_lost and conditions.get("Ready") == "False":
        node = (pod.get("spec") or {}).get("nodeName") or "?"
        yield Reason(
            f"node {node} of pod {name} is not ready",
            f"kubectl describe node {node}. If it does not come back: kubectl delete node {node}, so that its pods are "
            "made elsewhere at once, also those with a volume",
        )


def of_container(container: Mapping[str, Any], waiting: Mapping[str, Any], pod: Object) -> Iterator[Reason]:
    """Yield the reason why a container does not start."""
    reason, said = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    image = container.get("image", "?")
    if reason in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"):
        refused = any(word in said.lower() for word in ("denied", "unauthorized", "forbidden"))
        yield Reason(
            f"image {image} cannot be pulled ({reason}{f': {said[:200]}' if said else ''})",
            "the registry wants a login: global.imagePullSecrets in the values"
            if refused
            else "is it pushed, and are image.registry and image.tag right? make images builds it",
        )
    elif reason == "CreateContainerConfigError":
        yield missing_thing(said) or Reason(f"its environment cannot be made: {said}", "kubectl describe pod")
    elif reason in ("CrashLoopBackOff", "RunContainerError", "CreateContainerError"):
        name = pod["metadata"]["name"]
        yield Reason(f"pod {name} does not stay up ({reason}: {said[:200]})", f"kubectl logs {name} --previous")


def missing_thing(said: str) -> Reason | None:
    """Return the reason for a missing Secret, ConfigMap, account or key, None if there is none."""
    if key := KEY.search(said):
        return Reason(
            f"{key[2]} {key[3].split('/')[-1]} has no key {key[1]}", "add the key; docs/operations.md, Install"
        )
    if thing := MISSING.search(said):
        return Reason(
            f"{thing[1]} {thing[2].split('/')[-1]} is missing in the namespace",
            "make it, or correct its name in the values (objectStore.existingSecret, nats.authSecret, nats.tlsSecret)",
        )
    return None


def after(said: str, mark: str) -> str:
    """Return the text after a mark, shortened."""
    return said.partition(mark)[2].lstrip(": ")[:300]


MORE_QUOTA = "ask for less (--workers, --gpus), or have the ResourceQuota raised: kubectl describe quota"
OWN_TEMPLATE = "the chart's pods keep the restricted profile: is the template changed, or a webhook in between?"
