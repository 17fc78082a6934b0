"""What is in an image, as CycloneDX 1.6 JSON: ``python deploy/sbom.py [core|gpu|sandbox …]`` (``make sbom``).

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

PACKAGES = "opt/venv/lib/python3.11/site-packages"
TOOL = str(Path(sys.executable).parent / "cyclonedx-py")


@contextlib.contextmanager
def unpacked(builder: str, image: str) -> Iterator[Path]:
    """The root of an image as a folder to read; of docker only what is read here."""
    if builder == "buildah":
        made = said("buildah", "from", "--pull-never", image)
        try:
            yield Path(said("buildah", "mount", made))
        finally:
            said("buildah", "rm", made)
        return
    made = said("docker", "create", image)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for path in ("opt/venv/lib", "var/lib/dpkg"):
                (Path(scratch) / path).parent.mkdir(parents=True)
                said("docker", "cp", f"{made}:/{path}", str(Path(scratch) / path))
            yield Path(scratch)
    finally:
        said("docker", "rm", made)


def said(*command: str) -> str:
    """What a command prints, less the last newline; raises ``CalledProcessError``."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def of_environment(root: Path) -> dict[str, Any]:
    """The Python packages below ``root``, checked against CycloneDX's schema.

    The tool asks an interpreter for its path, and this one answers.
    """
    with tempfile.TemporaryDirectory() as scratch:
        interpreter = Path(scratch) / "python"
        interpreter.write_text(f"#!/bin/sh\necho '{json.dumps([str(root / PACKAGES)])}'\n")
        interpreter.chmod(0o755)
        return made("environment", str(interpreter), "--validate")


def of_lock(name: str) -> dict[str, Any]:
    """The packages of a lock; too plain to be wrong in form, so the seconds of the check are saved."""
    return made("requirements", str(ROOT / "deploy" / "docker" / "locks" / f"{name}.txt"), "--no-validate")


def made(*command: str) -> dict[str, Any]:
    """What cyclonedx-py makes of us and of what we stand on."""
    step = [TOOL, *command, "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    document: dict[str, Any] = json.loads(said(*step, "--sv", "1.6", "--of", "JSON"))
    document["metadata"]["component"]["version"] = images.package_version()  # pyproject.toml leaves it to the code
    return document


def debian(root: Path) -> list[dict[str, str]]:
    """Components for the Debian packages that dpkg says are installed."""
    found = []
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", paragraph, flags=re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version, kind = fields["Package"], fields["Version"], fields["Architecture"]
            url = f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={kind}"
            found.append({"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url})
    return found


def described(target: str, environ: Mapping[str, str], *, locks: bool) -> dict[str, Any]:
    """The document of one image; raises ``CalledProcessError`` where it has not been built."""
    if locks:
        return of_lock(f"gpu-{environ.get('ENGINE', 'cuda')}" if target == "gpu" else target)
    builder = images.chosen(environ)
    with unpacked(builder, images.tag(target, environ)) as root:
        document = of_environment(root)
        document["components"] = [*document.get("components", ()), *debian(root)]
    return document


def main(arguments: Sequence[str]) -> int:
    """Writes one file per image; 1 when an image is not there."""
    parser = argparse.ArgumentParser(description="Writes what is in the images as CycloneDX JSON.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(images.TARGETS))
    parser.add_argument("--locks", action="store_true", help="describe the locks, not the images")
    given = parser.parse_args(arguments)
    folder = Path(os.environ.get("FOLDER", ROOT / "dist" / "sbom"))
    folder.mkdir(parents=True, exist_ok=True)
    for target in given.targets or images.TARGETS:
        try:
            document = described(target, os.environ, locks=given.locks)
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
