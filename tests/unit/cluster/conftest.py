"""A cluster with the release that deploy/k8s/base describes, and the operator's kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fathom.core.retry import RetryPolicy
from fathom.operations.cluster.api import Cluster, Patience, connect
from fathom.operations.cluster.following import Pace
from tests.unit.cluster.apiserver import FakeApiServer, Object
from tests.unit.cluster.release_objects import APPS, CORE, LABELS, OPERATOR, keep_well, operator, secret

BASE = Path(__file__).parents[3] / "deploy" / "k8s" / "base"
PLACES = {
    "Deployment": "/apis/apps/v1", "StatefulSet": "/apis/apps/v1", "ConfigMap": "/api/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1",
}  # fmt: skip
NAMESPACE = "research"


def release() -> Iterator[Object]:
    """Return what kubectl would apply."""
    for path in sorted(BASE.glob("*.yaml")):
        if path.name not in ("kustomization.yaml", "namespace.yaml"):
            yield from yaml.load_all(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def plural(kind: str) -> str:
    return "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"


@pytest.fixture(scope="session")
def release_text() -> str:
    """Return the release as text: each test gets objects of its own."""
    return json.dumps([document for document in release() if document["kind"] in PLACES])


@pytest.fixture
def server(release_text: str) -> Iterator[FakeApiServer]:
    state = FakeApiServer(
        groups={
            "ray.io/v1": ["rayjobs", "rayclusters", "rayservices"],
            "apps/v1": ["deployments", "statefulsets", "daemonsets"],
            "networking.k8s.io/v1": ["networkpolicies"],
        }
    )
    for document in json.loads(release_text):
        place = f"{PLACES[document['kind']]}/namespaces/{NAMESPACE}/{plural(document['kind'])}"
        state.put(f"{place}/{document['metadata']['name']}", document)
    with state.running():
        yield state


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path, NAMESPACE)


@pytest.fixture
def cluster(kubeconfig: Path) -> Cluster:
    """No wait between attempts."""
    return connect(kubeconfig=kubeconfig, patience=Patience(retry=RetryPolicy(attempts=3, first_delay_s=0.0)))


@pytest.fixture
def pace() -> Pace:
    return Pace(
        window_s=1.0, silence_s=1.0, retry=RetryPolicy(attempts=4, first_delay_s=0.0), deadline_s=60.0, patience_s=0.0
    )


@pytest.fixture
def sound(server: FakeApiServer) -> FakeApiServer:
    """Return a cluster on which nothing is wrong; each case spoils one thing."""
    server.objects["/api/v1/namespaces/research"] = {
        "metadata": {"name": "research", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    }
    for path, content in list(server.objects.items()):
        if path.startswith((f"{APPS}/deployments", f"{APPS}/statefulsets")):
            content["status"] = {"readyReplicas": content["spec"].get("replicas", 1), "observedGeneration": 1}
            content["metadata"]["generation"] = 1
    claim = {"metadata": {"labels": dict(LABELS)}, "spec": {"storageClassName": "fast"}, "status": {"phase": "Bound"}}
    server.put(f"{CORE}/persistentvolumeclaims/data-fathom-memory-0", claim)
    secret(server, "fathom-object-store", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    secret(server, "fathom-gateway", "token")
    secret(server, "fathom-identity", "signing.pem", "public.pem")
    server.put(OPERATOR, operator("v1.7.0"))
    server.put("/apis/apps/v1/namespaces/kube-system/daemonsets/cilium", {"metadata": {"name": "cilium"}})
    keep_well(server)
    return server
