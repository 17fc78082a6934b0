"""Reading of what kube-scheduler says of a pod that no node takes, each reason with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fathom.operations.cluster.api import Object


@dataclass(frozen=True)
class Reason:
    """A reason why a pod waits, and its remedy."""

    what: str
    remedy: str


# What kube-scheduler composes of the reasons of its plugins: "0/N nodes are available: REASON." where one of them
# refuses the pod before it looks at nodes, else "0/N nodes are available: COUNT REASON, COUNT REASON.", behind which
# stands what preemption would bring.
NODES = re.compile(r"(\d+) (.+)")
# Taints that the cluster puts on a node by itself, as long as something is wrong with it.
UNFIT = re.compile(r"node\.kubernetes\.io/([\w-]+)")
TAINT = re.compile(r"\{([^}]*)\}")
ELSEWHERE = "free the node or zone where it is: kubectl get pv -o wide"
CLOSED = "kubectl uncordon, when its maintenance is over"
PLACED = "compare with kubectl get nodes -L; of trainings training.job.placement and headPlacement count first"
CLAIMED = "kubectl describe pvc; is there a default StorageClass, and does its provisioner run?"

# Words of the reasons that the plugins of kube-scheduler give, with what each means here. The first that stands in a
# reason counts, so that narrower ones come first: "PersistentVolume's node affinity" is no affinity of the pod.
REASONS: tuple[tuple[str, str, str], ...] = (
    # NodeResourcesFit
    ("Insufficient nvidia.com/gpu", "{nodes} without a free GPU",
     "wait for others to end, add GPU nodes, or ask for fewer (--workers, --gpus). "
     "No GPU at all? The device plugin must run on the GPU nodes"),
    ("Insufficient ", "{nodes} without enough {rest}",
     "add nodes, or ask for less in the values: resources of the service; of trainings training.job.resources and "
     "headResources"),
    ("Too many pods", "{nodes} with as many pods as it may have", "add nodes, or raise the kubelet's maxPods"),
    # NodeUnschedulable, and TaintToleration where it comes first
    ("were unschedulable", "{nodes} closed for new pods", CLOSED),
    ("node.kubernetes.io/unschedulable", "{nodes} closed for new pods", CLOSED),
    # VolumeBinding, in both of its wordings, and VolumeZone
    ("volume node affinity conflict", "{nodes} that the pod's volume cannot reach", ELSEWHERE),
    ("PersistentVolume's node affinity", "{nodes} that the pod's volume cannot reach", ELSEWHERE),
    ("no available volume zone", "{nodes} that the pod's volume cannot reach", ELSEWHERE),
    ("VolumeBinding", "{nodes} that the pod's volume cannot reach", ELSEWHERE),
    ("find available persistent volumes", "{nodes} without a volume for the pod's claim", CLAIMED),
    ("enough free storage", "{nodes} without room for the pod's volume",
     "free some, or ask for a smaller volume in the values (nats.storage.size, services.memory.volume.size)"),
    ("non-existent p", "a volume of the pod is gone: {said}",
     "make the claim anew, then restore: docs/operations.md, Back up and restore"),
    ("unbound immediate PersistentVolumeClaims", "a volume is not bound", CLAIMED),
    ("persistentvolumeclaim ", "a volume cannot be used: {said}", "kubectl get pvc: make it, or wait for its end"),
    # NodeVolumeLimits, VolumeRestrictions
    ("max volume count", "{nodes} with as many volumes as it may have", "add nodes"),
    ("ReadWriteOncePod", "another pod has the volume", "kubectl describe pvc says which; it must end first"),
    # InterPodAffinity, PodTopologySpread
    ("anti-affinity rules", "{nodes} with a pod beside which this one may not run",
     "add nodes, or loosen pod.affinity in the values"),
    ("topology spread constraints", "{nodes} on which pods would be spread less evenly than asked for",
     "add nodes: the chart asks for none that binds, the cluster does"),
    # NodeAffinity, also as the profile of the scheduler adds it, and by its name where it leaves nodes out beforehand
    ("affinity", "{nodes} that pod.nodeSelector or pod.affinity excludes", PLACED),
    ("NodeAffinity", "{nodes} that pod.nodeSelector or pod.affinity excludes", PLACED),
)  # fmt: skip


def unschedulable(condition: Mapping[str, Any], scaling: Object | None) -> Iterator[Reason]:
    """Yield the scheduler's reasons for a pod's condition PodScheduled, one per part of its message."""
    said = str(condition.get("message") or "")
    if condition.get("reason") == "SchedulingGated":
        yield Reason("a scheduling gate holds its pods", "whoever set the gate (often a queue) must take it away")
        return
    if scaling is not None and scaling.get("reason") == "TriggeredScaleUp":
        yield Reason("no node has room; the autoscaler is adding one", "wait: minutes, as a rule")
        return
    # Reasons end with their sentence; since 1.34 another word than "preemption" may come next. Commas also stand inside
    # of a part, so that it is cut only before a number.
    sentence = re.split(r"\.(?:\s|$)|preemption:", said.partition("nodes are available:")[2], maxsplit=1)[0].strip()
    parts = [part for part in map(NODES.fullmatch, re.split(r",\s+(?=\d)", sentence)) if part]
    for part in parts:
        yield read_reason(int(part[1]), part[2])
    if parts:
        return
    if known := find_reason("all nodes", sentence):
        yield known
    else:
        yield Reason(f"no node takes its pods: {said[:300] or 'nothing is said'}", "kubectl describe pod")


def read_reason(count: int, said: str) -> Reason:
    """Return the reason for one part of the scheduler's message; one that is not known stands as it is."""
    nodes = "1 node" if count == 1 else f"{count} nodes"
    if known := find_reason(nodes, said):
        return known
    if trouble := UNFIT.search(said):
        return Reason(
            f"{nodes} with something wrong: {trouble[1]}",
            "kubectl describe nodes; pods go there again when it is over, and to other nodes at once",
        )
    if "taint" in said:
        # Since 1.35, and in later patches of 1.34, it does not say which.
        taint = TAINT.search(said)
        named = f": {taint[1].strip().rstrip(':')}" if taint else ""
        return Reason(
            f"{nodes} with a taint that its pods do not tolerate{named}",
            "add it to pod.tolerations in the values, of a training to training.job.placement, if they may run there"
            + ("" if taint else "; kubectl describe nodes | grep Taints"),
        )
    return Reason(f"{nodes}: {said.removeprefix('node(s) ')}", "kubectl describe nodes")


def find_reason(nodes: str, said: str) -> Reason | None:
    """Return what a plugin's reason means, None for one that the table does not have."""
    for words, what, remedy in REASONS:
        _, found, rest = said.partition(words)
        if found:
            return Reason(what.format(nodes=nodes, rest=rest, said=said), remedy)
    return None
