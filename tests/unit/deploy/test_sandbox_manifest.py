"""The sandbox's manifest: valid for Kubernetes, shut as SECURITY.md says, and true to the code's own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fathom.rpc.host import Runtime
from fathom.rpc.server import HEALTH_NAMES
from services.sandbox.config import Config
from services.sandbox.isolation import Level

MANIFEST = Path(__file__).resolve().parents[3] / "deploy/k8s/sandbox/sandbox.yaml"


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_it_is_valid(documents: dict[str, dict[str, Any]], version: str) -> None:
    for document in documents.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_pod_is_shut(documents: dict[str, dict[str, Any]]) -> None:
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == documents["RuntimeClass"]["metadata"]["name"]
    assert documents["RuntimeClass"]["handler"] == "runsc"
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert not [variable for variable in container["env"] if "valueFrom" in variable]


def test_nothing_leaves_but_to_named_peers(documents: dict[str, dict[str, Any]]) -> None:
    policy = documents["NetworkPolicy"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["podSelector"] == documents["Deployment"]["spec"]["selector"]
    assert all(rule["to"] and rule["ports"] for rule in policy["egress"])
    assert not [peer for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]


def test_settings_probes_and_ports_exist_in_the_code(documents: dict[str, dict[str, Any]]) -> None:
    [container] = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    known = {f"FATHOM_RUNTIME_{name.upper()}" for name in Runtime.model_fields}
    known |= {f"FATHOM_SANDBOX_{name.upper()}" for name in Config.model_fields}
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    assert set(values) <= known
    assert values["FATHOM_SANDBOX_MIN_ISOLATION"] in {level.word for level in Level}
    names = {*HEALTH_NAMES, *(f"isolation.{level.word}" for level in Level)}
    probes = [container[probe]["grpc"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")]
    assert {probe["service"] for probe in probes} <= names
    ports = {port["containerPort"] for port in container["ports"]}
    assert {probe["port"] for probe in probes} <= ports
    assert {int(values[f"FATHOM_RUNTIME_{name}"]) for name in ("PORT", "METRICS_PORT")} == ports
