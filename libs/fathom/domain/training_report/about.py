"""Identity of a training in its report: its name, state and settings, and where its files are in the store.

Keys: ``trainings/<name>.json`` has the description, by which trainings are listed, ``training/<name>/metrics/`` the
metrics in pieces of ``LINES`` lines, and ``training/<name>/samples/`` one object per sampled step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fathom.core.errors import CorruptData, NotFound
from fathom.transport.store.base import KEY_PATTERN

INDEX, PREFIX = "trainings", "training"
METRICS, ABOUT, SAMPLES = "metrics.jsonl", "about.json", "samples"
"""Names in a training's own folder."""
LINES = 200
"""Lines of metrics per object: an upload sends the last piece only, some 400 KB of a hundred metrics per step."""
HIDDEN = ("settings", "notes", "training_id", "start_id")
"""Fields that a row of a list leaves out."""
RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"


@dataclass(frozen=True)
class About:
    """Description of a training; times are seconds since the epoch."""

    name: str
    algorithm: str = ""
    model: str = ""
    state: str = RUNNING
    error: str = ""
    started: float = 0.0
    updated: float = 0.0
    step: int = 0
    total: int = 0
    lines: int = 0
    """Lines of metrics that have been written."""
    training_id: str = ""
    """Made at the first start in a folder: another one under the same name is another training."""
    start_id: str = ""
    """Changes with every start of the process that trains."""
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Leaves of the effective settings by dotted name."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    def without_settings(self) -> dict[str, Any]:
        """Return the description as a row of a list."""
        return {name: value for name, value in asdict(self).items() if name not in HIDDEN}


def read_about(source: str, data: bytes) -> About:
    """Read a description; raises ``CorruptData`` naming ``source``."""
    try:
        content = json.loads(data)
        found = replace(About(str(content["name"])), **content)
        return replace(found, notes=tuple(found.notes), settings=dict(found.settings))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(source, f"describes no training: {error}") from error


def checked_name(name: str) -> str:
    """Return the name; raises ``NotFound`` for one that no key of a store can hold."""
    if "/" in name or not KEY_PATTERN.fullmatch(name):
        raise NotFound("training", name)
    return name


def about_key(name: str) -> str:
    return f"{INDEX}/{checked_name(name)}.json"


def piece_key(name: str, number: int) -> str:
    """Return the key of a piece of the metrics, counted from 0."""
    return f"{PREFIX}/{checked_name(name)}/metrics/{number:06d}.jsonl"


def sample_key(name: str, step: int) -> str:
    return f"{PREFIX}/{checked_name(name)}/{SAMPLES}/{step:08d}.json"
