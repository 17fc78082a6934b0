"""Learners on another node than the driver: they publish and checkpoint though the two share no disk."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.two_nodes import DISK, MARK, NAMESPACES

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: Ray's sockets lie below it, whose names may have about 100 characters."""
    trial = subprocess.run(
        ["unshare", *NAMESPACES, "sh", "-c", "mount -t tmpfs tmpfs /tmp"], capture_output=True, text=True, check=False
    )
    if trial.returncode:
        pytest.skip(f"a node with a disk of its own needs a mount namespace: {trial.stderr.strip()}")
    with tempfile.TemporaryDirectory(prefix="nodes-", dir="/tmp") as name:
        yield Path(name)


def test_learners_on_a_node_with_its_own_disk_publish_checkpoint_and_resume(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.two_nodes", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{(folder / 'second.log').read_text()}"
    found = json.loads((folder / "found.json").read_text())
    assert found["sees the first node's disk"] is False, "or this test would prove nothing"
    assert [name for name in found["on the second node's disk"] if name.startswith("fathom-models-")], (
        "the model of the store was fetched where it is needed"
    )
    assert set(found["on the first node's disk"]) <= {MARK, "ray"}, f"nothing passed through the driver's {DISK}"
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= set(found["published"])
    assert found["weights moved"]
    assert found["checkpoint"] == [".metadata", "__0_0.distcp", "__1_0.distcp"], "every rank wrote its shards"
    # Two ranks wrote it, one has read it: the same parameters, put together from both shards.
    assert found["resumed on one rank"] < 1e-6
