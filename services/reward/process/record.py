"""Version history of the model: one entry in the bucket ``PROCESS``, changed by compare-and-set.

Format 1::

    {"format": 1, "version": 3, "checkpoints": [{"version": 3, "key": "reward/process/3-….pt", …}],
     "steps": {"req_1": {"version": 3, "batch": "sha256…", "metrics": {"reward_model/dpo_loss": 0.6}}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from fathom.core.errors import Conflict, CorruptData
from fathom.transport.store.base import StoredObject

FORMAT = 1
# Retries come within minutes; the entry has to stay well below the bucket's value limit.
KEPT_STEPS = 32


@dataclass(frozen=True)
class Step:
    """Result of an update: the version it created and its metrics. ``batch`` is the SHA-256 of its training batch."""

    version: int
    batch: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class History:
    """The current version, 0 for the model as configured, with the retained checkpoints and steps."""

    version: int = 0
    checkpoints: Mapping[int, StoredObject] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)

    def find_answer(self, request_id: str, batch: str) -> Step | None:
        """Return the earlier answer to this request, None if it is new; raise ``Conflict`` when its batch differs."""
        step = self.steps.get(request_id)
        # An id that comes back with other data is a bug of the caller; answering would hide it.
        if step is not None and step.batch != batch:
            raise Conflict(f"request_id {request_id!r} came with another batch", metadata={"field": "request_id"})
        return step

    def with_step(self, request_id: str, step: Step, checkpoint: StoredObject, kept: int) -> History:
        """Return the history with one more step, without the oldest checkpoints and steps."""
        checkpoints = {**self.checkpoints, step.version: checkpoint}
        steps = {**self.steps, request_id: step}
        newest = sorted(checkpoints)[-kept:]
        return replace(
            self,
            version=step.version,
            checkpoints={version: checkpoints[version] for version in newest},
            steps=dict(list(steps.items())[-KEPT_STEPS:]),
        )

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON of format 1."""
        return json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "checkpoints": [
                    {"version": version, **asdict(stored)} for version, stored in sorted(self.checkpoints.items())
                ],
                "steps": {
                    name: {"version": step.version, "batch": step.batch, "metrics": dict(step.metrics)}
                    for name, step in self.steps.items()
                },
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str) -> History:
        """Parse an entry; raise ``CorruptData(key)``."""
        try:
            parsed = json.loads(data)
            if parsed["format"] != FORMAT:
                raise CorruptData(key, f"is not an entry of format {FORMAT}")
            checkpoints = {int(entry.pop("version")): StoredObject(**entry) for entry in parsed["checkpoints"]}
            steps = {str(name): Step(**entry) for name, entry in parsed["steps"].items()}
            history = cls(int(parsed["version"]), checkpoints, steps)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptData(key, f"is not a version history: {type(error).__name__}: {error}") from error
        # Version 0 has no checkpoint; any other one cannot be loaded without its own.
        if history.version and history.version not in history.checkpoints:
            raise CorruptData(key, f"has no checkpoint of version {history.version}")
        return history
