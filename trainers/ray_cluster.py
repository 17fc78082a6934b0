"""Start of Ray for what uses it: learners of a training, and rows of many sources."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

from fathom.core.errors import MissingExtra


def start_ray(ranks: int, store_bytes: int | None = None) -> Callable[[], None]:
    """Join the Ray cluster at ``RAY_ADDRESS``, or start Ray locally for so many ranks.

    Return a function that shuts it down. ``store_bytes`` bounds the object store of a local Ray.

    When Ray is already initialised, the returned function does nothing. Raises ``MissingExtra`` without Ray.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtra("ray", "serve") from error
    if ray.is_initialized():
        return lambda: None
    if os.environ.get("RAY_ADDRESS"):
        ray.init(address="auto", log_to_driver=False)
    else:
        # Ray's number of CPUs is what it lets actors reserve, one per rank; by default it would be the machine's, which
        # may be fewer.
        # Ray starts its workers by a line of shell: without quotes no worker starts below a path with a space.
        own = {"py_executable": shlex.quote(sys.executable)}
        ray.init(
            num_cpus=max(2, ranks),
            include_dashboard=False,
            log_to_driver=False,
            runtime_env=own,
            object_store_memory=store_bytes,
        )
    return lambda: ray.shutdown()
