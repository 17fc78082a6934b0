"""Provide what integration tests of several packages share: one Ray for all of them, for starting it is slow."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Ray on this machine with places for two ranks of actor, critic and reference; or the one of ``RAY_ADDRESS``."""
    import ray

    environ = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(Path.cwd() / "libs")]), "OMP_NUM_THREADS": "1"}
    own: dict[str, Any] = {"num_cpus": 6, "include_dashboard": False}
    runtime: dict[str, Any] = {"env_vars": environ}
    if os.environ.get("RAY_ADDRESS"):
        own = {}
    else:
        runtime["py_executable"] = shlex.quote(sys.executable)  # as in trainers/jobs/launch.py
        # Ray gives its workers the priority of background work. Beside busy programs they get a thirtieth of a
        # processor, and their start outlasts every deadline.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Otherwise it starts a worker for each of the six places at once, and most of them never get work.
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    ray.init(**own, logging_level=logging.ERROR, runtime_env=runtime)
    yield
    ray.shutdown()
