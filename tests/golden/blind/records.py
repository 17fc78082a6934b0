"""First runs of the blind sets, and which sets are burnt: a set says something of strangers' questions once only.

``records.yaml`` has an entry for each set that was run. A benchmark writes the figures of a set's first run there, with
day and commit, and never again; later runs are called what they are. Whoever mends code for a set, or trains on it,
writes the reason under ``burnt``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

FILE = Path(__file__).with_name("records.yaml")
SETS = (FILE.parent / "questions", FILE.parent / "other")
HEAD = """\
# First runs of the blind sets, written by the benchmarks (tests/golden/blind/records.py); a set without an entry has not
# been run. `burnt` says why a set is no longer blind; its later figures say nothing of strangers' questions.
"""
Words = Annotated[str, StringConstraints(min_length=1)]


class FirstRun(BaseModel):
    """Figures of a set's first run, the day, and the commit that was run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    day: date
    commit: str = ""
    """Empty where only the commit that published the figures is known; with a plus where files had been changed."""
    published: str = ""
    figures: dict[str, Words] = Field(min_length=1)

    @model_validator(mode="after")
    def check(self) -> FirstRun:
        if not (self.commit or self.published):
            raise ValueError("names neither the commit that was run nor the one that published the figures")
        return self


class Record(BaseModel):
    """Record what is known of a set: the first run of each model, and why it is burnt, "" when it is not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_runs: dict[str, FirstRun] = {}
    burnt: str = ""

    @model_validator(mode="after")
    def check(self) -> Record:
        if not (self.first_runs or self.burnt):
            raise ValueError("has neither a first run nor a reason why it is burnt")
        return self


class FirstRunExists(ValueError):
    """A set's first run is recorded, so that no further one can be."""


def load_records(file: Path = FILE) -> dict[str, Record]:
    """Return the records by set; raise ``ValidationError`` with the place of a mistake."""
    if not file.exists():
        return {}
    return {name: Record.model_validate(row) for name, row in (yaml.safe_load(file.read_text("utf-8")) or {}).items()}


def list_sets() -> dict[str, Path]:
    """Return the files of all blind sets by name."""
    return {path.stem: path for folder in SETS for path in sorted(folder.glob("*.jsonl"))}


def describe_run(name: str, model: str, records: Mapping[str, Record]) -> str:
    """Return what a run of a set is: its first, or a later one with the figures of the first and why it is burnt."""
    record = records.get(name, Record.model_construct(first_runs={}, burnt=""))
    first = record.first_runs.get(model)
    burnt = f" The set is burnt: {record.burnt}." if record.burnt else ""
    if first is not None:
        shown = ", ".join(f"{key} {value}" for key, value in first.figures.items())
        at = first.commit or f"published in {first.published}"
        return f"{name}: not a first run, which was on {first.day} ({at}): {shown}.{burnt}"
    if burnt:
        return f"{name}: not a first run.{burnt}"
    return f"{name}: first run"


def is_first(name: str, model: str, records: Mapping[str, Record]) -> bool:
    """Return whether a run of this set would be its first: there is none, and the set is not burnt."""
    record = records.get(name)
    return record is None or not (record.burnt or model in record.first_runs)


def record_first_run(
    name: str, model: str, figures: Mapping[str, str], file: Path = FILE, *, commit: str | None = None
) -> None:
    """Write the figures of a set's first run; raise ``FirstRunExists`` where there is one or the set is burnt."""
    records = load_records(file)
    if not is_first(name, model, records):
        raise FirstRunExists(describe_run(name, model, records))
    today = datetime.now(UTC).date()
    run = FirstRun(day=today, commit=find_commit() if commit is None else commit, figures=dict(figures))
    # A set may have had a first run with another model; that one stays.
    known = records.get(name)
    records[name] = Record(first_runs={**(known.first_runs if known else {}), model: run})
    rows = {key: record.model_dump(mode="json", exclude_defaults=True) for key, record in sorted(records.items())}
    # Renamed into place: a benchmark that is stopped while it writes must not lose the other sets.
    part = file.with_suffix(".part")
    part.write_text(HEAD + render_rows(rows), encoding="utf-8")
    part.replace(file)


def render_rows(rows: Mapping[str, object]) -> str:
    """Return the rows as YAML, with the figures of a run in a line."""
    return yaml.safe_dump(dict(rows), allow_unicode=True, sort_keys=False, width=120, default_flow_style=None)


def find_commit() -> str:
    """Return the checkout's commit, with a plus where files differ from it; "unknown" outside of a repository."""

    def ask(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=FILE.parent, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    try:
        # The records of the other sets of the same session change by themselves.
        changed = [line for line in ask("status", "--porcelain").splitlines() if not line.endswith(f"/{FILE.name}")]
        return ask("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
