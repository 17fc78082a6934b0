"""What integration tests of several packages share: one Ray for all of them, for starting it is slow."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Ray on this machine, with places for two ranks of actor, critic and reference."""
    import ray

    environ = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(Path.cwd() / "libs")]), "OMP_NUM_THREADS": "1"}
    ray.init(num_cpus=6, include_dashboard=False, logging_level=logging.ERROR, runtime_env={"env_vars": environ})
    yield
    ray.shutdown()
