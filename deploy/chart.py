"""Generate the files that follow from the chart's values: its schema and its README.

``python deploy/chart.py generate|check`` writes or compares them; ``check`` exits with 1 and names what has drifted.
Needs nothing but PyYAML; ``deploy/helm.py`` fetches the Helm that the tests render with.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from deploy import images  # noqa: E402

CHART = ROOT / "charts" / "fathom"

WATCHES = ("grading", "shadow")
"""Blocks beside the services that are shaped like them."""

OWN_KEYS = ("keda", "boundary")
"""Keys that would do nothing, or something else, in the block of a service that does not name them itself."""

IMAGES_OF = {
    "gateway": ("gateway", "core"),
    "policy": ("policy", "core", "policy-gpu"),
    "retrieval": ("core", "retrieval-gpu"),
    "sandbox": ("sandbox",),
    **dict.fromkeys(WATCHES, ("operations", "core")),
}
"""Images that have a service or a watch; all others are in core alone."""

QUOTAS: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"pattern": r"^(tool|model|source|tenant)\..+$"},
    "additionalProperties": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {
            "running": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
            "perSecond": {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
        },
    },
}
"""Quotas by name, within the bounds of the services (``fathom.core.admission.quota``)."""

PLACEMENTS = ("training.job.placement", "training.job.headPlacement")
"""Blocks that say where pods of a training may land."""

FREE = {
    "image.digests": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    "gateway.ingress.annotations": {"type": "string"},
    "serviceAccounts.annotations": {"type": "string"},
    **{
        f"{block}.{key}": {"type": "string"}
        for block in ("defaults", "pod", "nats")
        for key in ("nodeSelector", "annotations", "podAnnotations", "podLabels")
    },
    "defaults.serviceAnnotations": {"type": "string"},
    "defaults.serviceAccountAnnotations": {"type": "string"},
    "defaults.autoscaling.behavior": {},
    **{f"{block}.affinity": {} for block in ("defaults", "pod", "nats", *PLACEMENTS)},
    **{f"{block}.nodeSelector": {"type": "string"} for block in PLACEMENTS},
    "networkPolicy.rayOperatorNamespace": {"type": "string"},
    "networkPolicy.ingressNamespace": {"type": "string"},
    "networkPolicy.monitoringNamespace": {"type": "string"},
    "networkPolicy.kedaNamespace": {"type": "string"},
    "monitoring.serviceMonitor.labels": {"type": "string"},
    "monitoring.rules.labels": {"type": "string"},
    "monitoring.dashboards.labels": {"type": "string"},
    "certificates.secrets": {"type": "string"},
    "externalSecrets.secrets": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["key", "property"],
            "additionalProperties": False,
            "properties": {"key": {"type": "string"}, "property": {"type": "string"}},
        },
    },
}
"""Mappings whose keys are the user's; the schema of their values."""

CHOICES: dict[str, list[Any]] = {
    "pullPolicy": ["IfNotPresent", "Always", "Never"],
    "logLevel": ["debug", "info", "warning", "error"],
    "nats.replicas": [1, 3],
    "nats.external.streamReplicas": [1, 3, 5],
    "gateway.service.type": ["ClusterIP", "LoadBalancer", "NodePort"],
    "externalSecrets.store.kind": ["SecretStore", "ClusterSecretStore"],
    "certificates.issuer.kind": ["Issuer", "ClusterIssuer"],
    "defaults.boundary": ["", "guest-kernel", "vm"],
}
"""Allowed values, by path or by the key alone."""

DURATIONS = ("certificates.duration", "certificates.renewBefore")
"""Durations as Go writes them."""

PORT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 65535}
BLOCK: dict[str, Any] = {
    "type": "object",
    "required": ["cidr", "port"],
    "additionalProperties": False,
    "properties": {"cidr": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}, "port": PORT},
}
PODS: dict[str, Any] = {
    "type": "object",
    "required": ["namespace", "port"],
    "additionalProperties": False,
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "podLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "port": PORT,
    },
}
PLACE: dict[str, Any] = {"anyOf": [BLOCK, PODS]}
ELEMENTS: dict[str, dict[str, Any]] = {
    "global.imagePullSecrets": {"type": "string"},
    "gateway.allowedHosts": {"type": "string"},
    "gateway.httpRoute.hostnames": {"type": "string"},
    "gateway.grpcRoute.hostnames": {"type": "string"},
    "networkPolicy.outsideCidrs": {"type": "string"},
    "networkPolicy.outsideExcept": {"type": "string"},
    "networkPolicy.externalStores": PLACE,
    "networkPolicy.apiServer": BLOCK,
    "networkPolicy.dns.ports": PORT,
    "memory.databasePlaces": PLACE,
    "retrieval.databasePlaces": PLACE,
}
"""Schemas of list items; other lists hold objects of Kubernetes, which the API server checks."""

ONE_POD_ON_SQLITE: dict[str, Any] = {
    "if": {"properties": {"memory": {"properties": {"databaseSecret": {"const": ""}}}}},
    "then": {
        "properties": {"services": {"properties": {"memory": {"properties": {"replicas": {"maximum": 1}}}}}},
    },
}
"""Two pods on one SQLite file would each have their own conversations."""

QUANTITY = {"type": ["string", "number"], "pattern": "^[0-9.]+(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}
RESOURCES = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        part: {"type": "object", "additionalProperties": QUANTITY} for part in ("requests", "limits")
    },
}  # fmt: skip


