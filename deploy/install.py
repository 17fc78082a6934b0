"""Set up the virtual environment of a checkout: ``python3 deploy/install.py run|dev`` (``make setup``, ``make test``).

Needs nothing but a Python with venv. Installs the wheels of ``locks/run.txt`` or ``locks/dev.txt`` with uv, which is
installed first by its own lock; nothing is compiled. ``latest`` is ``dev`` with the newest versions that the bounds in
pyproject.toml allow (``make test-latest``). A second call does nothing while the locks are the same. A call
that was killed leaves a marker, and the next one begins with an empty environment: what was downloaded is cached.
Then it builds the page (``deploy/web.py``), likewise once for the same sources.

pip's settings for indexes and folders of wheels (``PIP_INDEX_URL``, pip.conf, …) hold for uv too.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
ROLES = ("run", "dev")  # each holds the packages of the one before
LATEST = "latest"
STAMP, MARKER = "fathom-setup.json", "fathom-setup.incomplete"
VERSIONS = ((3, 11), (3, 14))
FREE_BYTES = {
    "run": 3_500_000_000,
    "dev": 5_500_000_000,
    LATEST: 5_500_000_000,
}  # the environment, and the download cache beside it
HEARTBEAT_S = 15.0
# Tests and build tools inside packages: a tenth of the environment, and nothing uses them.
SUPERFLUOUS = (
    "torch/test", "torch/bin/*[tT]est*", "torch/bin/protoc*", "numpy/**/tests", "pandas/tests", "pyarrow/tests",
    "Crypto/SelfTest", "scipy/**/tests",
)  # fmt: skip
NETWORK_WORDS = ("dns error", "name resolution", "connection broken", "error sending request", "timed out", "tunnel")
# The address that uv or the host that pip could not reach, without user, password and query.
UNREACHED = re.compile(
    r"(?:failed to (?:fetch|download)|for url)[^\n]{0,80}?(?P<scheme>https?://)(?:[^@/\s]*@)?(?P<rest>[^\s)`'\"?#]+)"
    r"|host='(?P<host>[^']+)'",
    re.IGNORECASE,
)
# Settings of pip and the variables by which uv knows them.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "no-index": "UV_NO_INDEX",
}


class SetupError(Exception):
    """The set-up cannot go on; ``remedy`` says what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"set-up: {text}", flush=True)


