"""The node: a process tree with users, a network, mounts and process ids of its own, which vanish with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.cluster.images import ROOT

PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "mount", "pivot_root")
NAMESPACES = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin"


def why_not() -> str:
    """Return why this machine cannot be a node; empty when it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (util-linux, iproute2)"
    trial = f"PATH={SEARCHED}; mount -t tmpfs tmpfs /run && ip link add pods type bridge"
    done = subprocess.run(["unshare", *NAMESPACES, "sh", "-c", trial], capture_output=True, text=True, check=False)
    return f"namespaces are refused here: {done.stderr.strip()}" if done.returncode else ""


def inside(scenario: str, folder: Path, *arguments: str, timeout_s: float) -> dict[str, Any]:
    """Plays a scenario of ``scenarios`` in a node of its own; gives its findings.

    Raises ``AssertionError`` with what it wrote when it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.integration.cluster", scenario, str(folder), *arguments]
    done = subprocess.run(
        ["unshare", *NAMESPACES, *command], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    found: dict[str, Any] = json.loads((folder / "findings.json").read_text())
    return found
