"""List the contents of an image as CycloneDX 1.6 JSON: ``python deploy/sbom.py [TARGET …]`` (``make sbom``).

Python packages are read by cyclonedx-py from the image's own environment, with licences and dependencies; Debian
packages from its dpkg status. Nothing of the image is run. Without an image to look into (no builder, not built)
``--locks`` describes its lock instead: the same Python packages with checksums, without licences and Debian's.
Files go to dist/sbom (FOLDER), named after the image.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from deploy import images  # noqa: E402
from deploy.install import read_pip_settings  # noqa: E402

PACKAGES = "opt/venv/lib/python3.11/site-packages"
# An environment of its own: with it jsonschema would load a grammar of 0.8 s in every process that is tested.
TOOL_ENVIRONMENT = Path(sys.prefix).parent / ".venv-sbom"
TOOL = TOOL_ENVIRONMENT / "bin" / "cyclonedx-py"
LOCK = ROOT / "locks" / "sbom.txt"


@contextlib.contextmanager
def mount(builder: str, image: str) -> Iterator[Path]:
    """Yield the root of an image as a folder to read; with docker, only the parts that are read here."""
    if builder == "buildah":
        made = read_output("buildah", "from", "--pull-never", image)
        try:
            yield Path(read_output("buildah", "mount", made))
        finally:
            read_output("buildah", "rm", made)
        return
    made = read_output("docker", "create", image)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for path in ("opt/venv/lib", "var/lib/dpkg"):
                (Path(scratch) / path).parent.mkdir(parents=True)
                read_output("docker", "cp", f"{made}:/{path}", str(Path(scratch) / path))
            yield Path(scratch)
    finally:
        read_output("docker", "rm", made)


def read_output(*command: str) -> str:
    """Return the output of a command without outer white space; raise ``CalledProcessError``."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def install_tool() -> None:
    """Install cyclonedx-py from its lock beside the running environment, unless it is there."""
    if TOOL.exists():
        return
    uv = str(Path(sys.executable).with_name("uv"))
    environ = {**os.environ, **read_pip_settings(Path(sys.executable), os.environ)}
    # As pip does: a wheel may come from any of the indexes. The lock's hashes say which bytes it must have.
    environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    target = ["--python", str(TOOL_ENVIRONMENT / "bin" / "python"), "--only-binary=:all:", "--require-hashes"]
    for step in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(TOOL_ENVIRONMENT)],
        [uv, "pip", "install", "--quiet", *target, "--requirements", str(LOCK)],
    ):
        subprocess.run(step, check=True, env=environ)


def describe_environment(root: Path) -> dict[str, Any]:
    """Describe the Python packages below ``root``; the document is checked against CycloneDX's schema."""
    # The tool asks an interpreter for its path. Nothing of the image is run: a script answers in its place.
    with tempfile.TemporaryDirectory() as scratch:
        interpreter = Path(scratch) / "python"
        interpreter.write_text(f"#!/bin/sh\necho '{json.dumps([str(root / PACKAGES)])}'\n")
        interpreter.chmod(0o755)
        return run_cyclonedx("environment", str(interpreter), "--validate")


def describe_lock(name: str) -> dict[str, Any]:
    """Describe the packages of a lock."""
    # Not checked against the schema: that takes seconds, and such a document is too plain to be wrong in form.
    return run_cyclonedx("requirements", str(ROOT / "deploy" / "docker" / "locks" / f"{name}.txt"), "--no-validate")


def run_cyclonedx(*command: str) -> dict[str, Any]:
    """Run cyclonedx-py and return its document of this package and its dependencies."""
    step = [str(TOOL), *command, "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    document: dict[str, Any] = json.loads(read_output(*step, "--sv", "1.6", "--of", "JSON"))
    document["metadata"]["component"]["version"] = images.package_version()  # pyproject.toml leaves it to the code
    return document


def list_debian_packages(root: Path) -> list[dict[str, str]]:
    """Return components for the Debian packages that dpkg lists as installed."""
    found = []
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", paragraph, flags=re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version, kind = fields["Package"], fields["Version"], fields["Architecture"]
            url = f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={kind}"
            found.append({"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url})
    return found


def describe(target: str, environ: Mapping[str, str], *, locks: bool) -> dict[str, Any]:
    """Return the document of one image; raise ``CalledProcessError`` where it has not been built."""
    if locks:
        engine = f"-{environ.get('ENGINE', 'cuda')}" if target in images.BY_ENGINE else ""
        return describe_lock(f"{target}{engine}")
    builder = images.choose_builder(environ)
    with mount(builder, images.tag(target, environ)) as root:
        document = describe_environment(root)
        document["components"] = [*document.get("components", ()), *list_debian_packages(root)]
    return document


def main(arguments: Sequence[str]) -> int:
    """Write one file per image; return 1 when an image is missing."""
    parser = argparse.ArgumentParser(description="Writes what is in the images as CycloneDX JSON.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(images.TARGETS))
    parser.add_argument("--locks", action="store_true", help="describe the locks, not the images")
    given = parser.parse_args(arguments)
    folder = Path(os.environ.get("FOLDER", ROOT / "dist" / "sbom"))
    folder.mkdir(parents=True, exist_ok=True)
    install_tool()
    for target in given.targets or (images.TARGETS if given.locks else images.SERVING):
        try:
            document = describe(target, os.environ, locks=given.locks)
        except (subprocess.CalledProcessError, ValueError) as error:
            problem = getattr(error, "stderr", "") or str(error)
            print(f"{target}: {problem.strip()}\nbuild it with make images, or take --locks", file=sys.stderr)
            return 1
        path = folder / f"fathom-{target}.cdx.json"
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
        print(f"{path}: {len(document['components'])} components")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