def check_machine(role: str, venv: Path) -> None:
    """Raise ``SetupError`` when this machine or this Python cannot run Fathom, or the disk is too small."""
    version = sys.version_info[:2]
    if not VERSIONS[0] <= version < VERSIONS[1] or sys.implementation.name != "cpython":
        raise SetupError(
            f"Python {platform.python_version()} ({sys.executable}) cannot run Fathom: CPython 3.11, 3.12 or 3.13 can",
            "name another interpreter, e.g. make PYTHON=python3.11 run",
        )
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise SetupError(f"this is {sys.platform} on {platform.machine()}", "use Linux on x86-64")
    parent = next(path for path in (venv, *venv.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        raise SetupError(
            f"{parent} cannot be written by this user",
            "name writable folders: make VENV=DIR/venv HOME_DIR=DIR/home run",
        )
    free = shutil.disk_usage(parent).free
    if free < FREE_BYTES[role] and not (venv / STAMP).exists():
        raise SetupError(
            f"{parent} has {free / 1e9:.1f} GB free, and the set-up takes up to {FREE_BYTES[role] / 1e9:.1f} GB",
            "make room there, or name another folder: make VENV=DIR/venv run",
        )


def compute_fingerprint(role: str, venv: Path) -> str:
    """Return a digest of all that an environment depends on, its own path included: scripts in it name that path."""
    digest = hashlib.sha256()
    locks = [] if role == LATEST else [LOCKS / f"{role}.txt"]
    for path in (*locks, LOCKS / "uv.txt", ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    digest.update(json.dumps([str(ROOT), str(venv), sys.version, role]).encode())
    return digest.hexdigest()


def read_stamp(venv: Path) -> dict[str, str]:
    """Return the fingerprints of the roles that an environment has; {} when a set-up of it did not end."""
    try:
        if (venv / MARKER).exists():
            return {}
        stamp = json.loads((venv / STAMP).read_text())
        return dict(stamp) if isinstance(stamp, dict) else {}
    except (OSError, ValueError):
        return {}


def choose_role(role: str, venv: Path) -> str:
    """Return the role to set up: the one asked for, or the wider one that the environment has had."""
    if role == LATEST:
        return role
    had = read_stamp(venv)
    return max([role, *(name for name in ROLES if name in had)], key=ROLES.index)


def is_ready(role: str, venv: Path) -> bool:
    """Return whether the environment has the packages of a role, or of a role that holds them."""
    if role == LATEST:
        return False  # newer versions may be out
    stamp = read_stamp(venv)
    wider = ROLES[ROLES.index(role) :]
    return any(stamp.get(name) == compute_fingerprint(name, venv) for name in wider)


@contextmanager
def hold_lock(venv: Path) -> Iterator[None]:
    """Keep other set-ups of the same environment waiting; they say so, and find the work done."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    with (venv.parent / f"{venv.name}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            say(f"waiting for another set-up of {venv} (process {file.read().strip() or 'unknown'})")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def read_pip_settings(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings for indexes as variables for uv; variables that are set already stay."""
    command = [str(python), "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(environ)).stdout
    settings: dict[str, list[str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = UV_NAMES.get(key.rpartition(".")[2])
        if name and name not in environ:
            settings.setdefault(name, []).extend(value.strip().strip("'\"").replace("\\n", " ").split())
    return {name: ("," if name == "UV_FIND_LINKS" else " ").join(values) for name, values in settings.items()}


@contextmanager
def report_waiting(step: str) -> Iterator[None]:
    """Print a line now and then while a step runs, for logs and for terminals of slow networks."""
    done, started = threading.Event(), time.monotonic()

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            say(f"{step}: {time.monotonic() - started:.0f} s so far")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def run_step(step: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a command with its output shown; raise ``SetupError`` that names the cause when it fails."""
    tail: list[str] = []
    with report_waiting(step):
        process = subprocess.Popen(
            list(command), env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-40:], line]
            # uv's list of every package, and pip's remarks on folders that lack one, hide what matters.
            if not line.startswith((" + ", " - ", "WARNING: Location")):
                print(f"  {line.rstrip()}", flush=True)
        status = process.wait()
    if status:
        raise explain_failure(step, "".join(tail), status)


def explain_failure(step: str, output: str, status: int) -> SetupError:
    """Return an error with the cause of a failed installation and its remedy, from the installer's own words."""
    text = output.lower()
    if "no space left" in text or "disk quota" in text:
        return SetupError(f"{step}: the disk is full", "make room and run the same command again: it goes on")
    if "ensurepip is not available" in text or "no module named ensurepip" in text or "no module named venv" in text:
        version = ".".join(map(str, sys.version_info[:2]))
        return SetupError(
            f"{step}: this Python has no venv", f"on Debian and Ubuntu: apt-get install python{version}-venv"
        )
    if "hash mismatch" in text or "do not match the hashes" in text:
        return SetupError(
            f"{step}: a package's bytes are not those of the lock", "see above which; is a proxy changing downloads?"
        )
    place = find_unreached(output) or "the package index"
    # Before the next case: uv tells of a certificate as of any request that failed.
    if "certificate" in text and ("invalid" in text or "verify failed" in text):
        return SetupError(
            f"{step}: the certificate of {place} is not trusted", "name the authority's file (PIP_CERT, SSL_CERT_FILE)"
        )
    # Before the next case: pip ends with the same words for an index that it could not reach at all.
    if any(word in text for word in NETWORK_WORDS):
        return SetupError(
            f"{step}: {place} cannot be reached",
            "check the network or the proxy, or name an index in reach that has the wheel (PIP_INDEX_URL,"
            " PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS); then run the command again",
        )
    if "no matching distribution" in text or "no solution found" in text or "was not found in" in text:
        return SetupError(
            f"{step}: the package index lacks a wheel of the lock (see above which)",
            "use an index that has it (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS); nothing is compiled here",
        )
    return SetupError(f"{step}: ended with status {status}", "see its words above; the same command tries again")


def find_unreached(output: str) -> str:
    """Return the address or the host that an installer names in its last words on a failed request; "" without one."""
    found = list(UNREACHED.finditer(output))
    if not found:
        return ""
    return found[-1]["host"] or found[-1]["scheme"] + found[-1]["rest"]


def create_environment(venv: Path) -> None:
    """Make an empty environment with pip and uv; raise ``SetupError``."""
    if venv.exists():
        say(f"removing {venv}: an earlier set-up of it did not end, or it is another version's")
        shutil.rmtree(venv)
    say(f"1/4 environment {venv} for Python {platform.python_version()}")
    run_step("environment", [sys.executable, "-m", "venv", str(venv)], os.environ)
    (venv / MARKER).touch()
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wheels = ["--only-binary=:all:", "--require-hashes", "--requirement", str(LOCKS / "uv.txt")]
    say("2/4 installer")
    run_step("installer", [*pip, *wheels], os.environ)


def choose_torch_index(uv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return options that make uv find the CPU build of PyTorch.

    None where the machine's own indexes have it. Otherwise uv is told to ask PyTorch's index of CPU builds: the
    registry's build brings several gigabytes of CUDA libraries.
    """
    pin = next(line for line in (LOCKS / "run.txt").read_text().splitlines() if line.startswith("torch=="))
    command = [*uv, "--dry-run", "--quiet", "--no-deps", "--only-binary=:all:", pin.split(" ")[0]]
    found = subprocess.run(command, env=dict(environ), capture_output=True, check=False, cwd=ROOT)
    return [] if found.returncode == 0 else ["--torch-backend=cpu"]


def install_packages(role: str, venv: Path) -> None:
    """Install the packages of a role and this checkout into an environment; raise ``SetupError``."""
    python = venv / "bin" / "python"
    environ = {**os.environ, **read_pip_settings(python, os.environ), "VIRTUAL_ENV": str(venv)}
    # As pip does: a wheel may come from any of the indexes. The lock's hashes say which bytes it must have.
    environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    uv = [str(venv / "bin" / "uv"), "pip", "install", "--python", str(python)]
    if role == LATEST:
        say("3/4 the newest packages that pyproject.toml allows, wheels only")
        wanted = ["--upgrade", "--requirement", str(ROOT / "pyproject.toml"), "--extra=dev", "hatchling", "editables"]
    else:
        lock = LOCKS / f"{role}.txt"
        count = sum(1 for line in lock.read_text().splitlines() if "==" in line)
        say(f"3/4 {count} packages of locks/{role}.txt, wheels only (1 to 2 minutes; most of it is downloading)")
        wanted = ["--verify-hashes", "--requirement", str(lock)]
    run_step("packages", [*uv, *choose_torch_index(uv, environ), "--only-binary=:all:", *wanted], environ)
    say("4/4 fathom itself")
    run_step("fathom", [*uv, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], environ)
    remove_superfluous(venv)


def remove_superfluous(venv: Path) -> None:
    """Remove the tests and build tools that packages carry."""
    for packages in venv.glob("lib/python*/site-packages"):
        for pattern in SUPERFLUOUS:
            for path in sorted(packages.glob(pattern)):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def set_up(role: str, venv: Path) -> bool:
    """Make the environment of a role; return False when it was ready already. Raise ``SetupError``."""
    # `make run` after a change of the locks must not take a developer's tools away.
    role = choose_role(role, venv)
    if is_ready(role, venv):
        return False
    check_machine(role, venv)
    with hold_lock(venv):
        if is_ready(role, venv):
            return False
        started = time.monotonic()
        stamp = read_stamp(venv)
        # Packages of another lock may be left over in an environment: only one that is being widened is kept.
        if any(stamp.get(name) == compute_fingerprint(name, venv) for name in ROLES):
            (venv / MARKER).touch()
        else:
            create_environment(venv)
            stamp = {}
        install_packages(role, venv)
        partial = venv / f"{STAMP}.partial"
        partial.write_text(json.dumps({**stamp, role: compute_fingerprint(role, venv)}))
        partial.replace(venv / STAMP)
        (venv / MARKER).unlink()
        say(f"done after {time.monotonic() - started:.0f} s")
    return True


def build_page(venv: Path) -> int:
    """Build the page where its sources have changed; return the exit status of that."""
    # A process of its own: the module builds on this one, which a script cannot import by its name.
    command = [sys.executable, "-m", "deploy.web", "--spare", str(venv / "share" / "fathom")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Set up; return the exit status, and print cause and remedy of a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "role", choices=(*ROLES, LATEST), help="run: what `make run` needs; dev: what `make test` needs"
    )
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="folder of the virtual environment")
    options = parser.parse_args(arguments)
    try:
        venv = Path(os.path.abspath(options.venv))
        set_up(options.role, venv)
        return build_page(venv)
    except SetupError as error:
        print(f"\nset-up: {error}\nset-up: to mend it: {error.remedy}", file=sys.stderr)
        return 1
    except OSError as error:
        where = shlex.quote(str(error.filename)) if error.filename else "the environment"
        print(f"\nset-up: {where}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: stopped; the same command begins again, with what was downloaded", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
