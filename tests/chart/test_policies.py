"""Test what must hold for every pod, whatever the values: the restricted profile, probes, limits, walls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.chart.rendering import CHART, Document, by_key, containers, key, pods, render

NATS_TOOLS = ("nats", "minio")


def test_every_pod_meets_the_restricted_profile(documents: tuple[Document, ...]) -> None:
    seen = 0
    for name, _, spec in pods(documents):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] >= 1000, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert all("hostPath" not in volume for volume in spec.get("volumes", ())), name
        seen += 1
    assert seen >= 8
    for name, container in containers(documents):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, name
        # What a service writes goes to volumes with a bound; see the test of scratch space below.
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert not security.get("privileged"), name
        assert all("hostPort" not in port for port in container.get("ports", ())), name


def test_no_pod_has_a_token_and_every_scratch_has_a_bound(documents: tuple[Document, ...]) -> None:
    # The head of a Ray cluster whose workers follow the load: the autoscaler asks the API server.
    ray = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}
    asking = {
        f"{document['kind']}/{document['metadata']['name']}/head" for document in documents
        if document["kind"] in ray and document["spec"][ray[document["kind"]]].get("enableInTreeAutoscaling")
    }  # fmt: skip
    for name, labels, spec in pods(documents):
        scaling = name in asking
        assert spec["automountServiceAccountToken"] is scaling, name
        assert labels["app.kubernetes.io/component"] != "sandbox" or not scaling
        for volume in spec.get("volumes", ()):
            if "emptyDir" in volume:
                assert volume["emptyDir"].get("sizeLimit"), f"{name}: {volume['name']} may fill the node"


def test_every_container_has_requests_and_a_memory_limit_and_a_fixed_image(documents: tuple[Document, ...]) -> None:
    for name, container in containers(documents):
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), name
        assert "memory" in resources["limits"], name
        image = container["image"]
        assert "@sha256:" in image or (":" in image and not image.endswith(":latest")), f"{name}: {image}"


def test_every_long_running_pod_has_three_probes_and_leaves_gently(documents: tuple[Document, ...]) -> None:
    for document in documents:
        if document["kind"] not in ("Deployment", "StatefulSet"):
            continue
        spec = document["spec"]["template"]["spec"]
        for container in spec["containers"]:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert probe in container, f"{key(document)} has no {probe}"
                port = container[probe].get("grpc", {}).get("port")
                assert port is None or port in [p["containerPort"] for p in container["ports"]]
            # Whoever uses a service with one pod waits until the kubelet has looked, after its start, too.
            assert container["startupProbe"]["periodSeconds"] == 1, key(document)
        # The kubelet kills at the end of its own period, whatever the service still has to finish.
        grace = spec["terminationGracePeriodSeconds"]
        if not document["metadata"]["name"].endswith(NATS_TOOLS):
            env = by_key(documents)["ConfigMap", document["metadata"]["name"]]["data"]
            assert grace > int(env["FATHOM_RUNTIME_GRACE_S"]), f"{key(document)} is killed while it drains"


def selects(policy: Document, labels: Document) -> bool:
    wanted = policy["spec"]["podSelector"].get("matchLabels", {})
    return bool(wanted.items() <= labels.items())


def test_the_walls_close_every_pod_in_both_directions(documents: tuple[Document, ...]) -> None:
    policies = [document for document in documents if document["kind"] == "NetworkPolicy"]
    for name, labels, _ in pods(documents):
        kinds = {kind for policy in policies if selects(policy, labels) for kind in policy["spec"]["policyTypes"]}
        # A policy of one direction leaves the other one open.
        assert kinds == {"Ingress", "Egress"}, f"{name} is not behind the walls"


def reach(documents: tuple[Document, ...], component: str) -> list[Document]:
    """The egress rules of a component."""
    found: list[Document] = []
    for document in documents:
        chosen = document.get("spec", {}).get("podSelector", {}).get("matchLabels", {})
        if document["kind"] == "NetworkPolicy" and chosen.get("app.kubernetes.io/component") == component:
            found += document["spec"].get("egress", [])
    return found


def outward(rules: list[Document]) -> list[Any]:
    """Return where rules lead out of the cluster; looking up names leads to the node's own cache at most."""
    out = [rule for rule in rules if {port["port"] for port in rule.get("ports", ())} != {53, 5353}]
    return [to["ipBlock"]["cidr"] for rule in out for to in rule["to"] if "ipBlock" in to]


def test_only_datafetch_leaves_the_cluster_and_never_to_private_addresses() -> None:
    documents = render("helm4", CHART / "ci" / "minimal-values.yaml")
    components = {labels["app.kubernetes.io/component"] for _, labels, _ in pods(documents)}
    assert {name for name in components if outward(reach(documents, name))} == {"datafetch"}
    (rule,) = [rule for rule in reach(documents, "datafetch") if outward([rule])]
    for private in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"):
        assert private in rule["to"][0]["ipBlock"]["except"]


def has_certificates(documents: tuple[Document, ...]) -> bool:
    return any(document["kind"] == "Certificate" for document in documents)


def test_the_sandbox_goes_nowhere_and_has_no_key(documents: tuple[Document, ...]) -> None:
    """No service, no bus, no object store, no names, nothing outside; no token, no secret in its environment."""
    assert reach(documents, "sandbox") == []
    for _, labels, spec in pods(documents):
        if labels["app.kubernetes.io/component"] == "sandbox":
            assert spec["automountServiceAccountToken"] is False
            assert all("valueFrom" not in item for item in spec["containers"][0]["env"])
            secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
            shown = [[item["key"] for item in secret["items"]] for secret in secrets]
            own = [["tls.crt", "tls.key", "ca.crt"]] if has_certificates(documents) else []
            assert shown == [["public.pem"], *own], "it verifies its callers, and has nothing to sign tokens with"
            if own:
                # Whoever breaks out of it can pretend to be a sandbox, and nothing else.
                assert secrets[1]["secretName"] == "demo-fathom-sandbox-tls"


