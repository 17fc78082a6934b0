"""Test the reading of kube-scheduler's sentences: the reasons of its plugins, as Kubernetes 1.31 to 1.37 join them."""

from __future__ import annotations

import pytest

from fathom.operations.cluster.scheduling import unschedulable
from tests.unit.cluster.recorded import unschedulable as conditions

ENDS = {
    "1.31 to 1.33": ". preemption: 0/{all} nodes are available: {all} Preemption is not helpful for scheduling.",
    "1.34 and newer": (
        ". no new claims to deallocate, preemption: 0/{all} nodes are available: "
        "{all} No preemption victims found for incoming pod."
    ),
    "preemption is off": ".",
}
"""Endings that follow the reasons: plugins that look for room behind them, in two wordings, or none of them."""

# The plugins' own constants and formats, each with the meaning and the remedy that it has here.
FAMILIES: dict[str, tuple[str, str]] = {
    "Insufficient cpu": ("without enough cpu", "training.job.resources"),
    "Insufficient ephemeral-storage": ("without enough ephemeral-storage", "training.job.resources"),
    "Insufficient hugepages-2Mi": ("without enough hugepages-2Mi", "training.job.resources"),
    "Insufficient nvidia.com/gpu": ("without a free GPU", "device plugin"),
    "Too many pods": ("as many pods as it may have", "maxPods"),
    "node(s) were unschedulable": ("closed for new pods", "uncordon"),
    "node(s) had untolerated taint {node.kubernetes.io/unschedulable: }": ("closed for new pods", "uncordon"),
    "node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }": ("wrong: disk-pressure", "describe nodes"),
    "node(s) had untolerated taint {node.kubernetes.io/unreachable: }": ("wrong: unreachable", "describe nodes"),
    "node(s) had untolerated taint {dedicated: gpu}": ("tolerate: dedicated: gpu", "pod.tolerations"),
    "node(s) had untolerated taint(s)": ("a taint that its pods do not tolerate", "grep Taints"),
    "node(s) had volume node affinity conflict": ("that the pod's volume cannot reach", "get pv"),
    "node(s) didn't match PersistentVolume's node affinity": ("that the pod's volume cannot reach", "get pv"),
    "node(s) had no available volume zone": ("that the pod's volume cannot reach", "get pv"),
    "node(s) didn't satisfy plugin(s) [VolumeBinding]": ("that the pod's volume cannot reach", "get pv"),
    "node(s) didn't find available persistent volumes to bind": ("without a volume for the pod's claim", "StorageClass"),
    "node(s) did not have enough free storage": ("without room for the pod's volume", "nats.storage.size"),
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": ("a volume of the pod is gone", "restore"),
    "node(s) exceed max volume count": ("as many volumes as it may have", "add nodes"),
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode": ("another pod has the volume", "pvc"),
    "node(s) didn't match pod anti-affinity rules": ("a pod beside which this one may not run", "pod.affinity"),
    "node(s) didn't satisfy existing pods anti-affinity rules": ("a pod beside which this one may not run", "pod.affinity"),
    "node(s) didn't match pod topology spread constraints": ("spread less evenly", "add nodes"),
    "node(s) didn't match pod topology spread constraints (missing required label)": ("spread less evenly", "add nodes"),
    "node(s) didn't match Pod's node affinity/selector": ("that pod.nodeSelector or pod.affinity excludes", "get nodes"),
    "node(s) didn't match scheduler-enforced node affinity": ("that pod.nodeSelector or pod.affinity excludes", "get nodes"),
    "node(s) didn't match pod affinity rules": ("that pod.nodeSelector or pod.affinity excludes", "get nodes"),
    "node(s) didn't satisfy plugin(s) [NodeAffinity]": ("that pod.nodeSelector or pod.affinity excludes", "get nodes"),
    "node(s) didn't have free ports for the requested pod ports": ("didn't have free ports", "describe nodes"),
}  # fmt: skip
BEFOREHAND: dict[str, tuple[str, str]] = {
    "pod has unbound immediate PersistentVolumeClaims": ("a volume is not bound", "StorageClass"),
    'persistentvolumeclaim "data-fathom-memory-0" not found': ('"data-fathom-memory-0" not found', "get pvc"),
    'persistentvolumeclaim "data-fathom-nats-0" is being deleted': ("is being deleted", "get pvc"),
    'persistentvolumeclaim "a" bound to non-existent persistentvolume "pvc-1"': ("a volume of the pod is gone", "restore"),
    "node(s) didn't satisfy plugin NodeAffinity": ("all nodes that pod.nodeSelector", "get nodes"),
    "node(s) didn't satisfy plugin(s) [NodeAffinity VolumeBinding] simultaneously": ("volume cannot reach", "get pv"),
    "cannot allocate all claims": ("no node takes its pods: 0/3 nodes are available: cannot allocate", "describe pod"),
}  # fmt: skip
"""Reasons of plugins that refuse a pod before any node is looked at: without a number of nodes."""


def read(message: str) -> list[tuple[str, str]]:
    (condition,) = conditions(message)
    return [(reason.what, reason.remedy) for reason in unschedulable(condition, None)]


@pytest.mark.parametrize("version", ENDS)
@pytest.mark.parametrize("words", FAMILIES)
def test_the_reason_of_each_plugin_is_read_in_the_sentence_of_each_version(words: str, version: str) -> None:
    """A volume's affinity was read as that of the pod since Kubernetes calls it so."""
    wanted, remedy = FAMILIES[words]
    message = f"0/5 nodes are available: 2 Insufficient memory, 3 {words}{ENDS[version].format(all=5)}"
    memory, (what, mends) = read(message)
    assert memory[0] == "2 nodes without enough memory"
    assert wanted in what
    assert remedy in mends
    assert "preemption" not in what


@pytest.mark.parametrize("version", ENDS)
@pytest.mark.parametrize("named", ["Insufficient memory", "Too many pods", "node(s) had untolerated taint(s)"])
def test_a_reason_ends_with_its_sentence(named: str, version: str) -> None:
    """The scheduler of 1.36 says more behind it, which stood in the reason, or made it an unknown one."""
    (alone,) = read(f"0/5 nodes are available: 5 {named}")
    assert read(f"0/5 nodes are available: 5 {named}{ENDS[version].format(all=5)}") == [alone]


@pytest.mark.parametrize("version", ENDS)
@pytest.mark.parametrize("words", BEFOREHAND)
def test_a_reason_without_a_number_of_nodes_is_read(words: str, version: str) -> None:
    wanted, remedy = BEFOREHAND[words]
    ((what, mends),) = read(f"0/3 nodes are available: {words}{ENDS[version].format(all=3)}")
    assert wanted in what
    assert remedy in mends


def test_a_cluster_without_nodes_is_said_as_it_is() -> None:
    assert read("no nodes available to schedule pods") == [
        ("no node takes its pods: no nodes available to schedule pods", "kubectl describe pod")
    ]
    assert read("") == [("no node takes its pods: nothing is said", "kubectl describe pod")]
