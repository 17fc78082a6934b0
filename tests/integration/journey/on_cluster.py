"""The journey on a real cluster, in a namespace of its own that is deleted in the end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from deploy.kind import make_gateway_token, make_identity, make_store_login, write_secret
from tests.chart.rendering import CHART
from tests.integration.journey.operator import CommandFailed, Load, Operator
from tests.integration.journey.steps import Journal, NotSeen, Record

COMPONENTS = ("planner", "retrieval", "sandbox", "nats", "policy", "memory", "gateway", "datafetch", "reward")
SCALED = ("planner", "retrieval", "policy")
VALUES = str(CHART / "ci" / "first-try.yaml")
NAMESPACE = """apiVersion: v1
kind: Namespace
metadata: {{name: {name}, labels: {{pod-security.kubernetes.io/enforce: restricted}}}}
"""
CONNECT = (
    "import socket, sys; "
    "s = socket.socket(); s.settimeout(5); "
    "sys.exit(0 if s.connect_ex((sys.argv[1], int(sys.argv[2]))) == 0 else 7)"
)
WHY_NOT = {
    "restore": "by hand, docs/operations.md; tests/integration/test_backup.py restores on one machine",
    "store away": "seen on the simulated cluster",
}


class Walk:
    """Each step as a method; they follow one another, and what one leaves the next finds."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def install(self, record: Record) -> None:
        name, operator = self.operator.namespace, self.operator
        operator.run("kubectl", "apply", "-f", "-", feed=NAMESPACE.format(name=name))
        # Made here and not by the chart, which holds no secret; README's lines do the same by kubectl.
        made = {
            "fathom-object-store": make_store_login(),
            "fathom-identity": make_identity(),
            "fathom-gateway": make_gateway_token(),
        }
        for secret, content in made.items():
            operator.kubectl("apply", "-f", "-", feed=write_secret(secret, content, name))
        operator.helm("install", str(CHART), "-f", VALUES, "--wait", "--timeout", "15m")
        pods = operator.list_pods()
        record.detail = f"{len(pods)} pods, {sum(map(count_restarts, pods))} restarts"

    def doctor(self, record: Record) -> None:
        record.detail = self.operator.fathom("doctor", "--cluster").strip().splitlines()[-1]

    def helm_test(self, record: Record) -> None:
        self.operator.helm("test")

    def smoke(self, record: Record) -> None:
        record.detail = self.operator.ask()

    def upgrade(self, record: Record) -> None:
        with self.using(record):
            self.operator.helm("upgrade", str(CHART), "-f", VALUES, "--set", "defaults.logLevel=warning", "--wait")

    def rollback(self, record: Record) -> None:
        with self.using(record):
            self.operator.helm("rollback", "--wait")

    def kill(self, record: Record) -> None:
        with self.using(record):
            for component in COMPONENTS:
                # Without grace, as a node does that fails: the process has no time to hand anything over.
                for pod in self.operator.list_pods(component):
                    self.operator.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
                self.operator.wait_for_rollout()

    def restart_all(self, record: Record) -> None:
        self.operator.kubectl("rollout", "restart", "deployment,statefulset")
        self.operator.wait_for_rollout()
        # New pods begin at 0: whatever is counted ended by itself since.
        restarted = {pod["metadata"]["name"]: count_restarts(pod) for pod in self.operator.list_pods()}
        if ended := {name: count for name, count in restarted.items() if count}:
            raise CommandFailed(f"ended by themselves: {ended}")
        record.detail = f"{len(restarted)} pods, no restart"

    def scale(self, record: Record) -> None:
        with self.using(record):
            for replicas in (3, 1):
                for name in SCALED:
                    workload = f"deployment/{self.operator.release}-{name}"
                    self.operator.kubectl("scale", workload, f"--replicas={replicas}")
                self.operator.wait_for_rollout()

    def train(self, record: Record, workers: int) -> None:
        if "rayjobs" not in self.operator.run("kubectl", "api-resources", "--api-group=ray.io", "-o", "name"):
            raise NotSeen("KubeRay's operator is not installed")
        words = ("train", "grpo", "--on-cluster", "--workers", str(workers), "--config", "examples/train/grpo.yaml")
        said = self.operator.fathom(*words, "trainer.total_training_steps=2")
        # The command ends when the job has: the operator must have deleted the cluster by then, or is about to.
        if left := self.operator.kubectl("get", "rayclusters", "-o", "name").split():
            raise CommandFailed(f"the training has ended, and {left} is still there")
        record.detail = said.strip().splitlines()[-1]

    def walls(self, record: Record) -> None:
        prefix = self.operator.release
        strangers = [(f"{prefix}-nats", 4222), (f"{prefix}-minio", 9000), ("kubernetes.default", 443)]
        open_to = [f"{host}:{port}" for host, port in strangers if self.reaches("sandbox", host, port)]
        # Many clusters accept policies and do nothing with them: that is no fault of the release.
        if len(open_to) == len(strangers):
            raise NotSeen("nobody enforces network policies on this cluster")
        if open_to:
            raise CommandFailed(f"the sandbox reaches {open_to}")
        if not self.reaches("planner", f"{prefix}-minio", 9000):
            raise CommandFailed("the planner does not reach the object store")
        if self.reaches("planner", "kubernetes.default", 443):
            raise CommandFailed("the planner reaches the API server")
        record.detail = f"closed: {', '.join(f'{host}:{port}' for host, port in strangers)}"

    def reaches(self, component: str, host: str, port: int) -> bool:
        """Return whether a pod can open a connection; raises ``CommandFailed`` when it cannot be asked."""
        pod = self.operator.list_pods(component)[0]["metadata"]["name"]
        # With Python, which each of our images has; a shell and nc they have not.
        try:
            self.operator.kubectl("exec", pod, "--", "python3", "-c", CONNECT, host, str(port))
        except CommandFailed as error:
            if "exit code 7" in str(error) or "gaierror" in str(error):
                return False
            raise
        return True

    def back_up(self, record: Record) -> None:
        memory = f"statefulset/{self.operator.release}-memory"
        place = ("--at", "file:///var/cache/fathom/backup")
        self.operator.kubectl("exec", memory, "--", "fathom", "backup", "create", *place)
        said = self.operator.kubectl("exec", memory, "--", "fathom", "backup", "verify", "latest", *place)
        record.detail = said.strip().splitlines()[-1]

    def uninstall(self, record: Record) -> None:
        self.operator.helm("uninstall", "--wait")
        # A server refuses kinds that it does not know; without KubeRay nothing can be left of them.
        known = self.operator.run("kubectl", "api-resources", "--api-group=ray.io", "-o", "name").split()
        rays = [kind for kind in ("rayjobs.ray.io", "rayclusters.ray.io") if kind in known]
        kinds = ",".join(("pods", "jobs", "services", "networkpolicies", *rays))
        if left := self.operator.list_names(kinds):
            raise CommandFailed(f"left behind: {left}")
        record.detail = "left: " + ", ".join(self.operator.list_names("persistentvolumeclaims"))

    @contextmanager
    def using(self, record: Record) -> Iterator[None]:
        load = Load(self.operator)
        try:
            with load.at_work():
                yield
        finally:
            record.detail = str(load)


