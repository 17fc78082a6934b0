"""Command-line entry point of the PRIME recipe.

Usage: ``python -m fathom.trainers.prime.main_prime --config FILE [section.field=value …]``. Run the same training as
``fathom train prime``, against the stack already running in ``--home``; it does not start a stack itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path


def environment() -> None:
    """Set environment variables that the libraries read at import time.

    Hugging Face libraries go offline; tokenizers may use their thread pool.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train to completion and print the run's summary.

    Raises the same errors as ``fathom train``, and ``NotReady`` when no stack is running in ``--home``.
    """
    parser = argparse.ArgumentParser(prog="fathom.trainers.prime.main_prime", description="PRIME (arXiv 2502.01456).")
    parser.add_argument("--config", type=Path, action="append", default=[], help="YAML over the recipe's defaults")
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("FATHOM_LOCAL_HOME", ".fathom")))
    parser.add_argument("overrides", nargs="*", help="section.field=value")
    given = parser.parse_args(arguments)
    # Before the imports below: the libraries read these variables when they are imported.
    environment()
    from fathom.clients.local import read_endpoints
    from fathom.trainers.jobs.launch import Interruption, Place, Run
    from fathom.trainers.jobs.registry import load_settings

    endpoints = read_endpoints(given.home)
    config = load_settings("prime", given.config, given.overrides)
    print(config.to_yaml())
    place = Place(endpoints.services, endpoints.store)
    print(Run("prime", config, place, lambda *_: None, Interruption()).train().summary())


if __name__ == "__main__":
    main()
