"""Say which images could be built for arm64: ``python -m deploy.arm64 [LOCK …]``, with uv from its package.

Asks the package index whether every version of an image's lock has a wheel for Linux on aarch64 (glibc 2.36, as in the
locks for x86-64), and names those that have none. Nothing is downloaded or built, and no lock changes. The CPU build of
PyTorch counts by its version without ``+cpu``: for arm64 the index has it under that name. Exits with 1 when a lock
has packages without such a wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.install import read_pip_settings
from deploy.locks import IMAGES, LOCKS, path_of

PLATFORM = "aarch64-manylinux_2_36"
# What uv says of a version that has no wheel for the platform.
LACKING = re.compile(r"\b([a-z0-9][a-z0-9._-]*)==\S+ has no (?:usable )?wheels")
TIMEOUT_S = 600.0


def read_versions(name: str) -> dict[str, str]:
    """Return the pins of a lock by package, PyTorch's without the name of its build."""
    lines = path_of(name).read_text().splitlines()
    pins = [line.partition(" --hash=")[0] for line in lines if not line.startswith("#")]
    return {pin.partition("==")[0]: pin.replace("+cpu", "") for pin in pins}


def build_command() -> list[str]:
    """Return the command that resolves the pins on its standard input, without what they ask for."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else "uv"
    return [
        uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate", "--only-binary=:all:",
        "--python-version=3.11", f"--python-platform={PLATFORM}", "-",
    ]  # fmt: skip


def find_lacking(pins: dict[str, str]) -> list[str]:
    """Return the pins without a wheel for arm64; raise ``RuntimeError`` when uv fails for another reason."""
    environ = {**os.environ, **read_pip_settings(Path(sys.executable), os.environ), "NO_COLOR": "1"}
    # A further index may hold wheels for this machine alone; a version's wheels for all are at the first.
    environ.pop("UV_INDEX", None)
    left, lacking = dict(pins), list[str]()
    # uv names one package at a time, so that each round ends with one less.
    while True:
        done = subprocess.run(
            build_command(),
            input="\n".join(left.values()),
            capture_output=True,
            text=True,
            env=environ,
            timeout=TIMEOUT_S,
            check=False,
        )
        if not done.returncode:
            return lacking
        said = " ".join(done.stderr.split())
        found = LACKING.search(said)
        name = found[1] if found else ""
        if name not in left:
            raise RuntimeError(f"uv cannot say: {said[-1000:]}")
        lacking.append(left.pop(name))


def main(names: Sequence[str]) -> int:
    """Print a line per lock; return 1 when one has packages without a wheel, or its name is not known."""
    known = [name for name, lock in LOCKS.items() if lock.folder == IMAGES]
    if unknown := set(names) - set(known):
        print(f"no lock {', '.join(sorted(unknown))}; known: {', '.join(known)}", file=sys.stderr)
        return 1
    complete = True
    for name in names or known:
        pins = read_versions(name)
        lacking = find_lacking(pins)
        complete = complete and not lacking
        without = f", without one: {', '.join(lacking)}" if lacking else ""
        print(f"{name}: {len(pins) - len(lacking)} of {len(pins)} packages have a wheel for arm64{without}", flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