def count_restarts(pod: Mapping[str, Any]) -> int:
    """Return how often the containers of a pod were started again."""
    return sum(int(status["restartCount"]) for status in pod.get("status", {}).get("containerStatuses", ()))


def walk_on_cluster(helm_options: Sequence[str]) -> Sequence[Record]:
    """Walk every step; return the records. The namespace is deleted whatever happened."""
    operator = Operator(f"fathom-journey-{secrets.token_hex(3)}", helm_options=helm_options)
    walk, journal = Walk(operator), Journal()
    steps: Sequence[tuple[str, Callable[[Record], None]]] = (
        ("install", walk.install), ("doctor", walk.doctor), ("helm test", walk.helm_test), ("smoke", walk.smoke),
        ("upgrade", walk.upgrade), ("rollback", walk.rollback), ("kill", walk.kill),
        ("restart of all", walk.restart_all), ("scale", walk.scale),
        ("training, no workers", lambda record: walk.train(record, 0)),
        ("training, two workers", lambda record: walk.train(record, 2)),
        ("walls", walk.walls), ("backup", walk.back_up), ("uninstall", walk.uninstall),
    )  # fmt: skip
    try:
        for name, step in steps:
            with journal.step(name) as record:
                step(record)
            # Everything else would fail for the same reason.
            if name == "install" and record.state != "seen":
                break
    finally:
        operator.run("kubectl", "delete", "namespace", operator.namespace, "--ignore-not-found", "--wait=false")
    for name, reason in WHY_NOT.items():
        journal.records.setdefault(name, Record(name, "not seen", detail=reason))
    return journal.finish("the installation failed")
