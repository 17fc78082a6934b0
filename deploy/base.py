"""Make a base image with debootstrap, for machines without a registry: ``python deploy/base.py [NAME]`` as root.

It stands in for python:3.11-slim-bookworm: Debian 12 with python3 3.11, venv and certificates, without documents. Needs
debootstrap, buildah, podman or docker, and a Debian mirror (MIRROR). NAME is ``localhost/fathom-base:bookworm`` unless
given; build on it with ``BASE=localhost/fathom-base:bookworm make images``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAME, SUITE = "localhost/fathom-base:bookworm", "bookworm"
INCLUDE = "ca-certificates,python3-minimal,python3-venv"
DISPENSABLE = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def bootstrap(root: Path, mirror: str) -> None:
    """Install Debian's smallest system and Python in ``root``.

    Raises ``CalledProcessError``, most often because no mirror can be reached.
    """
    step = ["debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, str(root), mirror]
    subprocess.run(step, check=True, stdout=subprocess.DEVNULL)
    for name in DISPENSABLE:
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir()
    (root / "var/lib/apt/lists/partial").mkdir()


def import_image(root: Path, name: str) -> None:
    """Import the folder as an image; raise ``LookupError`` without buildah, podman and docker."""
    engine = next((found for found in ("buildah", "podman", "docker") if shutil.which(found)), None)
    if engine is None:
        raise LookupError("none of buildah, podman and docker is installed")
    if engine == "buildah":
        commit_image(root, name)
        return
    with subprocess.Popen(
        ["tar", "--create", "--numeric-owner", "--directory", root, "."], stdout=subprocess.PIPE
    ) as tar:
        subprocess.run([engine, "import", "-", name], stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)


def commit_image(root: Path, name: str) -> None:
    """Make the folder an image with buildah, which imports no archives: an empty container, filled and committed."""
    made = subprocess.run(["buildah", "from", "scratch"], check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["buildah", "add", "--quiet", made, f"{root}/", "/"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["buildah", "commit", "--quiet", made, name], check=True, stdout=subprocess.DEVNULL)
    finally:
        subprocess.run(["buildah", "rm", made], check=False, stdout=subprocess.DEVNULL)


def main(name: str) -> int:
    """Make the image and print its size; return 1 when this machine cannot."""
    if os.geteuid() or not shutil.which("debootstrap"):
        print("needs root and debootstrap", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        bootstrap(root, os.environ.get("MIRROR", "http://deb.debian.org/debian"))
        import_image(root, name)
        size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{name}: {size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else NAME))
