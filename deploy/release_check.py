"""Check a release as a stranger would meet it: ``python -m deploy.release_check`` (``make release-check``).

Builds the source distribution and, from that, the wheel; checks the metadata and that the wheel holds every file of the
three packages and nothing else; installs it with the extra ``local``, wheels only, into an empty environment outside
the checkout; then prints the version, builds the data and answers a question there. Ends with status 1 and the cause
at the first step that fails. pip's settings (``PIP_INDEX_URL``, ``PIP_FIND_LINKS``, pip.conf, …) hold here too.
``--keep FOLDER`` keeps what was built there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from packaging.metadata import Metadata

from deploy.images import package_version
from deploy.install import choose_torch_index, read_pip_settings

ROOT = Path(__file__).resolve().parents[1]
# Folder of the checkout, and where the wheel has it.
PACKAGES = {"libs/fathom": "fathom", "services": "fathom/services", "trainers": "fathom/trainers"}
# One pattern per kind of file that code reads at run time, so that none can vanish from checkout and wheel alike.
REQUIRED = (
    "fathom/py.typed", "fathom/api/*/v1/*_pb2.py", "fathom/api/*/v1/*_pb2.pyi", "fathom/services/planner/prompts/*.md",
    "fathom/services/reward/prompts/*.md", "fathom/services/retrieval/corpus/notes/*.md",
    "fathom/services/gateway/static/*.html", "fathom/services/gateway/static/assets/*.js",
    "fathom/services/datafetch/catalog/frameworks/*.yaml",
    "fathom/services/datafetch/catalog/library/*.yaml", "fathom/trainers/config/presets/*.yaml",
)  # fmt: skip
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
TIMEOUT_S = 1200.0
# The page: its sources stay out of the wheel, and what is built of them is not git's.
PAGE_SOURCES, PAGE = "services/gateway/web/", "services/gateway/static"
# Distributions of their own.
CONNECTORS = ("services/datafetch/sources/connectors/", "services/retrieval/web/engines/")
# Variables that would let code of the checkout into the installed program.
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FATHOM_LOCAL_HOME")


class ReleaseError(Exception):
    """The release is not fit to be published; the text says why."""


def run_step(step: str, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Run a command, print and return what it says; raise ``ReleaseError`` with the end of it when it fails."""
    print(f"release-check: {step}", flush=True)
    started = time.monotonic()
    try:
        done = subprocess.run(
            list(command), cwd=folder, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{step}: no end after {TIMEOUT_S:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        raise ReleaseError(f"{step}: ended with status {done.returncode}\n" + "\n".join(lines[-40:]))
    for line in lines[-12:]:
        print(f"  {line}", flush=True)
    print(f"  ({time.monotonic() - started:.1f} s)", flush=True)
    return done.stdout


def list_package_files(root: Path) -> set[str]:
    """Return the names that the wheel must have: git's files and the built page; all files where there is no git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--", *PACKAGES]
    if (root / ".git").exists():
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
        paths = [name for name in listed if name and not (root / name).is_symlink()]
        built = (path.relative_to(root).as_posix() for path in (root / PAGE).rglob("*") if path.is_file())
        paths = [*built, *(name for name in paths if not name.startswith(PAGE_SOURCES))]
    else:
        found = (path for folder in PACKAGES for path in (root / folder).rglob("*") if path.is_file())
        paths = [path.relative_to(root).as_posix() for path in found if "__pycache__" not in path.parts]
    return {rename(path) for path in paths if not path.startswith(CONNECTORS)}


def rename(path: str) -> str:
    """Return the name in the wheel of a file of the checkout."""
    folder = next(folder for folder in PACKAGES if path.startswith(f"{folder}/"))
    return PACKAGES[folder] + path.removeprefix(folder)


def check_contents(names: Iterable[str], wanted: set[str]) -> None:
    """Raise ``ReleaseError`` when a wheel's files are not exactly those of the packages and its own metadata."""
    held = {name for name in names if ".dist-info/" not in name}
    if missing := sorted(wanted - held):
        raise ReleaseError(f"the wheel lacks {len(missing)} files: {', '.join(missing[:5])}")
    if foreign := sorted(held - wanted):
        raise ReleaseError(f"the wheel has {len(foreign)} files that git does not track: {', '.join(foreign[:5])}")
    for pattern in REQUIRED:
        if not any(fnmatch(name, pattern) for name in held):
            raise ReleaseError(f"the wheel has no {pattern}")
    tests = sorted(name for name in held if "tests" in name.split("/") or fnmatch(name, "*/test_*.py"))
    if tests:
        raise ReleaseError(f"the wheel has tests: {', '.join(tests[:5])}")


def check_metadata(text: str, version: str) -> None:
    """Raise ``ReleaseError`` when a wheel's metadata is malformed, incomplete or of another version."""
    try:
        metadata = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        raise ReleaseError(f"the metadata is malformed: {'; '.join(map(str, group.exceptions))}") from group
    if str(metadata.version) != version:
        raise ReleaseError(f"the wheel's version is {metadata.version}, and fathom.__version__ is {version}")
    for field in ("summary", "description", "license_expression", "requires_python"):
        if not getattr(metadata, field):
            raise ReleaseError(f"the metadata has no {field}")
    if metadata.description_content_type != "text/markdown":
        raise ReleaseError(f"the description is {metadata.description_content_type}, and README.md is text/markdown")
    if "local" not in (metadata.provides_extra or ()):
        raise ReleaseError("the metadata has no extra named local")


def check_wheel(wheel: Path, root: Path, version: str) -> None:
    """Raise ``ReleaseError`` when the wheel is not what the checkout at ``root`` should give."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        own = f"fathom-{version}.dist-info"
        if f"{own}/METADATA" not in names:
            raise ReleaseError(f"{wheel.name} has no {own}/METADATA")
        check_metadata(archive.read(f"{own}/METADATA").decode(), version)
        if "fathom = fathom." not in archive.read(f"{own}/entry_points.txt").decode():
            raise ReleaseError("the wheel does not install the command fathom")
    check_contents(names, list_package_files(root))


def find_uv() -> str:
    """Return the uv of this environment, or of the PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def build(target: Path) -> Path:
    """Build page, source distribution and wheel into ``target`` with the build system here; return the wheel."""
    run_step("build the page", [sys.executable, "-m", "deploy.web"], ROOT, os.environ)
    command = [find_uv(), "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(target)]
    run_step("build the source distribution, and the wheel from it", [*command, str(ROOT)], ROOT, os.environ)
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise ReleaseError(f"the build made {len(wheels)} wheels")
    return wheels[0]


def install(wheel: Path, venv: Path) -> None:
    """Install the wheel with the extra ``local`` into a new environment, as somebody with uv would."""
    settings = read_pip_settings(Path(sys.executable), os.environ)
    environ = {"UV_INDEX_STRATEGY": "unsafe-best-match", **os.environ, **settings}
    folder, uv = venv.parent, find_uv()
    run_step("make an empty environment", [uv, "venv", "--python", sys.executable, str(venv)], folder, environ)
    command = [uv, "pip", "install", "--python", str(venv / "bin" / "python")]
    options = [*choose_torch_index(command, environ), "--only-binary=:all:"]
    wanted = f"fathom[local] @ {wheel.as_uri()}"
    run_step("install the wheel with the extra local, wheels only", [*command, *options, wanted], folder, environ)


def try_out(venv: Path, folder: Path, version: str) -> None:
    """Use the installed command as a stranger would, from an empty folder; raise ``ReleaseError``."""
    fathom = str(venv / "bin" / "fathom")
    environ = {name: value for name, value in os.environ.items() if name not in OURS}
    said = run_step("fathom version", [fathom, "version"], folder, environ)
    if said.splitlines()[0] != f"fathom {version}" or "commit" in said:
        raise ReleaseError(f"fathom version does not speak of the wheel:\n{said}")
    said = run_step("fathom data", [fathom, "data", "--home", "home"], folder, environ)
    if skipped := [line.strip() for line in said.splitlines() if "is skipped" in line]:
        raise ReleaseError("fathom data could not build everything:\n" + "\n".join(skipped))
    command = [fathom, "up", "--home", "home", "--port", "0", "--ask", QUESTION, "--once"]
    if not re.search(r"\[\d+\]", run_step("fathom up, and one question", command, folder, environ)):
        raise ReleaseError("the answer cites nothing")


def check_release(folder: Path) -> None:
    """Build, check, install and try out a release, with all that is made below ``folder``; raise ``ReleaseError``."""
    version = package_version()
    wheel = build(folder / "dist")
    print(f"release-check: metadata and contents of {wheel.name}", flush=True)
    check_wheel(wheel, ROOT, version)
    install(wheel, folder / "venv")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    try_out(folder / "venv", elsewhere, version)
    print(f"release-check: fathom {version} can be released", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Return 1, with the cause on stderr, when the release is not fit to be published."""
    parser = argparse.ArgumentParser(description="Checks a release in an environment of its own.")
    parser.add_argument("--keep", type=Path, help="empty or new folder that keeps what was built")
    keep = parser.parse_args(arguments).keep
    try:
        if keep is None:
            with tempfile.TemporaryDirectory(prefix="fathom-release-") as scratch:
                check_release(Path(scratch))
        else:
            keep.mkdir(parents=True, exist_ok=True)
            if any(keep.iterdir()):
                raise ReleaseError(f"--keep: {keep} is not empty")
            check_release(keep.resolve())
    except ReleaseError as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
