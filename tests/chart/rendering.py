"""Renders the chart with real Helms and reads what comes out."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "fathom"
TOOLS = ROOT / ".fathom" / "tools"
CI_VALUES = sorted((CHART / "ci").glob("*.yaml"))
HELMS = ("helm3", "helm4")
# Reading in Python took more processor time than Helm's rendering.
FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Document = dict[str, Any]


class HelmFailed(Exception):
    """Helm refused; the text is what it said."""


@functools.cache
def render(helm: str, values: Path, release: str = "demo", *settings: str) -> tuple[Document, ...]:
    """Every document of the chart, tests included; raises ``HelmFailed``."""
    command = [str(TOOLS / helm), "template", release, str(CHART), "--namespace", "research", "-f", str(values)]
    for setting in settings:
        command += ["--set", setting]
    # Helm is written in Go, and without this collects garbage for two fifths of its time.
    environ = {**os.environ, "GOGC": "400"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise HelmFailed(done.stderr)
    return read_documents(done.stdout)


def read_documents(text: str) -> tuple[Document, ...]:
    """Return the documents of a text of YAML without those that are empty."""
    return tuple(document for document in yaml.load_all(text, Loader=FAST) if document)


def key(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def by_key(documents: tuple[Document, ...]) -> dict[tuple[str, str], Document]:
    """Documents by kind and name; a name that comes twice is an error."""
    found = {key(document): document for document in documents}
    assert len(found) == len(documents), "two documents have one name"
    return found


def pods(documents: tuple[Document, ...]) -> Iterator[tuple[str, Document, Document]]:
    """(where it stands, labels, pod spec) of every pod that these documents would make."""
    for document in documents:
        name = "/".join(key(document))
        spec = document.get("spec", {})
        if document["kind"] == "Pod":
            yield name, document["metadata"]["labels"], spec
        elif document["kind"] in ("Deployment", "StatefulSet"):
            yield name, spec["template"]["metadata"]["labels"], spec["template"]["spec"]
        elif document["kind"] in ("Job", "CronJob"):
            template = (spec["jobTemplate"]["spec"] if document["kind"] == "CronJob" else spec)["template"]
            yield name, template["metadata"]["labels"], template["spec"]
        elif document["kind"] == "RayJob":
            submitter = spec["submitterPodTemplate"]
            yield f"{name}/submitter", submitter["metadata"]["labels"], submitter["spec"]
            yield from ray_pods(name, spec["rayClusterSpec"])
        elif document["kind"] == "RayService":
            yield from ray_pods(name, spec["rayClusterConfig"])


def ray_pods(name: str, cluster: Document) -> Iterator[tuple[str, Document, Document]]:
    for group in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", ())):
        template = group["template"]
        yield f"{name}/{group.get('groupName', 'head')}", template["metadata"]["labels"], template["spec"]


def containers(documents: tuple[Document, ...]) -> Iterator[tuple[str, Document]]:
    for name, _, spec in pods(documents):
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield f"{name}/{container['name']}", container
