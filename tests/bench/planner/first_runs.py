"""Announcement of runs of blind sets by benchmarks: a first run is called one once, and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.golden.blind.records import FILE, describe_run, is_first, list_sets, load_records, record_first_run


def announce(path: Path, model: str, file: Path = FILE) -> bool:
    """Print what a run of this file is; return whether it is the first run of a blind set, which is to be recorded."""
    if list_sets().get(path.stem) != path.resolve():
        return False
    records = load_records(file)
    print(describe_run(path.stem, model, records), flush=True)
    return is_first(path.stem, model, records)


def record(path: Path, model: str, figures: Mapping[str, str], file: Path = FILE) -> None:
    """Record the figures of a first run and say where."""
    record_first_run(path.stem, model, figures, file)
    print(f"{path.stem}: recorded as its first run in {file.name}; commit it before you change anything for it")
