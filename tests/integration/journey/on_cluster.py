"""The journey on a real cluster, in a namespace of its own that is deleted in the end."""

from __future__ import annotations

import re
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
WHY_NOT = {"store away": "seen on the simulated cluster"}
# As memory's pod reaches its own service.
MEMORY = "grpc://127.0.0.1:50051"
BACKUPS, BACKUP_SECRET = "backups", "fathom-backup"
RESTORING = f"backup.restore=latest,backup.replace=true,backup.urlSecret={BACKUP_SECRET}"
TURNS = re.compile(r"\b(\d+) turns\b")


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
        # Beside the bucket of the release: what lies in a pod is gone once the restore finds nothing running.
        store = f"statefulset/{self.operator.release}-minio"
        self.operator.kubectl("exec", store, "--", "mkdir", "-p", f"/data/{BACKUPS}")
        self.in_memory("backup", "create", "--at", self.backups)
        said = self.in_memory("backup", "verify", "latest", "--at", self.backups)
        record.detail = said.strip().splitlines()[-1]

    def restore(self, record: Record) -> None:
        held = self.count_turns()
        self.in_memory("memory", "erase", "--everybody", "--yes", "--memory", MEMORY)
        left = self.count_turns()
        if left or not held:
            raise CommandFailed(f"{held} turns before the erasure, {left} after it")
        self.stop_services()
        self.run_restore_job()
        self.operator.helm("upgrade", str(CHART), "-f", VALUES, "--wait", "--timeout", "15m")
        if (there := self.count_turns()) != held:
            raise CommandFailed(f"{there} turns of {held} are there again")
        record.detail = f"{held} turns are there again; asked once more: {self.operator.ask()}"

    def stop_services(self) -> None:
        """Scale all but the bus and the store to nothing, as docs/operations.md says."""
        operator = self.operator
        operator.kubectl("scale", "deployment", "--all", "--replicas=0")
        stateful = [f"{operator.release}-{name}" for name in ("memory", "sandbox")]
        operator.kubectl("scale", "statefulset", *stateful, "--replicas=0")
        stopped = ",".join(name for name in COMPONENTS if name != "nats")
        which = f"app.kubernetes.io/component in ({stopped})"
        operator.kubectl("wait", "--for=delete", "pod", "-l", which, "--timeout=10m")

    def run_restore_job(self) -> None:
        """Apply the chart's Job that restores, and wait for its end."""
        operator = self.operator
        place = write_secret(BACKUP_SECRET, {"url": self.backups}, operator.namespace)
        operator.kubectl("apply", "-f", "-", feed=place)
        words = ("-f", VALUES, "--set", RESTORING, "--show-only", "templates/backup.yaml")
        operator.kubectl("apply", "-f", "-", feed=operator.helm("template", str(CHART), *words))
        which = ("job", "-l", "app.kubernetes.io/component=backup")
        operator.kubectl("wait", "--for=condition=complete", "--timeout=15m", *which)

    @property
    def backups(self) -> str:
        """Return where backups lie: pods have the keys of the store in their environment."""
        return f"s3://{self.operator.release}-minio:9000/{BACKUPS}?secure=false"

    def count_turns(self) -> int:
        """Return the number of turns that memory holds of everybody."""
        said = self.in_memory("memory", "export", "/tmp/rows.jsonl", "--everybody", "--memory", MEMORY)
        found = TURNS.search(said)
        return int(found[1]) if found else 0

    def in_memory(self, *words: str) -> str:
        """Run ``fathom`` in memory's pod, where bus, store and database are at hand; return what it said."""
        return self.operator.kubectl("exec", f"statefulset/{self.operator.release}-memory", "--", "fathom", *words)

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
            # Pods that were replaced took their counts along; those that are there have ended by themselves so often.
            restarts = sum(map(count_restarts, self.operator.list_pods()))
            record.detail = f"{load}; {restarts} restarts of containers"


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
        ("walls", walk.walls), ("backup", walk.back_up), ("restore", walk.restore), ("uninstall", walk.uninstall),
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
