"""Test why a job waits: from objects as clusters send them to words that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.operations.cluster.api import RAYJOBS, Cluster
from fathom.operations.cluster.following import Follower, Pace
from fathom.operations.cluster.pending import QUEUE, observe, reasons
from fathom.operations.cluster.scheduling import Reason
from tests.unit.cluster.apiserver import Act, FakeApiServer, Object
from tests.unit.cluster.recorded import (
    CLUSTERS,
    EVENTS,
    JOBS,
    PODS,
    RAY,
    WORKLOADS,
    becomes,
    event,
    put_event,
    ray_pod,
    unschedulable,
    waiting,
    workload,
)  # fmt: skip

NAME = "train-grpo-a1"
Around = Callable[[FakeApiServer], None]


@pytest.fixture
def job(server: FakeApiServer) -> Object:
    content: Object = {"metadata": {"name": NAME, "labels": {}}, "spec": {"suspend": False}}
    becomes("Initializing")(content)
    server.put(f"{CLUSTERS}/{RAY}", {"metadata": {"name": RAY}})
    return server.put(f"{JOBS}/{NAME}", content)


def find_reasons(cluster: Cluster, *, silent: bool = False) -> list[Reason]:
    return reasons(observe(cluster, cluster.read(RAYJOBS, NAME)), silent=silent)


def pod(kind: str = "worker", **status: object) -> Around:
    return lambda server: void(server.put(f"{PODS}/{RAY}-{kind}-b6xq4", ray_pod(kind, **status)))


def put_reason(subject: str, reason: str, message: str, **more: str) -> Around:
    return lambda server: put_event(server, f"{subject}.{reason}", event(subject, reason, message, **more))


def void(_: object) -> None:
    return


def put_pod_of_lost_node(server: FakeApiServer, ready: str) -> None:
    """Put a running pod with the node controller's event of when its node went silent."""
    content = ray_pod("worker", phase="Running", conditions=[{"type": "Ready", "status": ready}])
    server.put(f"{PODS}/{RAY}-worker-b6xq4", content | {"spec": {"nodeName": "worker-2"}})
    put_reason(f"{RAY}-worker-b6xq4", "NodeNotReady", "Node is not ready", kind="Pod")(server)