def test_a_sandbox_with_larger_tables_reaches_the_store_alone() -> None:
    documents = render("helm4", CHART / "ci" / "minimal-values.yaml", "demo", "services.sandbox.store=true")
    peers = {
        to["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in reach(documents, "sandbox") for to in rule["to"] if to.keys() == {"podSelector"}
    }  # fmt: skip
    assert peers == {"minio"}
    settings = by_key(documents)["ConfigMap", "demo-fathom-planner"]["data"]
    assert "FATHOM_PLANNER_FRAMES_BY_REFERENCE" not in settings


def test_who_may_call_whom_is_who_calls_whom(documents: tuple[Document, ...]) -> None:
    """A service's ingress names exactly those whose configuration names it."""
    found = by_key(documents)
    for (kind, name), document in found.items():
        if kind != "ConfigMap" or "FATHOM_RUNTIME_ENDPOINTS" not in document["data"]:
            continue
        component = document["metadata"]["labels"]["app.kubernetes.io/component"]
        for peer, url in json.loads(document["data"]["FATHOM_RUNTIME_ENDPOINTS"]).items():
            if url == "nats://" or f"-{peer}-serve-svc" in url:
                continue
            prefix = name.removesuffix(f"-{component}")
            rules = found["NetworkPolicy", f"{prefix}-{peer}"]["spec"]["ingress"]
            callers = [
                source["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
                for rule in rules for source in rule.get("from", ()) if "podSelector" in source
            ]  # fmt: skip
            assert component in callers, f"{component} calls {peer}, which does not let it in"


def test_a_budget_guards_whatever_has_more_than_one_pod(documents: tuple[Document, ...]) -> None:
    found = by_key(documents)
    for (kind, name), document in found.items():
        if kind in ("Deployment", "StatefulSet"):
            replicas = document["spec"].get("replicas", 2)
            assert (("PodDisruptionBudget", name) in found) == (replicas > 1), f"{kind}/{name} has {replicas}"


def test_selectors_choose_exactly_their_own_pods(documents: tuple[Document, ...]) -> None:
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            wanted = document["spec"]["selector"]["matchLabels"].items()
            matching = {name for name, labels, _ in pods(documents) if wanted <= labels.items()}
            assert matching == {"/".join(key(document))}
            assert "app.kubernetes.io/version" not in dict(wanted), "an upgrade could not change it"


def test_no_secret_stands_in_a_document(documents: tuple[Document, ...]) -> None:
    assert not [key(document) for document in documents if document["kind"] == "Secret"]
    for name, container in containers(documents):
        for variable in container.get("env", ()):
            if any(word in variable["name"] for word in ("PASSWORD", "SECRET", "TOKEN", "KEY")):
                copied = re.fullmatch(r'"?\$\([A-Z_]+\)"?', variable.get("value", ""))
                assert copied or "secretKeyRef" in variable.get("valueFrom", {}), f"{name}: {variable['name']}"


@pytest.mark.parametrize("verb", ["*", "update", "patch", "deletecollection", "impersonate"])
def test_the_only_role_submits_training_jobs(documents: tuple[Document, ...], verb: str) -> None:
    assert not [key(document) for document in documents if document["kind"].startswith("ClusterRole")]
    for document in documents:
        if document["kind"] == "Role":
            assert document["metadata"]["name"].endswith("-trainer")
            for rule in document["rules"]:
                assert verb not in rule["verbs"]
                writing = set(rule["verbs"]) - {"get", "list", "watch"}
                assert not writing or rule["resources"] == ["rayjobs"]


def test_every_pod_may_run_on_nodes_that_are_kept_for_the_release() -> None:
    """With all nodes tainted, `helm test` and the submitters of trainings waited for one that was not."""
    found = list(pods(render("helm4", CHART / "ci" / "full-values.yaml")))
    assert len(found) > 12
    closed = [name for name, _, spec in found if "fathom" not in {one["key"] for one in spec.get("tolerations", ())}]
    assert not closed


LOST = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def find_patience(documents: tuple[Document, ...]) -> dict[str, dict[str, int]]:
    """Return by pod how many seconds it stays on a node that is lost, by taint."""
    return {
        name: {one["key"]: one.get("tolerationSeconds", 0) for one in spec.get("tolerations", ()) if one["key"] in LOST}
        for name, _, spec in pods(documents)
    }


def test_a_pod_leaves_a_lost_node_within_a_minute_unless_it_is_a_job(documents: tuple[Document, ...]) -> None:
    """Whatever has one pod was away for the five minutes that Kubernetes waits."""
    jobs = ("Pod/", "RayJob/", "CronJob/", "Job/")
    for name, patience in find_patience(documents).items():
        assert patience == ({} if name.startswith(jobs) else dict.fromkeys(LOST, 60)), name


def test_who_says_how_long_a_pod_waits_for_its_node_is_followed() -> None:
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5}
    words = [f"services.gateway.tolerations[0].{key}={value}" for key, value in toleration.items()]
    found = find_patience(
        render("helm4", CHART / "ci" / "minimal-values.yaml", "demo", *words, "pod.nodeLossSeconds=20")
    )
    seconds = {"node.kubernetes.io/not-ready": 20, "node.kubernetes.io/unreachable": 5}
    assert found["Deployment/demo-fathom-gateway"] == seconds
    assert found["Deployment/demo-fathom-planner"] == dict.fromkeys(LOST, 20)
