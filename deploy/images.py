"""Build the images: ``python deploy/images.py [TARGET …]``, set by the environment.

Without targets those of a release without GPUs and trainings: sandbox, operations, gateway, policy, core; by name also
trainer, policy-gpu, retrieval-gpu. deploy/docker/Dockerfile says what is in them. BUILDER is buildah (where it is
installed) or docker; BUILDER_OPTIONS are further options of its build (isolation, mounts). BASE is the base image, with
RELEASE=1 by digest or not at all; ENGINE=cpu builds trainer and policy-gpu for processors. REPOSITORY and TAG name the
images; without TAG it is the version of the package, which is what the chart asks for. PIP_INDEX_URL,
PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS say where packages come from: policy, core and what is built with ENGINE=cpu want
PyTorch without CUDA.
Builds the page first, which the context has and git has not. Prints the size of each image in the end.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVING = ("sandbox", "operations", "gateway", "policy", "core")
TARGETS = (*SERVING, "trainer", "policy-gpu", "retrieval-gpu")
BY_ENGINE = ("trainer", "policy-gpu")
"""Targets that ENGINE=cpu builds for processors."""
PASSED = ("BASE", "ENGINE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")


def choose_builder(environ: Mapping[str, str]) -> str:
    """Return the builder to use; raise ``ValueError`` for one that is not known or not installed."""
    name = environ.get("BUILDER") or next((found for found in ("buildah", "docker") if shutil.which(found)), "")
    if name not in ("buildah", "docker"):
        raise ValueError(
            f"BUILDER={name}: known are buildah and docker" if name else "neither buildah nor docker is here"
        )
    return name


def tag(target: str, environ: Mapping[str, str]) -> str:
    """Return an image's name, as the chart composes it: its tag is the version of chart and package."""
    return f"{environ.get('REPOSITORY', 'fathom')}-{target}:{environ.get('TAG') or package_version()}"


def build_command(builder: str, target: str, environ: Mapping[str, str]) -> list[str]:
    """Return the command that builds one target; raise ``ValueError`` for a release whose base has no digest."""
    if environ.get("RELEASE") and "@sha256:" not in environ.get("BASE", ""):
        raise ValueError("RELEASE=1 wants BASE by digest, e.g. docker.io/library/python:3.11.14-slim-bookworm@sha256:…")
    settings = {key: environ[key] for key in PASSED if environ.get(key)} | read_labels(environ)
    common = ["--target", target, "--tag", tag(target, environ), "--file", "deploy/docker/Dockerfile"]
    common += [f"--build-arg={key}={value}" for key, value in settings.items()]
    own = environ.get("BUILDER_OPTIONS", "").split()
    return (
        ["docker", "build", *common, *own, "."]
        if builder == "docker"
        else ["buildah", "bud", "--layers", *common, *own, "."]
    )


def package_version() -> str:
    """Return ``fathom.__version__`` without an environment that has Fathom's dependencies."""
    version: str = runpy.run_path(str(ROOT / "libs" / "fathom" / "__init__.py"))["__version__"]
    return version


def read_labels(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the build arguments for the labels: version of the package, commit of the tree."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {"VERSION": package_version(), "REVISION": environ.get("REVISION") or said or "unknown"}


def format_size(builder: str, name: str) -> str:
    """Return the size of an image in megabytes, as the builder counts it."""
    inspect = ["docker", "image", "inspect", name] if builder == "docker" else ["buildah", "images", "--json", name]
    found = json.loads(subprocess.run(inspect, check=True, capture_output=True, text=True).stdout)[0]
    given = found.get("Size") or found.get("size")
    return f"{given / 1e6:.0f} MB" if isinstance(given, int) else str(given)


def main(targets: Sequence[str]) -> int:
    """Build the images; return 1 when the arguments or the environment make that impossible."""
    if unknown := set(targets) - set(TARGETS):
        print(f"no target {', '.join(sorted(unknown))}; known: {', '.join(TARGETS)}", file=sys.stderr)
        return 1
    try:
        builder = choose_builder(os.environ)
        steps = {target: build_command(builder, target, os.environ) for target in targets or SERVING}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    # It says itself what is missing.
    if subprocess.run([sys.executable, "-m", "deploy.web"], cwd=ROOT, check=False).returncode:
        return 1
    for step in steps.values():
        print("+", *step, flush=True)
        subprocess.run(step, check=True, cwd=ROOT)
    for target in steps:
        print(f"{tag(target, os.environ)}: {format_size(builder, tag(target, os.environ))}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
