"""The steps of the journey, and what is recorded of each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

SEEN, FAILED, NOT_SEEN = "seen", "failed", "not seen"

STEPS: Mapping[str, str] = {
    "install": "README's first try is installed, and every pod gets ready",
    "doctor": "fathom doctor --cluster finds nothing to mend",
    "helm test": "every service is ready as its callers see it",
    "smoke": "README's question is answered with citations through the gateway",
    "upgrade": "helm upgrade rolls every pod while users ask, and loses nothing",
    "rollback": "helm rollback likewise",
    "kill": "the main process of each service is killed while users ask",
    "restart of all": "everything restarts at once, the bus included, and no process ends by itself",
    "scale": "planner, retrieval and policy get more pods and fewer again while users ask",
    "store away": "a planner is not ready while the object store is out of reach, and then again",
    "training, no workers": "fathom train --on-cluster ends with 0, and its Ray cluster is gone at once",
    "training, two workers": "likewise with worker pods",
    "walls": "tried from inside: the sandbox reaches nothing, the planner its store and no stranger",
    "backup": "fathom backup create, and every checksum is right",
    "restore": "everybody is erased; after a restore what was backed up is there again, and a question is answered",
    "uninstall": "helm uninstall leaves no pod, no RayJob and no policy",
}


class NotSeen(Exception):
    """A step that could not be tried here; the text says why."""


@dataclass
class Record:
    """Record what came of one step."""

    step: str
    state: str
    seconds: float = 0.0
    detail: str = ""


class Journal:
    """Records of the steps, in the order of ``STEPS``; a step that nobody tried was not seen."""

    def __init__(self, path: Path | None = None) -> None:
        """Keep the records; with a path also in a file after each step, for a journey that is cut off."""
        self.records: dict[str, Record] = {}
        self._path = path

    @contextmanager
    def step(self, name: str) -> Iterator[Record]:
        """Record a step: seen unless it raises; a failure is recorded and the journey goes on."""
        record = self.records[name] = Record(name, SEEN)
        if name not in STEPS:
            raise KeyError(name)
        began = time.monotonic()
        try:
            yield record
        except NotSeen as reason:
            record.state, record.detail = NOT_SEEN, str(reason)
        # Whatever it is: the steps behind it may be seen all the same.
        except Exception as error:
            record.state, record.detail = FAILED, f"{type(error).__name__}: {error}"[-2000:]
        finally:
            record.seconds = time.monotonic() - began
            if self._path is not None:
                self._path.write_text(json.dumps([asdict(record) for record in self.records.values()], indent=1))

    def finish(self, why_not: str) -> Sequence[Record]:
        """Return all records; steps that were not tried get this reason."""
        return [self.records.get(name, Record(name, NOT_SEEN, detail=why_not)) for name in STEPS]
