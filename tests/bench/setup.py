"""Measure the first contact: from a fresh clone to an answered question, with a cold cache, and a second time.

``FATHOM_BENCH_SETUP_DIR`` is the folder for the clone (a temporary one by default); give one below /tmp, or with a
space in its name, to try the set-up there. ``FATHOM_BENCH_SETUP_PIP=1`` adds the baseline: the same lock installed by
pip, which is what ``make run`` did before.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLD = "set-up, first answer"
SECOND = "second answer"
LIMITS = {COLD: (300.0, 90.0), SECOND: (8.0, None)}  # seconds, processor seconds; on an idle machine of two cores
LIMIT_BYTES = 1_600_000_000


@dataclass(frozen=True)
class Figure:
    """Wall-clock and processor seconds of one command with its children."""

    wall_s: float
    cpu_s: float


def measure(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Figure:
    """Run a command with its output shown; raise ``CalledProcessError`` when it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(list(command), cwd=folder, env=dict(environ), check=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figure(time.perf_counter() - started, cpu)


def count_bytes(folder: Path) -> int:
    """Return the bytes that a folder takes on disk, as ``du`` counts them: hard links once."""
    done = subprocess.run(["du", "-s", "--block-size=1", str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def clone_checkout(folder: Path) -> Path:
    """Clone the commit that is checked out here into a folder."""
    clone = folder / "fathom"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    return clone


def install_by_pip(folder: Path, clone: Path) -> Figure:
    """Return what the same lock takes with pip, with a cold cache of its own."""
    venv = folder / "by-pip"
    subprocess.run([os.environ.get("PYTHON", "python3"), "-m", "venv", str(venv)], check=True)
    environ = {**os.environ, "PIP_CACHE_DIR": str(folder / "pip-cache")}
    # pip takes hashes for all requirements or for none; versions of Python that the lock names without one are cut.
    lock = [line for line in (clone / "locks" / "run.txt").read_text().splitlines() if "--hash=" in line]
    (folder / "lock.txt").write_text("\n".join(lock))
    command = [str(venv / "bin" / "pip"), "install", "--quiet", "--require-hashes", "-r", str(folder / "lock.txt")]
    return measure(command, folder, environ)


def print_row(name: str, figure: Figure) -> None:
    """Print a figure beside its limits."""
    wall, cpu = LIMITS.get(name, (None, None))
    limits = f"{'' if wall is None else f'{wall:.0f}':>10}{'' if cpu is None else f'{cpu:.0f}':>10}"
    print(f"{name:<24}{figure.wall_s:>10.1f}{figure.cpu_s:>10.1f}{limits}")


def try_out(folder: Path) -> None:
    """Set up a clone in a folder, answer a question twice, and print the figures."""
    clone = clone_checkout(folder)
    environ = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}
    environ |= {"UV_CACHE_DIR": str(folder / "uv-cache"), "PIP_CACHE_DIR": str(folder / "pip-cache-of-uv")}
    first = measure(["make", "demo"], clone, environ)
    second = measure(["make", "demo"], clone, environ)
    size = count_bytes(clone / ".venv")
    print(f"\n{clone}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<24}{'wall s':>10}{'cpu s':>10}{'limit':>10}{'limit':>10}")
    print_row(COLD, first)
    print_row(SECOND, second)
    print(f"{'environment':<24}{size / 1e9:>10.3f} GB{'':>7}{LIMIT_BYTES / 1e9:>10.3f} GB")
    if os.environ.get("FATHOM_BENCH_SETUP_PIP"):
        baseline = install_by_pip(folder, clone)
        print_row("packages alone, by pip", baseline)
        print(
            f"{'first answer / by pip':<24}{first.wall_s / baseline.wall_s:>10.2f}{first.cpu_s / baseline.cpu_s:>10.2f}"
        )


async def run() -> None:
    """Measure in a folder of this run's own, which is removed afterwards."""
    parent = os.environ.get("FATHOM_BENCH_SETUP_DIR")
    if parent:
        os.makedirs(parent, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fathom-setup-", dir=parent))
    try:
        await asyncio.to_thread(try_out, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
