"""Objects as clusters send them: statuses of a RayJob in its order, pods that do not start, events, Kueue's workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.cluster.apiserver import FakeApiServer, Object

JOBS = "/apis/ray.io/v1/namespaces/research/rayjobs"
CLUSTERS = "/apis/ray.io/v1/namespaces/research/rayclusters"
PODS = "/api/v1/namespaces/research/pods"
EVENTS = "/api/v1/namespaces/research/events"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/research/workloads"
RAY = "train-grpo-a1-x7k2p"


def becomes(deployment: str, job: str = "", **more: Any) -> Callable[[Object], None]:
    """A change of the status as KubeRay makes it."""

    def change(content: Object) -> None:
        content["status"] = {
            "jobDeploymentStatus": deployment, "jobStatus": job, "rayClusterName": RAY,
            "dashboardURL": f"{RAY}-head-svc.research.svc.cluster.local:8265", **more,
        }  # fmt: skip

    return change


def ray_failed(code: int, *lines: str) -> str:
    """Return what Ray writes into a job's message."""
    return (
        f"Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):\n"
        + "\n".join(lines)
    )


def submitter(name: str, phase: str = "Running") -> Object:
    labels = {"job-name": name, "batch.kubernetes.io/job-name": name, "app.kubernetes.io/component": "trainer"}
    return {
        "metadata": {"name": f"{name}-t5qzc", "labels": labels, "creationTimestamp": "2026-11-21T17:00:00Z"},
        "status": {"phase": phase},
    }


def ray_pod(kind: str, **status: Any) -> Object:
    labels = {"ray.io/cluster": RAY, "ray.io/node-type": kind, "ray.io/is-ray-node": "yes"}
    return {"metadata": {"name": f"{RAY}-{kind}-b6xq4", "labels": labels}, "status": {"phase": "Pending", **status}}


def unschedulable(message: str) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]


def waiting(reason: str, message: str = "", image: str = "registry.example.com/fathom-trainer:1.2.3") -> list[Object]:
    return [{"name": "ray-worker", "image": image, "state": {"waiting": {"reason": reason, "message": message}}}]


def event(subject: str, reason: str, message: str, kind: str = "RayCluster", type: str = "Warning") -> Object:
    return {
        "involvedObject": {"kind": kind, "name": subject}, "type": type, "reason": reason, "message": message,
        "lastTimestamp": "2026-11-21T17:00:05Z", "count": 3,
    }  # fmt: skip


def put_event(server: FakeApiServer, name: str, content: Object) -> None:
    server.put(f"{EVENTS}/{name}", content)


def workload(uid: str, *conditions: tuple[str, str, str, str]) -> Object:
    """(type, status, reason, message) of each condition."""
    return {
        "metadata": {"name": "rayjob-train-grpo-a1-5cf1b", "ownerReferences": [{"kind": "RayJob", "uid": uid}]},
        "status": {
            "conditions": [dict(zip(("type", "status", "reason", "message"), c, strict=True)) for c in conditions]
        },
    }


def lines(*texts: str, start: int = 0) -> list[str]:
    """Log lines behind the times that the kubelet sets before them."""
    return [f"2026-11-21T17:00:{start + i:02d}.000000000Z {text}" for i, text in enumerate(texts)]
