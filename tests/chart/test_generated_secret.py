"""Keys of the store for trials: made once, kept in every upgrade, and only where the values ask for it."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.chart.api_server import answering
from tests.chart.rendering import CHART, TOOLS, Document, read_documents

NAME = "fathom-object-store"


def secret(there: Mapping[str, Mapping[str, Any]], *settings: str) -> Document | None:
    """Return what an install or upgrade on a cluster with these Secrets would make of the store's Secret.

    By Helm 3: Helm 4 asks such a server for the mapping of every kind first, and looks up the same afterwards.
    """
    with answering(there) as url:
        command = [
            str(TOOLS / "helm3"), "template", "demo", str(CHART), "--namespace", "research", "--dry-run=server",
            "--kube-apiserver", url, "-f", str(CHART / "ci" / "minimal-values.yaml"), "--show-only", "templates/minio.yaml",
        ]  # fmt: skip
        command += [word for setting in settings for word in ("--set", setting)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = [document for document in read_documents(done.stdout) if document["kind"] == "Secret"]
    return found[0] if found else None


def test_keys_are_made_once_and_kept() -> None:
    made = secret({}, "objectStore.dev.generateSecret=true")
    assert made is not None
    assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    keys = {name: base64.b64decode(value).decode() for name, value in made["data"].items()}
    assert len(keys["AWS_ACCESS_KEY_ID"]) == 20
    assert len(keys["AWS_SECRET_ACCESS_KEY"]) == 40
    live = {NAME: {**made, "metadata": {"name": NAME, "namespace": "research"}}}
    again = secret(live, "objectStore.dev.generateSecret=true", "image.tag=2.0.0")
    assert again is not None
    assert again["data"] == made["data"], "an upgrade would lock MinIO's callers out"


def test_none_is_made_unless_it_is_asked_for() -> None:
    assert secret({}) is None
