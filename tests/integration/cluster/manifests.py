"""Reads workloads, their environment and their volumes from rendered documents, as the kubelet would."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Document = dict[str, Any]
Secrets = Mapping[str, Mapping[str, str]]

SIMULATED = {
    "pod": {"containers", "volumes", "terminationGracePeriodSeconds", "securityContext", "restartPolicy"},
    "container": {
        "name", "image", "command", "args", "env", "envFrom", "ports", "startupProbe", "readinessProbe",
        "livenessProbe", "lifecycle", "securityContext", "volumeMounts",
    },
}  # fmt: skip
NOT_SIMULATED = {
    "pod": {
        "serviceAccountName": "there is no API server to speak to",
        "automountServiceAccountToken": "likewise: no pod has a token",
        "enableServiceLinks": "no pod is given variables that the manifest does not name",
        "topologySpreadConstraints": "one node",
        "imagePullSecrets": "nothing is pulled",
        "priorityClassName": "one node, nothing is evicted",
        "nodeSelector": "one node",
        "tolerations": "one node",
        "affinity": "one node",
        "runtimeClassName": "gVisor is not here",
    },
    "container": {
        "imagePullPolicy": "nothing is pulled",
        "resources": "control groups belong to the machine that the test runs on",
    },
}
REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


class Unsupported(Exception):
    """The manifest asks for something that this cluster neither does nor knowingly leaves out."""


@dataclass(frozen=True)
class Workload:
    """A Deployment, a StatefulSet or a bare Pod."""

    kind: str
    name: str
    replicas: int
    labels: Mapping[str, str]
    spec: Document
    """The pod's spec."""
    claims: tuple[str, ...] = ()
    """Names of the volumes that outlive a pod."""

    @property
    def component(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def container(self) -> Document:
        (only,) = self.spec["containers"]
        checked: Document = only
        return checked


def workloads(documents: tuple[Document, ...]) -> Iterator[Workload]:
    """Return what would make pods, without ``helm test`` hooks; raises ``Unsupported`` for unknown fields."""
    for document in documents:
        spec, name = document.get("spec", {}), document["metadata"]["name"]
        if document["kind"] not in ("Deployment", "StatefulSet"):
            continue
        claims = tuple(claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ()))
        template = spec["template"]
        yield check_workload(
            Workload(
                document["kind"],
                name,
                spec.get("replicas", 1),
                template["metadata"]["labels"],
                template["spec"],
                claims,
            )
        )


def hook(documents: tuple[Document, ...], event: str) -> Workload:
    """The pod that Helm runs at an event, such as ``test``."""
    (found,) = [
        document
        for document in documents
        if document["metadata"].get("annotations", {}).get("helm.sh/hook") == event and document["kind"] == "Pod"
    ]
    return check_workload(Workload("Pod", found["metadata"]["name"], 1, found["metadata"]["labels"], found["spec"]))


def job(documents: tuple[Document, ...], component: str) -> Workload:
    """The pod of a component's only Job; what its controller would try again is not simulated."""
    (found,) = [
        document
        for document in documents
        if document["kind"] == "Job" and document["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    template = found["spec"]["template"]
    return check_workload(
        Workload("Job", found["metadata"]["name"], 1, template["metadata"]["labels"], template["spec"])
    )


def running(pod: Workload, name: str, command: list[str]) -> Workload:
    """A bare pod like another one with a command of one's own, as ``kubectl run`` makes them."""
    container = {**pod.container, "name": name, "command": command}
    return replace(pod, name=name, spec={**pod.spec, "containers": [container]})


def check_workload(workload: Workload) -> Workload:
    for what, fields in (("pod", workload.spec), ("container", workload.container)):
        unknown = set(fields) - SIMULATED[what] - set(NOT_SIMULATED[what])
        if unknown:
            raise Unsupported(f"{workload.name}: {what} has {sorted(unknown)}")
    return workload


@dataclass(frozen=True)
class Surroundings:
    """Hold what a pod's environment and volumes may refer to."""

    config_maps: Mapping[str, Mapping[str, str]]
    secrets: Secrets
    namespace: str = "research"

    @staticmethod
    def of(documents: tuple[Document, ...], secrets: Secrets) -> Surroundings:
        maps = {item["metadata"]["name"]: item["data"] for item in documents if item["kind"] == "ConfigMap"}
        return Surroundings(maps, secrets)

    def environment(self, container: Document, pod: str, address: str) -> dict[str, str]:
        """The container's variables in the kubelet's order: ``envFrom``, then ``env`` with ``$(NAME)`` put in.

        Raises ``KeyError`` for a ConfigMap, Secret or key that is not there: such a pod would not start.
        """
        found: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            (kind, reference), *more = source.items()
            if more or kind not in ("configMapRef", "secretRef"):
                raise Unsupported(f"envFrom {source}")
            store = self.config_maps if kind == "configMapRef" else self.secrets
            found.update(store[reference["name"]])
        fields = {"metadata.name": pod, "metadata.namespace": self.namespace, "status.podIP": address}
        for item in container.get("env", ()):
            found[item["name"]] = self._value(item, found, fields)
        return found

    def _value(self, item: Document, found: Mapping[str, str], fields: Mapping[str, str]) -> str:
        if "valueFrom" not in item:
            return expand(item.get("value", ""), found)
        ((kind, reference),) = item["valueFrom"].items()
        if kind == "secretKeyRef":
            return self.secrets[reference["name"]][reference["key"]]
        if kind == "configMapKeyRef":
            return self.config_maps[reference["name"]][reference["key"]]
        if kind == "fieldRef":
            return fields[reference["fieldPath"]]
        raise Unsupported(f"valueFrom {item['valueFrom']}")

    def files(self, volume: Document) -> dict[str, str] | None:
        """File names and contents of a ConfigMap or Secret volume; None for a volume of another kind."""
        if "configMap" in volume:
            content = self.config_maps[volume["configMap"]["name"]]
            items = volume["configMap"].get("items")
        elif "secret" in volume:
            content = self.secrets[volume["secret"]["secretName"]]
            items = volume["secret"].get("items")
        else:
            return None
        if items is None:
            return dict(content)
        return {item["path"]: content[item["key"]] for item in items}


def expand(text: str, found: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` where the name is known, and leave it as it is where not, as Kubernetes does."""
    return REFERENCE.sub(lambda match: found.get(match[1], match[0]), text)
