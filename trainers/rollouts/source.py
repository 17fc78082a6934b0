"""Rollout source of the training loops (``fathom.trainers.interfaces.RolloutSource``), backed by the planner service.

With ``rollout.mode: sync`` a batch is one synchronous request, pinned to the last published version. With ``async``
every prompt's group is its own request, started up to ``rollout.ahead`` batches ahead;
``fathom.trainers.rollouts.pool`` enforces the staleness bound.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FINISHED, TOOL_STATUS_INVALID, Trajectory
from fathom.clients import Clients
from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.sections import RolloutConfig
from fathom.trainers.interfaces import Metrics
from fathom.trainers.rollouts.client import Patience, ProgressCallback, collect, ignore_progress
from fathom.trainers.rollouts.groups import Grade, Group, Row, drop_scores, to_data
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.pace import Pace
from fathom.trainers.rollouts.pool import Counts, Job, Pool
from fathom.trainers.rollouts.publisher import Publisher, Write
from fathom.trainers.rollouts.recording import Recording
from fathom.trainers.rollouts.requests import MAX_TASKS, SamplingSettings, rollout_request


def prompt_rows(prompts: DataProto) -> list[Row]:
    """Return each prompt's non-tensor fields; raises ``InvalidField("uid")`` when two prompts share a ``uid``."""
    uids = [str(uid) for uid in prompts.array("uid")]
    if len(set(uids)) != len(uids):
        raise InvalidField("uid", "names two prompts alike")
    arrays = prompts.non_tensor_batch
    return [{name: values[place] for name, values in arrays.items()} for place in range(len(prompts))]


# In which a planner, or what it needs, is restarted on a machine that is slow.
OUTAGE_S = 60.0


@dataclass
class PlannerRollouts:
    """Requests episodes from the planner and publishes weights.

    Call it from one thread; its requests run on the loop thread.
    """

    config: TrainConfig
    clients: Clients
    publisher: Publisher
    loop: LoopThread
    recording: Recording | None = None
    pad: int = 0
    """Padding id."""
    grade: Grade | None = None
    _validations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Set up the pool; raises ``ConfigError`` when groups may mix versions without importance weights."""
        rollout, algorithm = self.config.rollout, self.config.algorithm
        weighted = rollout.importance_cap is not None or algorithm.bypass_mode
        if self.ahead and rollout.group_versions == "weighted" and not weighted:
            raise ConfigError(
                "rollout.group_versions: weighted needs rollout.importance_cap or algorithm.bypass_mode",
                metadata={"field": "rollout.group_versions"},
            )
        self._patience = Patience(rollout.timeout_s, rollout.attempts, outage_s=OUTAGE_S)
        self._pace = Pace(rollout.episodes_per_s)
        self._pool = Pool(
            self._group,
            rollout.staleness,
            single=rollout.group_versions == "single",
            max_restarts=rollout.max_restarts,
            limit=rollout.concurrency,
        )

    @property
    def is_graded_by_planner(self) -> bool:
        """Return whether the planner grades episodes; otherwise ``grade`` or the trainer's reward manager does."""
        return self.grade is None and self.config.reward.manager == "service"

    @property
    def ahead(self) -> int:
        """Return the number of batches started ahead of time."""
        return count_ahead(self.config.rollout)

    def submit(self, prompts: DataProto) -> None:
        """Start the episodes of these prompts."""
        rows, sampling = prompt_rows(prompts), SamplingSettings.of(prompts.meta_info)

        async def begin() -> None:
            self._pool.submit(rows, sampling)

        self.loop.call(begin())

    def pending(self) -> list[str]:
        """Return the ``uid`` of all prompts submitted and not yet returned."""

        async def look() -> list[str]:
            return self._pool.pending()

        return self.loop.call(look())

    def generate(self, prompts: DataProto) -> DataProto:
        """Return as many groups as there are prompts.

        With a staleness above 0 they may belong to any prompts submitted before.
        """
        started, sampling = time.perf_counter(), SamplingSettings.of(prompts.meta_info)
        if self.ahead and not sampling.validate:
            if not sampling.submitted:
                self.submit(prompts)
            groups = self.loop.call(self._pool.take(len(prompts)))
            # Counts are of one batch: they are taken and begun anew together.
            counts, self._pool.counts = self._pool.counts, Counts()
        else:
            groups, counts = self.loop.call(self._barrier(prompt_rows(prompts), sampling)), Counts()
        more: Metrics = {}
        if self.grade is not None:
            groups, more = self.loop.call(self.grade(groups))
        # After grading: a replay must train on the same rewards without asking a grader again.
        self._record(sampling, groups)
        metrics = episode_metrics(groups, self.publisher.version, counts) | more
        metrics["rollout/wait_s"] = time.perf_counter() - started
        data = to_data(groups, prompts.meta_info | {"metrics": metrics}, self.pad)
        return data if self.config.reward.manager == "service" else drop_scores(data)

    def publish(self, write: Write, write_base: Write | None = None) -> int:
        """Publish new weights and advance the pool to their version."""

        async def publish_and_advance() -> int:
            version = await self.publisher.publish(write, write_base)
            # After the version is served, on the same loop: a group started from now on is sampled by it or a newer
            # one.
            self._pool.advance(version)
            return version

        return self.loop.call(publish_and_advance())

    def close(self) -> None:
        """Cancel all groups in flight."""
        self.loop.call(self._pool.close())

    async def _barrier(self, rows: list[Row], sampling: SamplingSettings) -> list[Group]:
        """Sample the whole batch with the last published version, in requests of at most ``MAX_TASKS`` prompts."""
        groups: list[Group] = []
        for start in range(0, len(rows), MAX_TASKS):
            some, version = rows[start : start + MAX_TASKS], self.publisher.version
            kind = "val" if sampling.validate else "step"
            name = f"{self.config.model.name}-{kind}{sampling.step}-{start}"
            request = rollout_request(
                self.config, name, some, sampling, version, start, graded=self.is_graded_by_planner
            )
            await self._pace.wait(len(some) * sampling.n)
            found = await self._collect(request)
            places = range(0, len(found), sampling.n)
            groups += [Group(row, tuple(found[at : at + sampling.n])) for row, at in zip(some, places, strict=True)]
        return groups

    async def _group(self, job: Job) -> Group:
        """Sample one prompt's episodes with whatever version is current."""
        # Version and restart are part of the name, hence of the request id: a restart reuses no earlier episodes.
        name = f"{self.config.model.name}-{job.row['uid']}-v{job.begun_at}-r{job.restarts}"
        request = rollout_request(
            self.config, name, [job.row], job.sampling, 0, job.place, graded=self.is_graded_by_planner
        )
        await self._pace.wait(job.sampling.n)
        return Group(job.row, tuple(await self._collect(request, partial(self._pool.record_progress, job))))

    def _collect(
        self, request: pb.RolloutRequest, heard: ProgressCallback = ignore_progress
    ) -> Coroutine[Any, Any, list[Trajectory]]:
        return collect(self.clients.planner, request, self._patience, heard, self.config.rollout.transport)

    def _record(self, sampling: SamplingSettings, groups: list[Group]) -> None:
        if self.recording is None:
            return
        self._validations = self._validations + 1 if sampling.validate else 0
        key = self.recording.key(sampling, self._validations)
        self.loop.call(self.recording.write(key, groups, self.publisher.version))