GPU = (
    "0/5 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: }, 4 Insufficient nvidia.com/gpu. "
    "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, 4 No preemption victims found."
)
CASES: dict[str, tuple[Around, list[tuple[str, str]]]] = {
    "no gpu, and a taint": (
        pod(conditions=unschedulable(GPU)),
        [("1 node with a taint that its pods do not tolerate: nvidia.com/gpu", "pod.tolerations"),
         ("4 nodes without a free GPU", "device plugin")],
    ),
    "no memory": (
        pod(conditions=unschedulable("0/2 nodes are available: 2 Insufficient memory. preemption: none.")),
        [("2 nodes without enough memory", "training.job.resources")],
    ),
    "no memory, as 1.36 says it": (
        pod(conditions=unschedulable("0/1 nodes are available: 1 Insufficient memory. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")),
        [("1 node without enough memory", "training.job.resources")],
    ),
    "a taint without a name, as 1.34 and newer say it": (
        pod(conditions=unschedulable("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.")),
        [("1 node with a taint that its pods do not tolerate", "grep Taints"), ("2 nodes without enough cpu", "add nodes")],
    ),
    "a name of a taint, and claims": (
        pod(conditions=unschedulable("0/2 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 1 node(s) had untolerated taint {spray: mortein}. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")),
        [("tolerate: node-role.kubernetes.io/control-plane", "pod.tolerations"), ("tolerate: spray: mortein", "pod.tolerations")],
    ),
    "no gpu, as 1.34 says it": (
        pod(conditions=unschedulable("0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/5 nodes are available: 1 No preemption victims found for incoming pod, 4 Preemption is not helpful for scheduling.")),
        [("1 node without a free GPU", "device plugin"), ("4 nodes that pod.nodeSelector or pod.affinity excludes", "get nodes")],
    ),
    "without a word on preemption": (
        pod(conditions=unschedulable("0/39 nodes are available: 1 Insufficient cpu, 34 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector.")),
        [("1 node without enough cpu", "add nodes"), ("34 nodes with a taint", "grep Taints"), ("4 nodes that", "get nodes")],
    ),
    "full, closed and far from its volume": (
        pod(conditions=unschedulable("0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 node(s) had volume node affinity conflict. preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.")),
        [("1 node with as many pods", "maxPods"), ("1 node closed", "uncordon"), ("2 nodes that the pod's volume", "get pv")],
    ),
    "a node that is not ready, and one that is closed": (
        pod(conditions=unschedulable("0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }, 1 Insufficient cpu.")),
        [("1 node with something wrong: not-ready", "describe nodes"), ("1 node closed", "uncordon"), ("1 node without enough cpu", "add nodes")],
    ),
    "a node that went away with a pod": (
        lambda server: put_pod_of_lost_node(server, "False"),
        [(f"node worker-2 of pod {RAY}-worker-b6xq4 is not ready", "kubectl delete node worker-2")],
    ),
    "a node that came back": (lambda server: put_pod_of_lost_node(server, "True"), []),
    "wrong nodes": (
        pod(conditions=unschedulable("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")),
        [("3 nodes that pod.nodeSelector or pod.affinity excludes", "get nodes")],
    ),
    "a volume": (
        pod(conditions=unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")),
        [("a volume is not bound", "default StorageClass")],
    ),
    "a scheduling gate": (
        pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": ""}]),
        [("a scheduling gate holds", "gate")],
    ),
    "an image that is not there": (
        pod(containerStatuses=waiting("ImagePullBackOff", 'Back-off pulling image "x": not found')),
        [("image registry.example.com/fathom-trainer:1.2.3 cannot be pulled (ImagePullBackOff", "image.tag")],
    ),
    "an image behind a login": (
        pod(containerStatuses=waiting("ErrImagePull", "pull access denied, repository does not exist")),
        [("cannot be pulled (ErrImagePull", "imagePullSecrets")],
    ),
    "a secret that is missing": (
        pod("head", containerStatuses=waiting("CreateContainerConfigError", 'secret "fathom-object-store" not found')),
        [("secret fathom-object-store is missing", "objectStore.existingSecret")],
    ),
    "a key that is missing": (
        pod("head", containerStatuses=waiting("CreateContainerConfigError", "couldn't find key user in Secret research/nats-login")),
        [("Secret nats-login has no key user", "add the key")],
    ),
    "a head that falls over": (
        pod("head", phase="Running", containerStatuses=waiting("CrashLoopBackOff", "back-off 40s restarting failed container")),
        [(f"pod {RAY}-head-b6xq4 does not stay up (CrashLoopBackOff", f"kubectl logs {RAY}-head-b6xq4 --previous")],
    ),
    "a quota": (
        put_reason(RAY, "FailedToCreateWorkerPod", 'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, used: 8, limited: 8'),
        [("quota is used up: gpus, requested: requests.nvidia.com/gpu=4, used: 8", "ResourceQuota")],
    ),
    "pod security": (
        put_reason(RAY, "FailedToCreateHeadPod", 'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'),
        [('Pod Security refuses its pods: "restricted:latest": runAsNonRoot != true', "restricted profile")],
    ),
    "an account": (
        put_reason(NAME, "FailedCreate", 'error looking up service account research/fathom-trainer: serviceaccount "fathom-trainer" not found', kind="Job"),
        [("serviceaccount fathom-trainer is missing", "make it")],
    ),
    "a volume of a secret": (
        put_reason(f"{RAY}-head-b6xq4", "FailedMount", 'MountVolume.SetUp failed for volume "nats-ca" : secret "nats-tls" not found', kind="Pod"),
        [("secret nats-tls is missing", "nats.tlsSecret")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_job_waits_for_is_said_with_what_mends_it(
    server: FakeApiServer, cluster: Cluster, job: Object, case: str
) -> None:
    around, wanted = CASES[case]
    around(server)
    said = find_reasons(cluster)
    assert len(said) == len(wanted), said
    for reason, (what, remedy) in zip(said, wanted, strict=True):
        assert what in reason.what
        assert remedy in reason.remedy


def test_the_autoscaler_is_at_work(server: FakeApiServer, cluster: Cluster, job: Object) -> None:
    pod(conditions=unschedulable(GPU))(server)
    put_reason(
        f"{RAY}-worker-b6xq4", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 1->2}]", kind="Pod", type="Normal"
    )(server)
    (reason,) = find_reasons(cluster)
    assert "autoscaler is adding one" in reason.what


def test_events_of_others_say_nothing(server: FakeApiServer, cluster: Cluster, job: Object) -> None:
    put_reason("another-job", "FailedCreate", "exceeded quota: x")(server)
    assert find_reasons(cluster) == []


def test_a_queue_that_does_not_admit_is_quoted(server: FakeApiServer, cluster: Cluster, job: Object) -> None:
    job["metadata"]["labels"][QUEUE] = "training"
    job["spec"]["suspend"] = True
    (reason,) = find_reasons(cluster)
    assert "Kueue has made no workload" in reason.what
    server.groups["kueue.x-k8s.io/v1beta1"] = ["workloads"]
    said = "couldn't assign flavors to pod set learners: insufficient unused quota for nvidia.com/gpu in flavor a100, 4 more needed"
    server.put(f"{WORKLOADS}/x", workload("someone-else", ("QuotaReserved", "False", "Pending", "not ours")))
    server.put(f"{WORKLOADS}/w", workload(job["metadata"]["uid"], ("QuotaReserved", "False", "Pending", said)))
    (reason,) = find_reasons(cluster)
    assert "4 more needed" in reason.what
    assert "--gpus" in reason.remedy
    server.put(
        f"{WORKLOADS}/w",
        workload(
            job["metadata"]["uid"], ("QuotaReserved", "False", "Inadmissible", "LocalQueue training doesn't exist")
        ),
    )
    (reason,) = find_reasons(cluster)
    assert "kubectl get localqueues" in reason.remedy


def test_a_job_suspended_by_hand_is_told_how_to_go_on(server: FakeApiServer, cluster: Cluster, job: Object) -> None:
    job["spec"]["suspend"] = True
    (reason,) = find_reasons(cluster)
    assert reason.remedy.startswith(f"kubectl patch rayjob {NAME}")


def test_an_operator_that_says_nothing_is_named_after_a_while(
    server: FakeApiServer, cluster: Cluster, job: Object
) -> None:
    del job["status"]
    assert find_reasons(cluster) == []
    (reason,) = find_reasons(cluster, silent=True)
    assert "operator has not touched it" in reason.what


def test_what_may_not_be_seen_is_said_and_the_rest_is_explained(
    server: FakeApiServer, cluster: Cluster, job: Object
) -> None:
    server.denied |= {("list", "events"), ("get", "rayclusters")}
    said = find_reasons(cluster)
    assert {"events" in reason.what or "rayclusters" in reason.what for reason in said} == {True}
    assert all("get, list and watch" in reason.remedy for reason in said)
    pod(conditions=unschedulable(GPU))(server)
    assert [reason.what for reason in find_reasons(cluster)][-1] == "4 nodes without a free GPU"


def test_a_reason_is_said_once_and_again_when_it_changes(
    server: FakeApiServer, cluster: Cluster, job: Object, pace: Pace, tmp_path: Path
) -> None:
    pod(conditions=unschedulable(GPU))(server)

    def free_pod(content: Object) -> None:
        pod(conditions=unschedulable("0/5 nodes are available: 5 Insufficient cpu."))(server)
        becomes("Initializing", failed=1)(content)

    server.acts.extend([Act(), Act(), Act(free_pod), Act(), Act(becomes("Complete", "SUCCEEDED"))])
    said: list[str] = []
    assert Follower(cluster, NAME, said.append, said.append, pace).run().status == 0
    assert [line for line in said if "waits:" in line] == [
        "  waits: 1 node with a taint that its pods do not tolerate: nvidia.com/gpu",
        "  waits: 4 nodes without a free GPU",
        "  waits: 5 nodes without enough cpu",
    ]
    assert any("1 failed attempt" in line for line in said)
    assert server.asked_for("GET", EVENTS)
