"""Test what an API server and the kubelets refuse and no schema sees, over every document of every example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.rendering import CHART, Document, by_key, containers, key, pods, render

UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
ACCESS = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
OURS = {
    "fathom-object-store": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "object-store": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "nats-login": {"user", "password"},
    "nats-tls": {"tls.crt", "tls.key", "ca.crt"},
    "gateway-token": {"token"},
    "fathom-gateway": {"token"},
    "gateway-keys": {"keys.jsonl"},
    "fathom-identity": {"signing.pem", "public.pem"},
    "openai": {"key"},
    "backup-target": {"url"},
}
"""Keys of the Secrets that the examples name, as the values' comments promise them."""


def amount(quantity: Any) -> float:
    """A quantity of Kubernetes as a number."""
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(quantity))
    assert found, quantity
    return float(found[1]) * UNITS.get(found[2], 1)


def probes(container: Document) -> Iterator[Document]:
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        if name in container:
            yield container[name]


def workloads(documents: tuple[Document, ...]) -> list[Document]:
    return [document for document in documents if document["kind"] in ("Deployment", "StatefulSet")]


def test_names_and_labels_are_ones_that_kubernetes_takes(documents: tuple[Document, ...]) -> None:
    by_key(documents)  # no object twice
    for document in documents:
        metadata = document["metadata"]
        assert len(metadata["name"]) <= 63
        assert DNS_LABEL.fullmatch(metadata["name"]), metadata["name"]
        assert "namespace" not in metadata, "the release's namespace is Helm's business"
        for annotation in metadata.get("annotations", {}):
            assert QUALIFIED.fullmatch(annotation), annotation
    own = [document["metadata"].get("labels", {}) for document in documents]
    for labels in (*own, *(labels for _, labels, _ in pods(documents))):
        for name, value in labels.items():
            assert QUALIFIED.fullmatch(name), name
            assert len(value) <= 63
            assert LABEL_VALUE.fullmatch(value), f"{name}: {value}"