def schema_of(value: Any, path: str) -> dict[str, Any]:
    """Return the JSON schema of a default value: closed objects, types as in the default, known choices."""
    key = path.rpartition(".")[2]
    if key in ("resources", "headResources"):
        return RESOURCES
    if path.startswith("defaults.rollout."):
        return {"type": ["integer", "string"]}
    if path in DURATIONS:
        return {"type": "string", "pattern": "^([0-9]+(h|m|s))+$"}
    choices = CHOICES.get(path) or CHOICES.get(key)
    if choices:
        return {"enum": choices}
    if path in FREE:
        return {"type": "object", "additionalProperties": FREE[path]}
    if isinstance(value, dict):
        properties = {name: schema_of(item, f"{path}.{name}" if path else name) for name, item in value.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    if isinstance(value, list):
        return {"type": "array", "items": ELEMENTS.get(path, {"type": "object"})}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    return {"type": "string"}


def service_schema(values: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a service: the defaults' keys and those that some service has beside them."""
    keys: dict[str, Any] = {}
    for service in values["services"].values():
        keys |= {name: item for name, item in service.items() if name not in keys}
    properties = {name: schema_of(item, f"defaults.{name}") for name, item in (keys | values["defaults"]).items()}
    properties |= {
        "kind": {"enum": ["Deployment", "StatefulSet"]},
        "image": {"enum": ["core"]},
        "calls": {"type": "array", "items": {"enum": sorted(values["services"])}},
        "env": {"type": "object", "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}},
        "scratch": QUANTITY,
        "cache": QUANTITY,
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def with_images(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a service that these images have."""
    return {**schema, "properties": {**schema["properties"], "image": {"enum": list(names)}}}


def with_own_keys(schema: dict[str, Any], service: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a service that has keys of ``OWN_KEYS`` only where its own values name them."""
    properties = {key: item for key, item in schema["properties"].items() if key not in OWN_KEYS}
    own = {key: schema_of(service[key], f"defaults.{key}") for key in OWN_KEYS if key in service}
    return {**schema, "properties": properties | own}


def make_schema(values: dict[str, Any]) -> dict[str, Any]:
    """Return the chart's values.schema.json."""
    found = schema_of({k: v for k, v in values.items() if k not in ("services", "defaults", *WATCHES)}, "")
    one = service_schema(values)
    found["properties"]["defaults"] = {**one, "properties": {k: one["properties"][k] for k in values["defaults"]}}
    found["properties"]["services"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: with_own_keys(with_images(one, IMAGES_OF.get(name, ("core",))), service)
            for name, service in values["services"].items()
        },
    }
    found["properties"]["image"]["properties"]["digests"]["propertyNames"] = {"enum": sorted(images.TARGETS)}
    found["properties"]["quotas"] = QUOTAS
    for name in WATCHES:
        watch = {
            **with_own_keys(one, values[name])["properties"],
            "enabled": {"type": "boolean"},
            "calls": {"enum": [values[name]["calls"]]},
        }
        found["properties"][name] = with_images({**one, "properties": watch}, IMAGES_OF[name])
    # The experiment has one place in the store, which its one pod writes.
    found["properties"]["shadow"]["properties"] |= {"replicas": {"enum": [1]}, "kind": {"enum": ["Deployment"]}}
    job = found["properties"]["training"]["properties"]["job"]
    found["properties"]["training"]["properties"]["jobs"] = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z][a-z0-9-]{0,20}$"},
        "additionalProperties": job,
    }
    rules = {"allOf": [ONE_POD_ON_SQLITE]}
    return {"$schema": "https://json-schema.org/draft-07/schema#", "title": "fathom", **found, **rules}


def read_options(text: str) -> list[tuple[str, str, str]]:
    """Return (path, default, comment) of every value under a ``# --`` comment, in order."""
    found: list[tuple[str, str, str]] = []
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            said = stripped.lstrip("# ").strip()
            comment = [said[3:]] if said.startswith("-- ") else [*comment, said] if comment else []
            continue
        match = re.match(r"^(\s*)([\w.-]+):\s*(.*)$", line)
        if match is None:
            comment = []
            continue
        depth, key, default = len(match[1]), match[2], match[3].split(" # ")[0]
        path = [*(part for part in path if part[0] < depth), (depth, key)]
        if comment:
            found.append((".".join(part for _, part in path), default, " ".join(comment)))
        comment = []
    return found


def make_readme(values_text: str) -> str:
    """Return the chart's README: requirements, installation, every commented value."""
    rows = "\n".join(
        f"| `{path}` | {f'`{default}`' if default else ''} | {said} |"
        for path, default, said in read_options(values_text)
    )
    return (CHART / "README.head.md").read_text() + "\n| value | default | meaning |\n|---|---|---|\n" + rows + "\n"


def generate_files() -> dict[Path, str]:
    """Return every generated file with its content."""
    text = (CHART / "values.yaml").read_text()
    return {
        CHART / "values.schema.json": json.dumps(make_schema(yaml.safe_load(text)), indent=1) + "\n",
        CHART / "README.md": make_readme(text),
    }


def main(action: str) -> int:
    """Write the files, or print those that have drifted; return the exit status."""
    drifted = [path for path, content in generate_files().items() if not path.exists() or path.read_text() != content]
    if action == "check":
        for path in drifted:
            print(f"{path} has drifted: python deploy/chart.py generate", file=sys.stderr)
        return 1 if drifted else 0
    for path, content in generate_files().items():
        path.write_text(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
