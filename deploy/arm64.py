"""Say which images could be built for arm64: ``python -m deploy.arm64 [--write] [LOCK …]``, with uv from its package.

Asks the package index whether every version of an image's lock has a wheel for Linux on aarch64 (glibc 2.36, as in the
locks for x86-64), and names those that have none. Nothing is downloaded or built. Exits with 1 when a lock has packages
without such a wheel. ``--write`` adds the SHA-256 of these wheels to the locks, whose first line names what has none
(``make locks``), and exits with 0: what an image for x86-64 takes stays the same.

PyTorch without CUDA is a build of its own (``+cpu``): under the version alone the index has the one with CUDA, for
arm64 too, which is no replacement in an image for processors.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.install import read_pip_settings
from deploy.locks import IMAGES, LOCKS, describe_lock, path_of

PLATFORM = "aarch64-manylinux_2_36"
# What uv says of a version that has no wheel for the platform.
LACKING = re.compile(r"\b([a-z0-9][a-z0-9._-]*)==\S+ has no (?:usable )?wheels")
TIMEOUT_S = 600.0


def read_lines(name: str) -> list[str]:
    """Return the requirements of a lock, with their hashes."""
    return [line for line in path_of(name).read_text().splitlines() if not line.startswith("#")]


def read_versions(name: str) -> dict[str, str]:
    """Return the pins of a lock by package."""
    pins = [line.partition(" --hash=")[0] for line in read_lines(name)]
    return {pin.partition("==")[0]: pin for pin in pins}


def build_command(output: Path) -> list[str]:
    """Return the command that writes the pins on its standard input as a pylock file, without what they ask for."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else "uv"
    return [
        uv, "pip", "compile", "--quiet", "--no-deps", "--generate-hashes", "--only-binary=:all:",
        "--python-version=3.11", f"--python-platform={PLATFORM}", f"--output-file={output}", "-",
    ]  # fmt: skip


def resolve(pins: Mapping[str, str]) -> tuple[dict[str, set[str]], list[str]]:
    """Return the SHA-256 of the wheels for arm64 by package, and the packages that have none.

    Raises ``RuntimeError`` when uv fails for another reason.
    """
    environ = {**os.environ, **read_pip_settings(Path(sys.executable), os.environ), "NO_COLOR": "1"}
    # A further index may hold wheels for this machine alone; a version's wheels for all are at the first.
    environ.pop("UV_INDEX", None)
    left, lacking = dict(pins), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pylock.toml"
        # uv names one package at a time, so that each round ends with one less.
        while True:
            done = subprocess.run(
                build_command(output),
                input="\n".join(left.values()),
                capture_output=True,
                text=True,
                env=environ,
                timeout=TIMEOUT_S,
                check=False,
            )
            if not done.returncode:
                return dict(read_hashes(output)), lacking
            said = " ".join(done.stderr.split())
            found = LACKING.search(said)
            name = found[1] if found else ""
            if name not in left:
                raise RuntimeError(f"uv cannot say: {said[-1000:]}")
            del left[name]
            lacking.append(name)


def read_hashes(lock: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the packages of a pylock file with the SHA-256 of their wheels."""
    for package in tomllib.loads(lock.read_text())["packages"]:
        yield package["name"], {wheel["hashes"]["sha256"] for wheel in package["wheels"]}


def add_hashes(name: str, found: Mapping[str, set[str]], lacking: Sequence[str]) -> None:
    """Write a lock with further hashes, and with what lacks them in its first line."""
    written = []
    for line in read_lines(name):
        pin, *hashes = line.split(" --hash=sha256:")
        both = sorted({*hashes, *found.get(pin.partition("==")[0], ())})
        written.append(" ".join([pin, *(f"--hash=sha256:{one}" for one in both)]))
    path_of(name).write_text("\n".join([describe_lock(len(written), lacking), *written, ""]))


def main(arguments: Sequence[str]) -> int:
    """Print a line per lock; return 1 when one has packages without a wheel, or its name is not known."""
    known = [name for name, lock in LOCKS.items() if lock.folder == IMAGES]
    parser = argparse.ArgumentParser(prog="python -m deploy.arm64", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("locks", nargs="*", help="all of the images where none is named")
    parser.add_argument("--write", action="store_true", help="add the hashes of the wheels to the locks")
    given = parser.parse_args(arguments)
    if unknown := set(given.locks) - set(known):
        print(f"no lock {', '.join(sorted(unknown))}; known: {', '.join(known)}", file=sys.stderr)
        return 1
    is_complete = True
    for name in given.locks or known:
        pins = read_versions(name)
        found, lacking = resolve(pins)
        if given.write:
            add_hashes(name, found, lacking)
        is_complete = is_complete and not lacking
        without = f", without one: {', '.join(lacking)}" if lacking else ""
        print(f"{name}: {len(pins) - len(lacking)} of {len(pins)} packages have a wheel for arm64{without}", flush=True)
    return 0 if is_complete or given.write else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
