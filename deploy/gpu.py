"""Tests and figures of a GPU on a machine that has Python, torch and transformers, and no network.

``python3 deploy/gpu.py wheels`` downloads, where there is a network, what such a machine lacks into ``.wheels/``, in
the versions of ``locks/dev.txt`` (``make gpu-wheels``). There ``python3 deploy/gpu.py test`` runs what is marked
``gpu``, and ``bench`` prints the figures of ``tests/bench/trainers/gpu.py`` (``make test-gpu``, ``make bench-gpu``).
Without a CUDA device both say so and skip. Nothing is installed into that Python: wheels are unpacked into
``.wheels/PYTHON``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / ".wheels"
# Packages by the module that shows whether they are there, each before those that need it.
PACKAGES = {
    "annotated_types": "annotated-types", "typing_extensions": "typing-extensions",
    "typing_inspection": "typing-inspection", "pydantic_core": "pydantic-core", "pydantic": "pydantic",
    "google.protobuf": "protobuf", "google.rpc": "googleapis-common-protos", "yaml": "pyyaml",
    "pluggy": "pluggy", "iniconfig": "iniconfig", "pygments": "pygments", "packaging": "packaging", "pytest": "pytest",
}  # fmt: skip
BROUGHT = ("torch", "transformers")
"""Packages that the machine must have: with CUDA they are gigabytes, and belong to its driver."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
MARK = "pytest.mark.gpu"
OK, MISSING = 0, 2


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for and return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 deploy/gpu.py", description="Tests and figures of a GPU.")
    parser.add_argument("what", choices=["wheels", "test", "bench"])
    parser.add_argument("--python", default="3.12", help="version of the machine's Python, for wheels")
    wanted = parser.parse_args(arguments)
    if wanted.what == "wheels":
        return download(wanted.python)
    place = unpack()
    if lacking := find_lacking(BROUGHT, place):
        print(f"{sys.executable} has no {', '.join(lacking)}: name a Python that has (make PYTHON=… {wanted.what}-gpu)")
        return MISSING
    if lacking := find_lacking(PACKAGES, place):
        names, version = ", ".join(PACKAGES[module] for module in lacking), f"3.{sys.version_info.minor}"
        print(
            f"{sys.executable} has no {names}, nor has {WHEELS} in a form for Python {version}: run"
            f" 'make gpu-wheels GPU_PYTHON={version}' where there is a network, and carry it"
        )
        return MISSING
    paths = [ROOT, ROOT / "libs", place]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONUNBUFFERED": "1"}
    return subprocess.run(command_of(wanted.what), cwd=ROOT, env=environ, check=False).returncode


def command_of(what: str) -> list[str]:
    """Return the command that tests or measures."""
    if what == "bench":
        return [sys.executable, "-m", "tests.bench", "gpu"]
    # Only these files are read: others import what such a machine lacks, and so do the suite's plugins and conftest.
    marked = sorted(str(path) for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text("utf-8"))
    options = ["-c", os.devnull, "--rootdir", str(ROOT), "--noconftest", "--import-mode=importlib", "-ra"]
    register = ["-o", "markers=gpu: needs a CUDA device\nslow: takes long", "-p", "no:cacheprovider", "-m", "gpu"]
    return [sys.executable, "-m", "pytest", *options, *register, *marked]


def download(python: str) -> int:
    """Download the wheels of ``PACKAGES`` for a Python version; return pip's exit status."""
    lock = (ROOT / "locks" / "dev.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    names = [f"{package}=={pinned[package]}" for package in PACKAGES.values() if package in pinned]
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    where = ["--python-version", python, "--implementation", "cp", *platforms, "--dest", str(WHEELS)]
    return subprocess.run([*pip, *where, *names], check=False).returncode


def unpack() -> Path:
    """Unpack the wheels that this Python lacks into a folder of its own, once, and return that folder.

    Without pip, which a machine's Python or its environment may not have: a wheel is an archive of what is imported.
    """
    place = WHEELS / str(sys.implementation.cache_tag)
    lacking = {normalise(PACKAGES[module]) for module in find_lacking(PACKAGES, place)}
    for wheel in sorted(WHEELS.glob("*.whl")):
        name, _, rest = wheel.name.partition("-")
        if normalise(name) in lacking and fits(rest):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place)
    return place


def normalise(name: str) -> str:
    """Return a package's name as wheels and requirements both can be compared by."""
    return re.sub(r"[-_.]+", "_", name).lower()


def fits(rest: str) -> bool:
    """Return whether a wheel is for this Python, by its file name behind the package's name."""
    python, abi, _ = rest.removesuffix(".whl").split("-")[-3:]
    minor, tags = sys.version_info.minor, python.split(".")
    # A stable interface serves its Python and all later ones.
    stable = abi == "abi3" and any(tag.startswith("cp3") and int(tag[3:] or 0) <= minor for tag in tags)
    return "py3" in tags or f"cp3{minor}" in tags or stable


def find_lacking(modules: Sequence[str] | dict[str, str], place: Path) -> list[str]:
    """Return the modules that neither this Python nor ``place`` has."""
    sys.path.insert(0, str(place))
    # The folder may have been filled since it was last looked into.
    importlib.invalidate_caches()
    try:
        return [module for module in modules if not is_here(module)]
    finally:
        sys.path.remove(str(place))


def is_here(module: str) -> bool:
    """Return whether a module can be found; of one in a package that is not there, False."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
