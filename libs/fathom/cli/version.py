"""The text of ``fathom version``: what someone who reports a bug should paste."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import fathom
from fathom.transport.rpc.contract import contract_version, proto_hash

PACKAGE = Path(fathom.__file__).parent


def describe_version() -> str:
    """Return version, contract, Python and, from a checkout, the commit, one line each."""
    lines = [
        f"fathom {fathom.__version__}",
        f"contract {contract_version()} ({proto_hash()[:12]})",
        f"python {platform.python_version()} on {platform.system()} {platform.machine()}",
    ]
    if commit := read_commit(PACKAGE.parents[1]):
        lines.append(f"commit {commit}")
    return "\n".join(lines)


def read_commit(root: Path) -> str:
    """Return the commit of the checkout at ``root``, with ``-dirty`` when files differ; empty where it is none.

    ``root`` must hold the checkout itself: a wheel may be installed below somebody else's repository.
    """
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""  # git is not installed, or refuses a folder that belongs to another user
