"""The command line that builders of bundles share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from fathom.core.errors import FathomError
from fathom.domain.bundle.build import Convert, Write, build
from fathom.domain.bundle.packages import Package

T = TypeVar("T")


def run_build(name: str, sources: Sequence[tuple[Package, Convert[T]]], write: Write[T], recipe: str) -> None:
    """Build the bundle ``name`` in the folder of ``--target``; exit with one line when that fails."""
    parser = argparse.ArgumentParser(description=f"Builds the bundled {name}.")
    parser.add_argument("--target", type=Path, default=Path(".fathom/data") / name)
    target = parser.parse_args().target
    try:
        build(target, sources, write, recipe, lambda line: print(f"  {name:<6}  {line}", flush=True))
    except FathomError as error:
        raise SystemExit(f"error: {error.message} [{error.reason}]") from error
