"""Report data of a training under way: its description, its samples, its page, and their copy in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fathom.core.ids import new_id
from fathom.domain.replacing import write_whole
from fathom.domain.training_report.about import ABOUT, METRICS, SAMPLES, About, read_about
from fathom.domain.training_report.samples import is_due, surplus
from fathom.trainers.batch import DataProto
from fathom.trainers.monitor.report import RELOAD_S, sample_name, write_report
from fathom.trainers.monitor.samples import describe_sample, sample_steps
from fathom.trainers.monitor.store_mirror import StoreMirror

# Share of a training's time that its page and its samples may take.
MOST_SHARE = 0.02


@dataclass
class Pace:
    """Admission of work that is repeated: not before ``every_s``, and at most ``MOST_SHARE`` of the time."""

    every_s: float
    clock: Callable[[], float] = time.monotonic
    _next: float = float("-inf")

    def run(self, work: Callable[[], object], *, force: bool = False) -> None:
        """Do the work if it is due, or with ``force`` in any case."""
        started = self.clock()
        if started < self._next and not force:
            return
        work()
        ended = self.clock()
        self._next = ended + max(self.every_s, (ended - started) / MOST_SHARE)


class Progress:
    """Writes what the report needs to the training's folder, as steps end."""

    def __init__(self, folder: Path, about: About, samples: int) -> None:
        """Begin the report of the training in ``folder``; ``samples`` is the number of rows kept of a sampled step."""
        self.folder, self._samples = folder, samples
        metrics = folder / METRICS
        lines = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        now, before = time.time(), folder / ABOUT
        known = read_about(str(before), before.read_bytes()) if before.exists() else None
        self.about = replace(
            about,
            started=known.started if known else now,
            updated=now,
            lines=lines,
            training_id=known.training_id if known else new_id("training"),
            start_id=new_id("start"),
        )
        self.mirror: StoreMirror | None = None
        self.page, self.sampling = Pace(RELOAD_S), Pace(0.0)
        self._write_about()

    def set_notes(self, notes: Sequence[str]) -> None:
        self.about = replace(self.about, notes=tuple(notes))

    def keep_sample(self, step: int, total: int, batch: DataProto, tokenizer: Any) -> None:
        """Keep telling rows of a step's batch when one is due."""
        if not self._samples or not is_due(step, total):
            return
        folder = self.folder / SAMPLES

        def write() -> None:
            write_whole(folder / sample_name(step), describe_sample(batch, tokenizer, step, self._samples))
            for other in surplus(sample_steps(path.name for path in folder.glob("*.json")), step):
                (folder / sample_name(other)).unlink()

        self.sampling.run(write, force=step in (1, total))

    def log_step(self, step: int, total: int) -> None:
        """Note a step whose metrics have been written, and renew page and copy when they are due."""
        self.about = replace(self.about, step=step, total=total, updated=time.time(), lines=self.about.lines + 1)
        self._write_about()
        self.page.run(self.write_page)
        if self.mirror is not None:
            self.mirror.update(self.about)

    def end(self, state: str, error: str = "") -> None:
        """Note how the training ended, in the folder and in the store."""
        self.about = replace(self.about, state=state, error=error, updated=time.time())
        self._write_about()
        if self.mirror is not None:
            self.mirror.finish(self.about)
            self.mirror = None

    def write_page(self) -> Path:
        """Write ``report.html``; raises ``MissingExtra`` without plotly."""
        return write_report(self.folder, f"{self.about.algorithm}: {self.about.model}")

    def _write_about(self) -> None:
        write_whole(self.folder / ABOUT, self.about.to_json())