def test_selectors_are_among_the_labels_and_never_change(documents: tuple[Document, ...]) -> None:
    for document in workloads(documents):
        wanted = document["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= document["spec"]["template"]["metadata"]["labels"].items()
        assert set(wanted) == {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component")}
        for spread in document["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert spread["labelSelector"]["matchLabels"] == wanted


def test_requests_are_within_limits_and_disk_is_counted(documents: tuple[Document, ...]) -> None:
    for name, container in containers(documents):
        resources = container["resources"]
        for resource, limit in resources["limits"].items():
            assert amount(resources["requests"].get(resource, 0)) <= amount(limit), f"{name}: {resource}"
            if "/" in resource:
                assert resources["requests"].get(resource, limit) == limit, f"{name}: {resource} cannot be shared"


def test_scratch_fits_into_the_limit_on_disk(documents: tuple[Document, ...]) -> None:
    """A pod that fills its own volumes is evicted at the limit on ephemeral storage: the volumes must fill first."""
    for document in workloads(documents):
        spec = document["spec"]["template"]["spec"]
        disk = [v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v and v["emptyDir"].get("medium") != "Memory"]
        limit = sum(amount(c["resources"]["limits"].get("ephemeral-storage", "999Ti")) for c in spec["containers"])
        assert sum(amount(volume["sizeLimit"]) for volume in disk) < limit, key(document)


def test_ports_are_named_once_and_probes_ask_open_ones(documents: tuple[Document, ...]) -> None:
    for name, container in containers(documents):
        ports = container.get("ports", [])
        names = [port["name"] for port in ports]
        assert len(set(names)) == len(names), name
        assert all(len(port) <= 15 for port in names), f"{name}: {names}"
        numbers = [port["containerPort"] for port in ports]
        assert len(set(numbers)) == len(numbers), name
        for probe in probes(container):
            asked = (probe.get("grpc") or probe["httpGet"])["port"]
            # 52365 is Ray's own agent, which the operator asks as well.
            assert asked in (*names, *numbers, 52365), f"{name}: {asked}"
            assert not isinstance(asked, str) or "grpc" not in probe, "a gRPC probe takes numbers only"
            assert probe.get("failureThreshold", 3) >= 1
            assert sum(kind in probe for kind in ("grpc", "httpGet", "exec", "tcpSocket")) == 1


def test_volumes_that_are_mounted_exist_and_those_that_exist_are_mounted(documents: tuple[Document, ...]) -> None:
    claims = {
        key(d)[1]: {c["metadata"]["name"] for c in d["spec"].get("volumeClaimTemplates", ())}
        for d in workloads(documents)
    }
    for name, _, spec in pods(documents):
        volumes = [volume["name"] for volume in spec.get("volumes", ())]
        assert len(set(volumes)) == len(volumes), name
        known = set(volumes) | claims.get(name.split("/")[1], set())
        mounted: set[str] = set()
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            places = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
            assert len(set(places)) == len(places), f"{name}: two volumes in one place"
            mounted |= {mount["name"] for mount in container.get("volumeMounts", ())}
            assert "/tmp" in places or container["name"] == "nats", f"{name}: nothing may be written"
        assert mounted == known, name


def test_the_environment_names_each_variable_once_and_before_it_is_used(documents: tuple[Document, ...]) -> None:
    for name, container in containers(documents):
        given: set[str] = set()
        for variable in container.get("env", ()):
            assert variable["name"] not in given, f"{name}: {variable['name']} twice"
            used = set(re.findall(r"\$\(([A-Z_]+)\)", variable.get("value", "")))
            assert used <= given, f"{name}: {variable['name']} uses what is not there yet"
            given.add(variable["name"])


def test_what_pods_refer_to_exists(documents: tuple[Document, ...]) -> None:
    """ConfigMaps are the chart's; Secrets are the operator's, with the keys that the values promise."""
    found = by_key(documents)
    # What cert-manager writes.
    made = {
        document["spec"]["secretName"]: {"tls.crt", "tls.key", "ca.crt"}
        for document in documents if document["kind"] == "Certificate"
    }  # fmt: skip
    for name, container in containers(documents):
        for source in container.get("envFrom", ()):
            if "configMapRef" in source:
                assert ("ConfigMap", source["configMapRef"]["name"]) in found, name
        for variable in container.get("env", ()):
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret:
                assert secret["key"] in OURS[secret["name"]], name
    for name, _, spec in pods(documents):
        account = spec.get("serviceAccountName", "default")
        assert account == "default" or ("ServiceAccount", account) in found, f"{name}: {account}"
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in found, name
            if "secret" in volume:
                wanted = {item["key"] for item in volume["secret"].get("items", ())}
                assert wanted <= {**OURS, **made}[volume["secret"]["secretName"]], name


def test_services_find_pods_and_named_ports(documents: tuple[Document, ...]) -> None:
    for document in documents:
        if document["kind"] != "Service":
            continue
        wanted = {k: v for k, v in document["spec"]["selector"].items() if not k.startswith("ray.io/")}
        behind = [spec for _, labels, spec in pods(documents) if wanted.items() <= labels.items()]
        assert behind, key(document)
        names = {port["name"] for spec in behind for c in spec["containers"] for port in c.get("ports", ())}
        numbers = {p["containerPort"] for spec in behind for c in spec["containers"] for p in c.get("ports", ())}
        for port in document["spec"]["ports"]:
            assert port["targetPort"] in names, f"{key(document)}: {port['name']}"
            if document["spec"].get("clusterIP") == "None":
                assert port["port"] in numbers, "a headless service maps no ports"


def test_routes_lead_to_ports_of_services(documents: tuple[Document, ...]) -> None:
    services = {name: d for (kind, name), d in by_key(documents).items() if kind == "Service"}
    for document in documents:
        if document["kind"] in ("HTTPRoute", "GRPCRoute"):
            for backend in document["spec"]["rules"][0]["backendRefs"]:
                assert backend["port"] in [p["port"] for p in services[backend["name"]]["spec"]["ports"]]
        if document["kind"] == "Ingress":
            backend = document["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
            assert backend["port"]["name"] in [p["name"] for p in services[backend["name"]]["spec"]["ports"]]


def test_stateful_sets_have_headless_services_and_keep_their_volumes(documents: tuple[Document, ...]) -> None:
    found = by_key(documents)
    for document in workloads(documents):
        if document["kind"] != "StatefulSet":
            continue
        service = found["Service", document["spec"]["serviceName"]]
        assert service["spec"]["clusterIP"] == "None"
        for claim in document["spec"].get("volumeClaimTemplates", ()):
            assert set(claim["spec"]["accessModes"]) <= ACCESS
            assert set(claim["metadata"]) == {"name"}, "labels of a claim could not change in an upgrade"
            assert amount(claim["spec"]["resources"]["requests"]["storage"]) >= 2**30
            assert document["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"


def test_autoscalers_own_the_replicas_of_what_they_scale(documents: tuple[Document, ...]) -> None:
    found = by_key(documents)
    owned = []
    for document in documents:
        if document["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = document["spec"]["scaleTargetRef"]
            assert "replicas" not in found[target["kind"], target["name"]]["spec"]
            least, most = (document["spec"].get(f"{end}Replica{form}") for end, form in (("min", "s"), ("max", "s")))
            if document["kind"] == "ScaledObject":
                least, most = document["spec"]["minReplicaCount"], document["spec"]["maxReplicaCount"]
            assert 1 <= least <= most
            owned.append(target["name"])
        if document["kind"] == "HorizontalPodAutoscaler":
            asked = {metric["resource"]["name"] for metric in document["spec"]["metrics"]}
            pod = found[target["kind"], target["name"]]["spec"]["template"]["spec"]
            assert asked
            assert all(asked <= c["resources"]["requests"].keys() for c in pod["containers"]), "nothing to compare with"
    assert len(set(owned)) == len(owned)


def test_a_budget_never_holds_a_drain_for_ever(documents: tuple[Document, ...]) -> None:
    found = by_key(documents)
    for (kind, name), document in found.items():
        if kind == "PodDisruptionBudget":
            spec = document["spec"]
            assert spec["maxUnavailable"] == 1
            assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
            (workload,) = [d for d in workloads(documents) if d["metadata"]["name"] == name]
            assert spec["selector"] == workload["spec"]["selector"]


def test_pods_live_longer_than_their_drain_and_rollouts_than_their_start(documents: tuple[Document, ...]) -> None:
    found = by_key(documents)
    for document in workloads(documents):
        spec = document["spec"]["template"]["spec"]
        (container,) = spec["containers"][:1]
        settings = found.get(("ConfigMap", document["metadata"]["name"]), {}).get("data", {})
        command = " ".join(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ()))
        waits = sum(int(number) for number in re.findall(r"sleep\((\d+)\)", command))
        if "FATHOM_RUNTIME_GRACE_S" in settings:
            assert waits > 0, "the endpoints need time to forget the pod"
            assert spec["terminationGracePeriodSeconds"] >= waits + float(settings["FATHOM_RUNTIME_GRACE_S"]) + 5
        elif container["name"] == "nats":
            text = settings["nats.conf"]
            duration, grace = (
                int(seconds)
                for word in ("duration", "grace_period")
                for seconds in re.findall(rf"lame_duck_{word}: (\d+)s", text)
            )
            assert spec["terminationGracePeriodSeconds"] > duration, "lame duck mode is cut short"
            assert grace < duration
        started = container["startupProbe"]
        budget = started["periodSeconds"] * started["failureThreshold"]
        assert budget >= 120, f"{key(document)}: importing alone takes ten seconds on a busy node"
        if document["kind"] == "Deployment":
            assert document["spec"]["progressDeadlineSeconds"] > budget
            assert {"maxSurge", "maxUnavailable"} == document["spec"]["strategy"]["rollingUpdate"].keys()


def test_hooks_are_tests_that_leave_nothing_behind(documents: tuple[Document, ...]) -> None:
    for document in documents:
        annotations = document["metadata"].get("annotations", {})
        if "helm.sh/hook" in annotations:
            assert (document["kind"], annotations["helm.sh/hook"]) == ("Pod", "test")
            assert set(annotations["helm.sh/hook-delete-policy"].split(",")) == {
                "before-hook-creation",
                "hook-succeeded",
            }
            assert document["spec"]["restartPolicy"] == "Never"


def test_binaries_and_settings_that_cannot_be_typed_wrongly(documents: tuple[Document, ...]) -> None:
    """Data of a ConfigMap and values of the environment are text; a bare number would be refused."""
    for document in documents:
        if document["kind"] == "ConfigMap":
            assert all(isinstance(value, str) for value in document["data"].values()), key(document)
            assert sum(len(value) for value in document["data"].values()) < 2**20
    for name, container in containers(documents):
        assert all(isinstance(v["value"], str) for v in container.get("env", ()) if "value" in v), name
        assert all(isinstance(word, str) for word in container.get("command", ())), name


@pytest.mark.parametrize("example", ["minimal", "custom"])
def test_an_upgrade_changes_nothing_that_cannot_change(example: str) -> None:
    """Check that what the API server holds fixed is the same after a change of whatever an upgrade may change."""
    values = CHART / "ci" / f"{example}-values.yaml"
    changes = (
        "image.tag=9.9.9", "defaults.replicas=3", "nats.resources.limits.memory=4Gi", "defaults.logLevel=debug",
        "services.memory.resources.limits.memory=3Gi", "pod.annotations.a=b", "nats.authSecret=nats-login",
        "nats.tlsSecret=nats-tls", "gateway.service.type=NodePort", "monitoring.serviceMonitor.enabled=true",
    )  # fmt: skip
    before, after = by_key(render("helm4", values)), by_key(render("helm4", values, "demo", *changes))
    for name, document in before.items():
        old, new = document.get("spec", {}), after[name].get("spec", {})
        if name[0] in ("Deployment", "StatefulSet"):
            fixed = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
            assert [old.get(field) for field in fixed] == [new.get(field) for field in fixed], name
        if name[0] == "Service":
            assert old.get("clusterIP") == new.get("clusterIP"), name
        if name[0] == "RoleBinding":
            assert document["roleRef"] == after[name]["roleRef"]
