"""``fathom doctor --cluster`` against an API server at its HTTP edge: a sound release, and everything that may be wrong."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fathom.cli.doctor.cluster import OLDEST, TRAINING, certificate, examine_cluster, findings, numbers, remedy_of
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.operations.cluster.api import Cluster, Patience, ReleasePlace, connect
from tests.support.certificates import DAY, Authority
from tests.unit.cluster.apiserver import Failure, FakeApiServer
from tests.unit.cluster.recorded import event, put_event, waiting
from tests.unit.cluster.release_objects import APPS, CORE, NEEDS, OPERATOR, needs, operator, report, secret

Change = Callable[[FakeApiServer], None]


def test_a_sound_release_has_nothing_to_mend(
    sound: FakeApiServer, kubeconfig: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examine_cluster(ReleasePlace(kubeconfig=kubeconfig)) == 0
    assert "✗" not in capsys.readouterr().out
    found = report(cluster)
    assert [name for name, finding in found.items() if not finding.good] == []
    assert found["Kubernetes"].detail == "v1.34.2"
    assert found["fathom-planner"].detail == "2/2 ready"
    assert {
        "permissions",
        "Pod Security",
        "secret/fathom-object-store",
        "pvc/data-fathom-memory-0",
        "rayjobs.ray.io",
    } <= found.keys()


def unready(server: FakeApiServer) -> None:
    planner = server.objects[f"{APPS}/deployments/fathom-planner"]
    planner["status"] = {"readyReplicas": 1, "observedGeneration": 1}
    pod = {
        # Shapes as the API server gives them for a pod that cannot pull its image.
        "metadata": {"name": "fathom-planner-x", "labels": planner["spec"]["selector"]["matchLabels"]},
        "status": {"phase": "Pending", "containerStatuses": waiting("ImagePullBackOff", "not found")},
    }
    server.put(f"{CORE}/pods/fathom-planner-x", pod)


def refused_pods(server: FakeApiServer) -> None:
    server.objects[f"{APPS}/statefulsets/fathom-sandbox"]["status"] = {"observedGeneration": 1}
    said = 'create Pod fathom-sandbox-0 failed: violates PodSecurity "restricted:latest": seccompProfile'
    put_event(server, "e", event("fathom-sandbox", "FailedCreate", said, kind="StatefulSet"))


def raise_generation(server: FakeApiServer) -> None:
    # The desired state is newer than what the controller has seen.
    server.objects[f"{APPS}/deployments/fathom-reward"]["metadata"]["generation"] = 2


def warns_only(server: FakeApiServer) -> None:
    labels = server.objects["/api/v1/namespaces/research"]["metadata"]["labels"]
    labels.clear()
    labels["pod-security.kubernetes.io/warn"] = "restricted"


def unbound(server: FakeApiServer) -> None:
    server.objects[f"{CORE}/persistentvolumeclaims/data-fathom-memory-0"]["status"]["phase"] = "Pending"


def moved_operator(server: FakeApiServer) -> None:
    content = server.objects.pop(OPERATOR)
    content["metadata"]["namespace"] = "kuberay"
    server.put(OPERATOR.replace("ray-system", "kuberay"), content)


STORE = {"service": "s3", "namespace": "storage", "port": 9000}


def put_store(server: FakeApiServer, port: int, target: int | str) -> None:
    needs(server, places=[STORE])
    service = {"metadata": {"name": "s3"}, "spec": {"ports": [{"port": port, "targetPort": target}]}}
    server.put("/api/v1/namespaces/storage/services/s3", service)


def set_version(server: FakeApiServer) -> None:
    server.version = "v1.26.4+k3s1"


WRONG: dict[str, tuple[Change, str, str, str]] = {
    "an old server": (set_version, "Kubernetes", "v1.26.4", "1.29"),
    "pod security only warns": (warns_only, "Pod Security", "it only warns", "kubectl label ns research"),
    "no permission": (lambda s: s.denied.update({("create", "rayjobs"), ("get", "pods/log")}), "permissions",
                      "may not create rayjobs, get pods/log", "Role fathom-trainer"),
    "a kind": (lambda s: needs(s, kinds=["keda.sh/v1alpha1/scaledobjects"]), "scaledobjects.keda.sh", "not installed", "install KEDA"),
    "a pod that waits": (unready, "fathom-planner", "1/2 ready; image registry.example.com/fathom-trainer:1.2.3 cannot be pulled", "image.tag"),
    "pods that are refused": (refused_pods, "fathom-sandbox", "0/2 ready; Pod Security refuses its pods", "restricted profile"),
    "a change that is not rolled out": (raise_generation, "fathom-reward", "a change is not rolled out", "logs"),
    "a volume": (unbound, "pvc/data-fathom-memory-0", "Pending", "kubectl describe pvc"),
    "a secret": (lambda s: void(s.objects.pop(f"{CORE}/secrets/fathom-object-store")), "secret/fathom-object-store", "missing",
                 "--from-literal=AWS_ACCESS_KEY_ID"),
    "a key of a secret": (lambda s: secret(s, "fathom-object-store", "AWS_ACCESS_KEY_ID"), "secret/fathom-object-store",
                          "without AWS_SECRET_ACCESS_KEY", "kubectl create secret"),
    "a runtime class": (lambda s: needs(s, runtimeClasses=["gvisor"]), "runtimeclass/gvisor", "missing", "gVisor"),
    "a store that is not where its name says": (lambda s: needs(s, places=[STORE]), "service/storage/s3", "missing", "networkPolicy.externalStores"),
    "a store whose pods listen elsewhere": (lambda s: put_store(s, 9000, 9001), "service/storage/s3", "sends port 9000 to 9001", "externalStores"),
    "a store with another port": (lambda s: put_store(s, 80, 9000), "service/storage/s3", "has no port 9000", "externalStores"),
    "a queue": (lambda s: needs(s, queue="training"), "localqueue/training", "missing", "training.queue="),
    "an operator elsewhere": (moved_operator, "KubeRay's way in", "the walls let in ray-system, the operator is in kuberay",
                              "networkPolicy.rayOperatorNamespace"),
    "a release that is not there": (lambda s: void(s.objects.pop(NEEDS)), "release fathom", "fathom-needs", "helm list -A"),
}  # fmt: skip


def void(_: object) -> None:
    return


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_fails_and_says_how_to_mend_it(
    sound: FakeApiServer, cluster: Cluster, kubeconfig: Path, case: str
) -> None:
    change, subject, detail, remedy = WRONG[case]
    change(sound)
    found = report(cluster)
    assert not found[subject].good
    assert found[subject].needed
    assert detail in found[subject].detail
    assert remedy in found[subject].remedy
    assert examine_cluster(ReleasePlace(kubeconfig=kubeconfig)) == 1


HINTS: dict[str, tuple[Change, str, str]] = {
    "no RayJobs, and nothing that needs them": (lambda s: void(s.groups.pop("ray.io/v1")), "rayjobs.ray.io", "not installed"),
    "no operator": (lambda s: void(s.objects.pop(OPERATOR)), "KubeRay", "no operator"),
    "an older operator": (lambda s: void(s.put(OPERATOR, operator("v1.3.2"))), "KubeRay", "v1.3.2"),
    "a network that enforces nothing": (lambda s: void(s.objects.pop("/apis/apps/v1/namespaces/kube-system/daemonsets/cilium")),
                                        "network policies", "nobody is known"),
    "secrets that may not be read": (lambda s: s.denied.add(("get", "secrets")), "secret/fathom-object-store", "403"),
    "daemonsets that may not be listed": (lambda s: s.denied.add(("list", "daemonsets")), "network policies", "403"),
}  # fmt: skip


@pytest.mark.parametrize("case", HINTS)
def test_what_serving_does_without_is_a_hint(
    sound: FakeApiServer, cluster: Cluster, kubeconfig: Path, case: str
) -> None:
    change, subject, detail = HINTS[case]
    change(sound)
    found = report(cluster)[subject]
    assert (found.good, found.needed) == (False, False)
    assert detail in found.detail
    assert found.remedy
    assert examine_cluster(ReleasePlace(kubeconfig=kubeconfig)) == 0


@pytest.mark.parametrize("target", [9000, "s3"])
def test_a_store_in_the_cluster_is_where_the_policies_let_the_pods(
    sound: FakeApiServer, cluster: Cluster, target: int | str
) -> None:
    put_store(sound, 9000, target)
    assert report(cluster)["service/storage/s3"].good


def test_without_a_release_nothing_is_said_of_its_values(sound: FakeApiServer, cluster: Cluster) -> None:
    """It said that the network policies were off in the values, of which there were none."""
    sound.objects.pop(NEEDS)
    assert "network policies" not in report(cluster)


def test_a_server_that_is_away_is_one_line(sound: FakeApiServer, cluster: Cluster) -> None:
    # More failures than the client's retries.
    sound.failures.append(Failure("GET", "/version", 0, times=9))
    (finding,) = findings(cluster, "fathom")
    assert (finding.subject, finding.good) == ("API server", False)
    assert "out of reach" in finding.detail


def test_a_server_that_is_slower_than_anybody_waits_is_one_line(sound: FakeApiServer, kubeconfig: Path) -> None:
    """It takes the connection and answers nothing, as one whose storage is overloaded."""
    released = threading.Event()
    sound.failures.append(Failure("GET", "/version", 0, times=9, held=released))
    patience = Patience(read_s=0.1, retry=RetryPolicy(attempts=3, first_delay_s=0.0))
    try:
        (finding,) = findings(connect(kubeconfig=kubeconfig, patience=patience), "fathom")
    finally:
        released.set()
    assert (finding.subject, finding.good) == ("API server", False)
    assert "out of reach" in finding.detail
    assert len(sound.asked_for("GET", "/version")) <= 3, "not for ever"


def test_what_is_asked_for_is_what_the_charts_role_gives() -> None:
    base = Path(__file__).parents[3] / "deploy" / "k8s" / "base" / "trainer.yaml"
    (role,) = [one for one in yaml.safe_load_all(base.read_text()) if one["kind"] == "Role"]
    given = {
        (verb, group, resource)
        for rule in role["rules"] for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }  # fmt: skip
    # Whatever training may need is in the role, or a job would fail in its middle.
    assert set(TRAINING) <= given


def test_the_oldest_version_is_the_charts() -> None:
    chart = yaml.safe_load((Path(__file__).parents[3] / "charts" / "fathom" / "Chart.yaml").read_text())
    assert numbers(chart["kubeVersion"]) == OLDEST


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        (["signing.pem", "public.pem"], "fathom identity keys x && kubectl create secret generic x --from-file=x"),
        (["keys.jsonl"], "fathom identity api-key NAME TENANT --file keys.jsonl && kubectl create secret generic x"),
        (["tls.crt", "tls.key", "ca.crt"], "certificates.issuer.name="),
        (["user", "password"], "kubectl create secret generic x --from-literal=user=… --from-literal=password=…"),
    ],
)
def test_a_missing_secret_is_made_by_the_command_that_makes_what_it_holds(keys: list[str], remedy: str) -> None:
    assert remedy_of("x", keys).startswith(remedy)


def test_certificates_are_shown_with_their_validity(tmp_path: Path) -> None:
    authority, now = Authority.make(), time.time()
    pem = (authority.issue(tmp_path, ends=20 * DAY) / "tls.crt").read_bytes()
    found = certificate("fathom-planner-tls", pem)
    assert (found.good, found.subject) == (True, "certificate/fathom-planner-tls")
    assert found.detail.startswith("valid until 20")
    soon = certificate("x", pem, now + 15 * 86_400)
    assert (soon.good, soon.needed) == (False, False)
    assert "which is soon" in soon.detail
    assert certificate("x", pem, now + 21 * 86_400).detail.startswith("expired on")
    assert certificate("x", pem, now - 2 * 86_400).detail == "is not valid yet"
    assert "is no certificate" in certificate("x", b"junk").detail


def test_a_release_with_certificates_has_them_examined(sound: FakeApiServer, cluster: Cluster, tmp_path: Path) -> None:
    keys = ["tls.crt", "tls.key", "ca.crt"]
    needs(sound, secrets={"fathom-planner-tls": keys})
    folder = Authority.make().issue(tmp_path, begins=-2 * DAY, ends=-DAY)
    data = {key: base64.b64encode((folder / key).read_bytes()).decode() for key in keys}
    sound.put(f"{CORE}/secrets/fathom-planner-tls", {"metadata": {"name": "fathom-planner-tls"}, "data": data})
    found = report(cluster)
    assert found["secret/fathom-planner-tls"].good
    assert found["certificate/fathom-planner-tls"].detail.startswith("expired on")


POD = f"{CORE}/pods/fathom-sandbox-0"


def put_sandbox(server: FakeApiServer, runtime_class: str, *lines: str) -> None:
    """A pod of the sandbox with the first lines of its log, as the service writes them."""
    needs(server, sandbox={"runtimeClass": runtime_class, "minIsolation": "landlock"})
    labels = {
        "app.kubernetes.io/name": "fathom",
        "app.kubernetes.io/instance": "fathom",
        "app.kubernetes.io/component": "sandbox",
    }
    server.put(POD, {"metadata": {"name": "fathom-sandbox-0", "labels": labels}})
    if lines:
        server.logs.append(([f"2026-11-29T10:00:00.000000000Z {line}" for line in lines], ""))


def log_isolation(level: str) -> str:
    """The line that the sandbox's own logger writes for its level."""
    stream = io.StringIO()
    Telemetry("sandbox", stream=stream).log.warning(
        "sandbox isolation", achieved=level, layers=["landlock"], missing=["net"]
    )
    return stream.getvalue().strip()


