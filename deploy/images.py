"""Builds the images: ``python deploy/images.py [core|gpu|sandbox …]``, set by BUILDER, BASE, REPOSITORY, TAG, ENGINE.

BUILDER is buildah (where it is installed) or docker. Prints the size of each image in the end. BASE is the base
image, by digest for a release; ENGINE=cpu leaves the GPU engine out of ``gpu``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGETS = ("sandbox", "core", "gpu")


def command(builder: str, target: str, environ: Mapping[str, str]) -> list[str]:
    """The build of one target; raises ``ValueError`` for a builder that is not known."""
    name = f"{environ.get('REPOSITORY', 'fathom')}-{target}:{environ.get('TAG', 'dev')}"
    settings = [f"--build-arg={key}={environ[key]}" for key in ("BASE", "ENGINE") if environ.get(key)]
    common = ["--target", target, "--tag", name, "--file", "deploy/docker/Dockerfile", *settings]
    if builder == "docker":
        return ["docker", "build", *common, "."]
    if builder == "buildah":
        # Extra options (isolation, storage, certificates) are the machine's own matter.
        return ["buildah", "bud", *environ.get("BUILDER_OPTIONS", "").split(), *common, "."]
    raise ValueError(f"BUILDER={builder}: known are buildah and docker")


def size(builder: str, name: str) -> str:
    """Megabytes of an image, as the builder counts them."""
    inspect = ["docker", "image", "inspect", name] if builder == "docker" else ["buildah", "images", "--json", name]
    found = json.loads(subprocess.run(inspect, check=True, capture_output=True, text=True).stdout)[0]
    given = found.get("Size") or found.get("size")
    return f"{given / 1e6:.0f} MB" if isinstance(given, int) else str(given)


def main(targets: Sequence[str]) -> int:
    """Builds; gives 1 when there is no builder."""
    builder = os.environ.get("BUILDER") or next((name for name in ("buildah", "docker") if shutil.which(name)), "")
    if not builder:
        print("neither buildah nor docker is installed", file=sys.stderr)
        return 1
    for target in targets or TARGETS:
        step = command(builder, target, os.environ)
        print("+", *step, flush=True)
        subprocess.run(step, check=True, cwd=ROOT)
        name = step[step.index("--tag") + 1]
        print(f"{name}: {size(builder, name)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