def count_ahead(rollout: RolloutConfig) -> int:
    """Return the number of batches of prompts that are under way before their step."""
    # On-policy samples cannot be begun before the step's weights are there.
    return (rollout.ahead or rollout.staleness) if rollout.mode == "async" and rollout.staleness else 0


def episode_metrics(groups: list[Group], version: int, counts: Counts) -> Metrics:
    """Compute metrics of episode age (in policy versions), length and validity."""
    episodes = [item for one in groups for item in one.episodes]
    ages = [version - item.version_min for item in episodes]
    return {
        "rollout/age/mean": sum(ages) / len(ages),
        "rollout/age/max": float(max(ages)),
        "rollout/mixed_groups": sum([not one.single for one in groups]) / len(groups),
        "rollout/begun_anew": float(counts.stale + counts.mixed + counts.cancelled),
        "rollout/turns/mean": sum([len(item.steps) for item in episodes]) / len(episodes),
        "rollout/tool_calls/mean": sum([len(s.tool_results) for e in episodes for s in e.steps]) / len(episodes),
        "rollout/invalid_action_ratio": invalid_share(episodes),
    }


def invalid_share(episodes: list[Trajectory]) -> float:
    """Return the share of rounds without any valid action; the last round of an unfinished episode does not count."""
    rounds = invalid = 0
    for episode in episodes:
        finished = episode.stop_reason == STOP_REASON_FINISHED
        for position, step in enumerate(episode.steps):
            if position == len(episode.steps) - 1 and not (finished or step.tool_results):
                continue
            ends = finished and position == len(episode.steps) - 1
            rounds += 1
            invalid += not ends and all(result.status == TOOL_STATUS_INVALID for result in step.tool_results)
    return invalid / rounds if rounds else 0.0
