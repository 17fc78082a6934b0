"""Shared by all tests: the bundled data, built once by the real command."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import Servers

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# Shared machines are slow at times, and a test that fails must fail again: no deadlines, no chance.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# One thread for each process, set before any of them loads torch: tiny networks on two threads wait for each other
# more than they compute, all the more so where two tests run at once. Processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Somebody's setting for containers makes each process that a test starts compile all packages anew (see the Makefile).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".fathom"
REAL = frozenset({"integration", "contract", "e2e"})
MEASURED = frozenset({"unit", "contract"})


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules and tests are made, and keep later collections from looking at them.

    Nothing of them is ever garbage, and each collection would walk all there are so far.
    """
    gc.disable()
    try:
        found = yield
    finally:
        gc.enable()
    # What modules have dropped ends here, so that a warning of an unclosed file is not lost.
    gc.collect()
    gc.freeze()
    return found


def pytest_unconfigure() -> None:
    """Let the interpreter end all objects: libraries complain of those that are left."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long files at both ends, so that the workers of ``make test`` end together; a file's own order stays.

    Only unit and contract tests count for coverage: tracing costs processor time, which tests of real processes need,
    and what these run in other processes is not seen.
    """
    if config.pluginmanager.has_plugin("_cov"):  # pytest-cov, where it measures
        for item in items:
            if not MEASURED & set(item.path.relative_to(ROOT).parts):
                item.add_marker(pytest.mark.no_cover)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    places = {path: order_file(path, is_slow=path in slow) for path in {item.path for item in items}}
    items.sort(key=lambda item: places[item.path])


def order_file(path: Path, *, is_slow: bool) -> tuple[bool, int, bool]:
    """Return the place of a file: real processes before doubles, slow files outside, those on the shared stack together.

    Workers take files from both ends (``BothEnds``) and meet among the quick ones. A package's stack ends when a worker's
    next file is of another package, and its next start costs eight seconds of processor time.
    """
    parts = path.relative_to(ROOT).parts
    if not REAL & set(parts):
        return True, 0, is_slow
    group = 1 if parts[:3] == ("tests", "integration", "stack") else 0 if is_slow else 2
    return False, group, not is_slow


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Return who hands out files where they stay whole, and nothing for other ways to distribute tests."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import BothEnds

    return BothEnds(config, log)


def build_bundle(folder: str, module: str) -> Path:
    """Build the bundle when it is not there; tests that need it fail with the builder's own words."""
    target = HOME / "data" / folder
    done = subprocess.run(
        [sys.executable, "-m", module, "--target", str(target)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: small matrices wait for each other, and the order of sums is the same everywhere."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tables_dir() -> Path:
    return build_bundle("tables", "fathom.services.datafetch.warehouse.build_tables")


@pytest.fixture(scope="session")
def corpus_dir() -> Path:
    return build_bundle("corpus", "fathom.services.retrieval.tools.bundle")


@pytest.fixture
async def serve() -> AsyncIterator[Servers]:
    """Start HTTP servers and close them, and the clients made for them, when the test ends."""
    async with Servers() as servers:
        yield servers
