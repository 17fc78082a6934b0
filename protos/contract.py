"""Generates, checks and lints the contract: ``python protos/contract.py generate|check|lint|breaking``.

``generate`` writes the stubs to ``libs/fathom/api``; ``check`` fails when they differ from the
protos; ``lint`` and ``breaking`` run buf over an image that protoc builds, because the imports
from ``google/rpc`` live in the package googleapis-common-protos and not in a folder of ours.

The stubs are made by an old grpcio-tools on purpose (1.72.1, pinned in the extra ``dev``), because it decides what a
program that uses the client must have installed. Stubs refuse a grpcio older than the grpcio-tools that made them, and
protobuf promises that stubs of one major version run on that major, from their own minor on, and on the next: those of
1.72.1 want grpcio >= 1.72.1 and run on protobuf 6.30 to 7. Stubs of major 5 would refuse protobuf 7, and those of a
newer 6 would only refuse more. Once protobuf 8 is out, take the first grpcio-tools that makes stubs of major 7 and
change the lower bounds in pyproject.toml with it.
"""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
STUBS = ROOT / "libs"
BASELINE = "origin/main", "main"


def sources(root: Path = PROTOS) -> list[str]:
    """Proto files relative to their root, sorted."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))


def protoc(root: Path, *outputs: str) -> None:
    """Runs the pinned protoc; raises ``CalledProcessError`` with its message on stderr."""
    import google.rpc
    import grpc_tools

    includes = [root, Path(grpc_tools.__path__[0]) / "_proto", Path(google.rpc.__path__[0]).parents[1]]
    command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{path}" for path in includes)]
    subprocess.run([*command, *outputs, *sources(root)], check=True)


def generate(target: Path) -> None:
    """Writes stubs, type stubs and package markers below ``target``."""
    protoc(PROTOS, f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}")
    api = target / "fathom" / "api"
    for folder in [api, *(path for path in api.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        marker = folder / "__init__.py"
        if not marker.exists():
            marker.write_text('"""Generated from protos/ by protos/contract.py; do not edit."""\n')


def drift() -> list[str]:
    """Paths of generated files that differ from what the protos give."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        names = {path.relative_to(fresh) for path in fresh.rglob("*.py*") if path.suffix in {".py", ".pyi"}}
        here = STUBS / "fathom" / "api"
        names |= {path.relative_to(STUBS) for path in here.rglob("*.py*") if path.suffix in {".py", ".pyi"}}
        return sorted(
            str(name)
            for name in names
            if not (fresh / name).exists()
            or not (STUBS / name).exists()
            or not filecmp.cmp(fresh / name, STUBS / name, shallow=False)
        )


def image(root: Path, target: Path) -> Path:
    """Builds a descriptor set with imports and comments for buf."""
    protoc(root, f"--descriptor_set_out={target}", "--include_imports", "--include_source_info")
    return target


def buf(*arguments: str) -> int:
    """Runs buf with the repository's configuration and returns its exit status."""
    program = Path(sys.executable).parent / "buf"
    return subprocess.run([str(program), *arguments, "--config", str(ROOT / "buf.yaml")], cwd=ROOT).returncode


def lint() -> int:
    """Lints names and comments; returns buf's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        return buf("lint", str(image(PROTOS, Path(folder) / "now.binpb")))


def breaking() -> int:
    """Compares with the main branch; returns buf's exit status, 0 when there is no baseline yet."""
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        if not checkout_baseline(before):
            print("no protos on the main branch yet: nothing to compare with")
            return 0
        new = image(PROTOS, Path(folder) / "now.binpb")
        old = image(before, Path(folder) / "before.binpb")
        return buf("breaking", str(new), "--against", str(old))


def checkout_baseline(target: Path) -> bool:
    """Writes the main branch's protos below ``target``; False when there are none."""
    for revision in BASELINE:
        archive = subprocess.run(["git", "archive", revision, "protos"], cwd=ROOT, capture_output=True)
        if archive.returncode == 0:
            target.mkdir()
            subprocess.run(["tar", "-x", "--strip-components=1", "-C", str(target)], input=archive.stdout, check=True)
            return True
    return False


def main(command: str) -> int:
    if command == "generate":
        generate(STUBS)
        return 0
    if command == "check":
        changed = drift()
        print("\n".join(f"drift: {name} (run make proto)" for name in changed) or "stubs match the protos")
        return 1 if changed else 0
    if command == "lint":
        return lint()
    if command == "breaking":
        return breaking()
    print(__doc__)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
