"""Both Helms render every example alike, as the goldens say, and Kubernetes of three versions takes it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from deploy.chart import generate_files
from tests.chart.rendering import CHART, ROOT, Document, HelmFailed, by_key, key, read_documents, render

GOLDENS = ROOT / "tests" / "golden" / "chart"
MINIMAL = CHART / "ci" / "minimal-values.yaml"
OUTSIDE = ("objectStore.dev.enabled=false", "objectStore.endpoint=s3.example.com")
PLACE = ("networkPolicy.externalStores[0].cidr=203.0.113.0/24", "networkPolicy.externalStores[0].port=9000")
CERTIFIED = ("certificates.enabled=true", "certificates.issuer.name=ca")
PROVIDER = ("gateway.oidc.issuer=https://id.example.com", "gateway.oidc.jwksUrl=https://id.example.com/keys")
ROUTE = ("gateway.httpRoute.enabled=true", "gateway.httpRoute.parentRefs[0].name=edge")
CUSTOM = {
    "RayJob",
    "RayService",
    "ScaledObject",
    "ServiceMonitor",
    "PrometheusRule",
    "Certificate",
    "ExternalSecret",
    "HTTPRoute",
    "GRPCRoute",
}


def test_helm_3_and_4_agree(values: Path) -> None:
    assert by_key(render("helm3", values)) == by_key(render("helm4", values))


def test_what_is_rendered_is_what_was_reviewed(values: Path, documents: tuple[Document, ...]) -> None:
    """``FATHOM_UPDATE_GOLDENS=1 pytest tests/chart`` writes them anew; read the difference before you commit it."""
    golden = GOLDENS / f"{values.stem.removesuffix('-values')}.yaml"
    if os.environ.get("FATHOM_UPDATE_GOLDENS"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(yaml.safe_dump_all(sorted(documents, key=key), sort_keys=True, width=120))
    assert list(read_documents(golden.read_text())) == sorted(documents, key=key)


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_kubernetes_takes_every_document(documents: tuple[Document, ...], version: str) -> None:
    checked = 0
    for document in documents:
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)
            checked += 1
    assert checked >= 30


# Names that YAML reads as a truth value or a number where a template forgets the quotation marks, and the longest one.
@pytest.mark.parametrize("release", ["n", "on", "1e3", "a" * 53, "y", "fathom", "0"])
def test_any_release_name_works(release: str) -> None:
    documents = render("helm4", MINIMAL, release)
    by_key(documents)
    for document in documents:
        # Kubernetes adds eleven characters to the name of a StatefulSet for the label of its revision.
        name, limit = document["metadata"]["name"], 52 if document["kind"] == "StatefulSet" else 63
        assert isinstance(name, str)
        assert len(name) <= limit, f"{name} is longer than {limit}"
        for label, value in document["metadata"]["labels"].items():
            assert isinstance(value, str), f"{label} is no text in {name}"
            assert len(value) <= 63
        kubernetes_validate.validate(document, "1.34", strict=True)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("services.planner.replica=2", "replica"),
        ("servces.planner.replicas=2", "servces"),
        ("services.plannner.replicas=2", "plannner"),
        ("nats.replicas=2", "replicas"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("services.sandbox.image=gpu2", "image"),
        ("services.retrieval.image=policy", "image"),  # it has no retrieval
        ("services.planner.image=policy-gpu", "image"),
        (f"image.digests.gpu=sha256:{'0' * 64}", "gpu"),  # a target of an earlier version
        ("services.planner.replicas=many", "replicas"),
        ("objectStore.secretKey=x", "secretKey"),
        ("training.job.gpu=1", "gpu"),
        ("networkPolicy.enabled=perhaps", "enabled"),
        ("networkPolicy.externalStores[0].cidr=10.0.0.0/8", "port"),
        ("networkPolicy.externalStores[0].port=9000", "cidr"),
        ("networkPolicy.externalStores[0].cidr=s3.example.com", "cidr"),
        ("networkPolicy.dns.ports[0]=dns", "ports"),
        ("image.digests.core=latest", "core"),
        ("grading.grader=em", "grader"),
        ("grading.image=gateway", "image"),  # it has no grading
        ("quotas.acme.running=1", "acme"),  # of what kind?
        (r"quotas.tenant\.acme.running=-1", "running"),
        (r"quotas.tenant\.acme.perSecond=0", "perSecond"),
        (r"quotas.tenant\.acme.perMinute=9", "perMinute"),
        ("services.policy.keda.lagThreshold=4", "lagThreshold"),  # policy has no queue
        ("services.reward.keda.enabled=true", "keda"),
        ("services.sandbox.boundary=gvisor", "boundary"),
        ("services.planner.boundary=vm", "boundary"),
        ("grading.enabled=perhaps", "enabled"),
        ("grading.calls[0]=sandbox", "calls"),
        ("shadow.replicas=2", "replicas"),
        ("shadow.calls[0]=policy", "calls"),
        ("services.memory.replicas=2", "replicas"),  # on SQLite
        ("memory.databaseUrl=postgresql://u:p@h/d", "databaseUrl"),  # a password belongs into a Secret
        ("certificates.duration=90d", "duration"),  # Go has no days
    ],
)
@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_a_typing_error_in_the_values_is_refused_by_name(helm: str, setting: str, named: str) -> None:
    with pytest.raises(HelmFailed, match=named):
        render(helm, MINIMAL, "demo", setting)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("objectStore.dev.enabled=false",), "objectStore.endpoint is needed"),
        (("nats.enabled=false",), "nats.external.servers is needed"),
        (OUTSIDE, "externalStores is needed: objectStore.endpoint is s3.example.com"),
        ((*OUTSIDE, *PLACE), "externalStores is needed: objectStore.endpoint is s3.example.com.* its port 443"),
        (
            ("nats.enabled=false", r"nats.external.servers=a.example.com:9000\,b.example.com", *PLACE),
            "nats.external.servers is b.example.com.* its port 4222",
        ),
        (("nats.enabled=false", "nats.external.servers=nats.example.com"), "nats.external.servers is nats.example.com"),
        (("services.sandbox.autoscaling.enabled=true",), "know the pods of a StatefulSet by name"),
        (("services.planner.autoscaling.enabled=true", "services.planner.keda.enabled=true"), "both own the replicas"),
        (("gateway.httpRoute.enabled=true",), "parentRefs is needed"),
        ((*ROUTE,), "gateway.httpRoute.hostnames is needed, or gateway.allowedHosts"),
        ((*ROUTE, "gateway.httpRoute.hostnames[0]=*.example.com"), r"gateway.allowedHosts is needed: .*\*.example.com"),
        (("gateway.grpcRoute.enabled=true",), "ingressNamespace is needed"),
        (("policyRayService.enabled=true", "policyRayService.autoscaling=true"), "apiServer is needed"),
        ((*CERTIFIED, "certificates.duration=720h"), "renewBefore is 720h, not less than the 720h of certificates.dur"),
        ((*CERTIFIED, "certificates.duration=43199m60s"), "renewBefore is 720h, not less than the 43199m60s of certif"),
        ((*CERTIFIED, "certificates.duration=59m59s"), "duration is 59m59s, and cert-manager makes none for less"),
        ((*CERTIFIED, "certificates.renewBefore=299s"), "renewBefore is 299s, and cert-manager takes nothing below"),
        (("training.job.maxWorkers=4",), "maxWorkers: networkPolicy.apiServer is needed"),
        (("training.job.maxWorkers=4", "training.queue=q"), "maxWorkers: Kueue admits a training with all its workers"),
        (("training.job.maxWorkers=2", "training.job.workers=4"), "maxWorkers is 2, less than the 4 of workers"),
        (("training.jobs.a.maxWorkers=3",), "maxWorkers: networkPolicy.apiServer is needed"),
        (("nats.storage.size=500Mi",), "whole number of Gi"),
        (("nats.resources.limits.memory=500m",), "500m is no size of memory"),
        (
            ("nats.enabled=false", "nats.external.servers=a:4222", "services.planner.keda.enabled=true"),
            "the lag is read from the NATS of this release",
        ),
        (("services.policy.keda.enabled=true",), "services.policy.keda.prometheusUrl: KEDA reads the tokens in flight"),
        (("shadow.enabled=true", "shadow.env.candidate=tiny@2"), "shadow.env.baseline is needed"),
        (("services.sandbox.runtimeClassName=kata-qemu",), "services.sandbox.boundary is needed: .*kata-qemu"),
        (("memory.databaseSecret=m",), "memory.databasePlaces is needed"),
        (("retrieval.databaseSecret=r",), "retrieval.databasePlaces is needed"),
        (PROVIDER, "services.gateway.outside is needed: gateway.oidc.jwksUrl is https://id.example.com/keys"),
        (("training.jobs.a-name-of-21-letters.workers=1", "nameOverride=x"), "nameOverride"),
    ],
)
def test_values_that_contradict_each_other_are_refused(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        render("helm4", MINIMAL, "demo", *settings)


@pytest.mark.parametrize(
    "settings",
    [
        ("memory.databaseSecret=m", "retrieval.databaseSecret=r", *PROVIDER, "networkPolicy.enabled=false"),
        (*PROVIDER, "services.gateway.outside=true"),
        ("objectStore.dev.enabled=false", "objectStore.endpoint=s3.example.com:9000", *PLACE),
        (PROVIDER[0], "gateway.oidc.jwksUrl=http://keycloak.identity.svc:8080/keys"),
        (*CERTIFIED, "certificates.duration=1h", "certificates.renewBefore=59m59s"),
    ],
)
def test_values_that_nothing_stands_against_are_taken(settings: tuple[str, ...]) -> None:
    assert ("Deployment", "demo-fathom-gateway") in by_key(render("helm4", MINIMAL, "demo", *settings))


@pytest.mark.parametrize(
    ("helm", "limit", "expected"),
    [
        ("helm3", "2Gi", "1792MiB"),
        ("helm4", "2Gi", "1792MiB"),
        ("helm3", "1.5G", "1251MiB"),
        ("helm4", "1073741824", "896MiB"),
        ("helm4", "null", None),
    ],
)
def test_the_bus_server_collects_garbage_before_the_kernel_ends_it(helm: str, limit: str, expected: str | None) -> None:
    found = by_key(render(helm, MINIMAL, "demo", f"nats.resources.limits.memory={limit}"))
    (container,) = found["StatefulSet", "demo-fathom-nats"]["spec"]["template"]["spec"]["containers"]
    assert {item["name"]: item.get("value") for item in container["env"]}.get("GOMEMLIMIT") == expected


def test_schema_and_readme_follow_from_the_values() -> None:
    drifted = [str(path) for path, content in generate_files().items() if path.read_text() != content]
    assert not drifted, "python deploy/chart.py generate"


def test_memory_on_postgresql_is_a_deployment_of_two_without_a_volume() -> None:
    secret = "memory.databaseSecret=fathom-memory"
    places = ("memory.databasePlaces[0].cidr=10.9.8.7/32", "memory.databasePlaces[0].port=5432")
    found = by_key(render("helm4", MINIMAL, "demo", secret, *places, "backup.enabled=true", "backup.urlSecret=b"))
    assert ("StatefulSet", "demo-fathom-memory") not in found
    spec = found["Deployment", "demo-fathom-memory"]["spec"]
    assert spec["replicas"] == 2
    (container,) = spec["template"]["spec"]["containers"]
    url = {item["name"]: item for item in container["env"]}["FATHOM_MEMORY_DATABASE_URL"]
    assert url["valueFrom"]["secretKeyRef"] == {"name": "fathom-memory", "key": "url"}
    settings = found["ConfigMap", "demo-fathom-memory"]["data"]
    assert "FATHOM_MEMORY_PATH" not in settings
    assert "PersistentVolumeClaim" not in str(spec)
    assert ("PodDisruptionBudget", "demo-fathom-memory") in found
    # Nobody else may go to the database, and the job of backups looks for no file.
    policies = {name: item for (kind, name), item in found.items() if kind == "NetworkPolicy"}
    assert [name for name, item in policies.items() if "10.9.8.7/32" in str(item)] == ["demo-fathom-memory"]
    job = str(found["CronJob", "demo-fathom-backup"])
    assert "FATHOM_MEMORY_PATH" not in job
    assert "data-demo-fathom-memory-0" not in job
    more = by_key(render("helm4", MINIMAL, "demo", secret, *places, "services.memory.replicas=4"))
    assert more["Deployment", "demo-fathom-memory"]["spec"]["replicas"] == 4
    needs = found["ConfigMap", "demo-fathom-needs"]["data"]["needs.json"]
    assert json.loads(needs)["secrets"]["fathom-memory"] == ["url"]


def test_retrieval_alone_reaches_its_database() -> None:
    secret = "retrieval.databaseSecret=fathom-corpora"
    places = ("retrieval.databasePlaces[0].cidr=10.9.8.6/32", "retrieval.databasePlaces[0].port=5432")
    found = by_key(render("helm4", MINIMAL, "demo", secret, *places))
    (container,) = found["Deployment", "demo-fathom-retrieval"]["spec"]["template"]["spec"]["containers"]
    url = {item["name"]: item for item in container["env"]}["FATHOM_RETRIEVAL_DATABASE_URL"]
    assert url["valueFrom"]["secretKeyRef"] == {"name": "fathom-corpora", "key": "url"}
    policies = {name: item for (kind, name), item in found.items() if kind == "NetworkPolicy"}
    assert [name for name, item in policies.items() if "10.9.8.6/32" in str(item)] == ["demo-fathom-retrieval"]
    needs = found["ConfigMap", "demo-fathom-needs"]["data"]["needs.json"]
    assert json.loads(needs)["secrets"]["fathom-corpora"] == ["url"]


def test_production_is_graded_unless_it_is_said_otherwise() -> None:
    before, after = render("helm4", MINIMAL), render("helm4", MINIMAL, "demo", "grading.enabled=false")
    assert by_key(before)["Deployment", "demo-fathom-grading"]["spec"]["replicas"] == 1
    gone = by_key(before).keys() - by_key(after).keys()
    kinds = ("ConfigMap", "Deployment", "NetworkPolicy", "Service", "ServiceAccount")
    assert gone == {(kind, "demo-fathom-grading") for kind in kinds}
    assert "grading" not in str([item for item in after if item["kind"] == "NetworkPolicy"])
    settings = ("grading.env.share=0.25", "grading.replicas=2")
    found = by_key(render("helm4", MINIMAL, "demo", *settings))
    assert found["ConfigMap", "demo-fathom-grading"]["data"]["FATHOM_GRADING_SHARE"] == "0.25"
    assert ("PodDisruptionBudget", "demo-fathom-grading") in found


def test_new_weights_are_compared_only_where_it_is_said_and_by_one_pod() -> None:
    before = by_key(render("helm4", MINIMAL))
    settings = ("enabled=true", "env.candidate=tiny@2", "env.baseline=tiny@1", "env.share=0.05")
    after = by_key(render("helm4", MINIMAL, "demo", *(f"shadow.{setting}" for setting in settings)))
    kinds = ("ConfigMap", "Deployment", "NetworkPolicy", "Service", "ServiceAccount")
    assert after.keys() - before.keys() == {(kind, "demo-fathom-shadow") for kind in kinds}
    spec = after["Deployment", "demo-fathom-shadow"]["spec"]
    # While it rolls, too: two of them would play each question twice.
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxSurge"]) == (1, 0)
    assert spec["template"]["spec"]["containers"][0]["command"] == ["fathom", "shadow", "watch"]
    # A pod that ended with its decision would be started again for ever.
    assert after["ConfigMap", "demo-fathom-shadow"]["data"]["FATHOM_SHADOW_STAYS"] == "true"


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        ((), ["localhost", "127.0.0.1"]),
        (
            ("gateway.ingress.enabled=true", "gateway.ingress.host=ask.example.com"),
            ["localhost", "127.0.0.1", "ask.example.com"],
        ),
        ((*ROUTE, "gateway.httpRoute.hostnames[0]=a.example.com"), ["localhost", "127.0.0.1", "a.example.com"]),
        (
            (*ROUTE, "gateway.httpRoute.hostnames[0]=*.example.com", "gateway.allowedHosts[0]=a.example.com"),
            ["a.example.com"],
        ),
        ((*ROUTE, "gateway.httpRoute.hostnames[0]=*.example.com", "gateway.allowedHosts[0]=*"), ["*"]),
    ],
)
def test_the_gateway_answers_to_the_names_that_its_routes_bring(settings: tuple[str, ...], hosts: list[str]) -> None:
    """An Ingress without the same name in allowedHosts led to a gateway that refused every request."""
    found = by_key(render("helm4", MINIMAL, "demo", *settings))["ConfigMap", "demo-fathom-gateway"]
    assert json.loads(found["data"]["FATHOM_GATEWAY_ALLOWED_HOSTS"]) == hosts


def test_a_change_of_a_setting_rolls_its_pods() -> None:
    """The checksum of the ConfigMaps stands on the pods."""
    before, after = render("helm4", MINIMAL), render("helm4", MINIMAL, "demo", "services.planner.env.max_rounds=7")
    checksum = [
        by_key(documents)["Deployment", "demo-fathom-planner"]["spec"]["template"]["metadata"]["annotations"]
        for documents in (before, after)
    ]
    assert checksum[0] != checksum[1]