@pytest.mark.parametrize(
    ("runtime_class", "level", "good", "needed", "said"),
    [
        ("", "landlock", True, False, "landlock; the cluster's default RuntimeClass; without net"),
        ("gvisor", "guest-kernel", True, False, "guest-kernel; RuntimeClass gvisor"),
        ("kata", "vm", True, False, "vm; RuntimeClass kata"),
        (
            "gvisor",
            "landlock",
            False,
            True,
            "landlock; RuntimeClass gvisor; without net, which gives no kernel of its own",
        ),
        ("", "none", False, True, "none; the cluster's default RuntimeClass"),
    ],
)
def test_the_level_that_a_sandbox_reports_is_shown(
    sound: FakeApiServer, cluster: Cluster, runtime_class: str, level: str, good: bool, needed: bool, said: str
) -> None:
    if runtime_class:
        sound.put(f"/apis/node.k8s.io/v1/runtimeclasses/{runtime_class}", {"handler": "runsc"})
    put_sandbox(sound, runtime_class, '{"event": "started"}', "no JSON: sandbox isolation", log_isolation(level))
    found = report(cluster)["sandbox isolation/fathom-sandbox-0"]
    assert (found.good, found.needed) == (good, needed)
    assert found.detail.startswith(said)
    assert bool(found.remedy) or found.good


def test_without_a_report_the_least_level_is_shown(sound: FakeApiServer, cluster: Cluster) -> None:
    assert "at least landlock, below which no pod starts" in report(cluster)["sandbox isolation"].detail
    put_sandbox(sound, "")
    assert "no report in the log of fathom-sandbox-0" in report(cluster)["sandbox isolation"].detail
    sound.denied.add(("get", "pods/log"))
    assert report(cluster)["sandbox isolation"].good
