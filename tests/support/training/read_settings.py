"""Overrides that several algorithms share: each takes those that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fathom.core.config import ConfigError
from fathom.trainers.jobs.registry import load_settings


def keep_read(algorithm: str, overrides: Sequence[str], files: Sequence[Path] = ()) -> list[str]:
    """The overrides without those that the algorithm refuses because it would not read them."""
    kept = list(overrides)
    while True:
        try:
            load_settings(algorithm, files, kept)
        except ConfigError as error:
            if "is not read by" not in error.message:
                return kept
            kept = [item for item in kept if item.partition("=")[0] != error.metadata["field"]]
        else:
            return kept
