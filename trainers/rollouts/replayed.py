"""Rollout source that replays recorded batches: the same prompts give bit-identical batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fathom.core.errors import NotFound
from fathom.trainers.batch import DataProto
from fathom.trainers.rollouts.groups import Row, drop_scores, to_data
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.pool import Counts
from fathom.trainers.rollouts.recording import Recording
from fathom.trainers.rollouts.requests import SamplingSettings
from fathom.trainers.rollouts.source import episode_metrics, prompt_rows
from fathom.trainers.store_files import StoredFiles, StoreFolder


@dataclass
class ReplayedRollouts:
    """Reads batches from ``recording``; ``ahead`` is the recorded run's value. Published weights are discarded."""

    recording: Recording
    loop: LoopThread
    ahead: int = 0
    pad: int = 0
    graded: bool = True
    """False when the trainer's own reward manager scores the episodes."""
    _rows: dict[str, Row] = field(default_factory=dict, init=False)
    _validations: int = field(default=0, init=False)
    _version: int = field(default=0, init=False)

    def submit(self, prompts: DataProto) -> None:
        """Remember the prompts, which recorded groups refer to by ``uid``."""
        self._rows |= {str(row["uid"]): row for row in prompt_rows(prompts)}

    def pending(self) -> list[str]:
        """Return the submitted prompts not yet contained in a batch."""
        return list(self._rows)

    def generate(self, prompts: DataProto) -> DataProto:
        """Return the recorded batch of this step.

        Raises ``NotFound`` for a step that was not recorded and ``Conflict`` for one with other prompts.
        """
        sampling = SamplingSettings.of(prompts.meta_info)
        known = {str(row["uid"]): row for row in prompt_rows(prompts)}
        rows = known if sampling.validate else self._rows | known
        self._validations = self._validations + 1 if sampling.validate else 0
        key = self.recording.key(sampling, self._validations)
        try:
            groups, version = self.loop.call(self.recording.read(key, rows))
        except NotFound as error:
            raise NotFound("recorded batch", key) from error
        if not sampling.validate:
            given = {group.uid for group in groups}
            # What was not in this batch is still awaited: asynchronous runs return groups in another order than
            # submitted.
            self._rows = {uid: row for uid, row in rows.items() if uid not in given}
        data = to_data(groups, prompts.meta_info | {"metrics": episode_metrics(groups, version, Counts())}, self.pad)
        return data if self.graded else drop_scores(data)

    def publish(
        self,
        write: Callable[[StoreFolder], StoredFiles],
        write_base: Callable[[StoreFolder], StoredFiles] | None = None,
    ) -> int:
        """Increment the version without publishing: no model samples during a replay."""
        self._version += 1
        return self._version

    def close(self) -> None:
        """Do nothing: no work is in flight."""
