"""A planner at the client's edge: gives trajectories as scripted, breaks streams where told, knows versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, STOP_REASON_FINISHED, Step, Trajectory
from fathom.api.policy.v1.policy_pb2 import GetModelRequest, GetModelResponse, LoadWeightsRequest, Model
from fathom.core.errors import DependencyFailed, FathomError, NotFound
from tests.support.clock import pass_time


def trajectory(task: int, sample: int, version: int, *, prompt: int = 3, sampled: int = 2, seed: int = 0) -> Trajectory:
    """``prompt`` ids of mask 0, ``sampled`` of mask 1, one observation, one more sampled id."""
    # Ids say what they are: 10 and more the prompt of a task, 50 and more sampled ones, 90 an observation.
    ids = [10 + task] * prompt + [50 + seed + place for place in range(sampled)] + [90, 51]
    mask = [0] * prompt + [1] * sampled + [0, 1]
    item = Trajectory(
        run_id=f"run-{task}-{sample}", token_ids=ids, mask=mask, log_probs=[-0.5 * bit for bit in mask], exact=True,
        # Every second sample is right, so that each group has both outcomes and no advantage is zero.
        reward=float(sample % 2), reward_components={"correct": float(sample % 2), "valid": 1.0},
        version_min=version, version_max=version, task_index=task, sample_index=sample, stop_reason=STOP_REASON_FINISHED,
    )  # fmt: skip
    item.steps.append(Step())
    return item


class ScriptedPlanner:
    """``play`` gives an episode's duration in simulated seconds; ``trouble`` is raised after so many episodes of an attempt.

    At most ``places`` episodes are played at once, 0 for any number; ``busy_s`` is how long places were taken.
    """

    def __init__(self, play: Callable[[str, int], float] = lambda uid, sample: 0.0, places: int = 0) -> None:
        self.version, self.play, self.busy_s = 1, play, 0.0
        # A billion places: no bound, with the same code.
        self.places = asyncio.Semaphore(places or 1 << 30)
        self.requests: list[pb.RolloutRequest] = []
        self.trouble: list[tuple[int, FathomError]] = []
        self.failing: dict[tuple[int, int], int] = {}
        """The number of times that the sample of a task still fails."""
        self.played: list[tuple[str, int, int]] = []
        self.queued: dict[str, pb.RolloutRequest] = {}
        self.told: dict[str, list[Trajectory]] = {}
        self.stopped: list[str] = []
        self.error_code = ""

    async def rollout(
        self, request: pb.RolloutRequest, *, timeout_s: float = 600.0
    ) -> AsyncGenerator[pb.RolloutResponse, None]:
        # A copy, for callers go on changing their request.
        self.requests.append(pb.RolloutRequest.FromString(request.SerializeToString()))
        trouble = self.trouble.pop(0) if self.trouble else None
        running = [
            asyncio.create_task(self.episode(request, task, sample))
            for task in range(len(request.tasks))
            for sample in range(request.group_size)
        ]
        given = 0
        try:
            waiting = set(running)
            while waiting:
                ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                # In the order of tasks and samples among those that end at the same moment of simulated time.
                for task in sorted(ended, key=running.index):
                    if trouble is not None and given == trouble[0]:
                        raise trouble[1]
                    yield pb.RolloutResponse(trajectory=task.result())
                    given += 1
            # Trouble that was due behind the last episode comes instead of a proper end.
            if trouble is not None and trouble[0] >= given:
                raise trouble[1]
        finally:
            for task in running:
                # Real planners stop what nobody waits for; without this the next test would find its episodes running.
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def submit_rollout(self, request: pb.SubmitRolloutRequest) -> pb.SubmitRolloutResponse:
        self.queued.setdefault(request.rollout.request_id, request.rollout)
        return pb.SubmitRolloutResponse(rollout_id=request.rollout.request_id)

    async def watch_rollout(
        self, request: pb.WatchRolloutRequest, *, timeout_s: float = 600.0
    ) -> AsyncGenerator[pb.WatchRolloutResponse, None]:
        """Yield first what was published before; the rest is played while somebody watches."""
        rollout_id = request.rollout_id
        told = self.told.setdefault(rollout_id, [])
        for sequence, item in enumerate(told, 1):
            if sequence > request.after_sequence:
                yield pb.WatchRolloutResponse(trajectory=item, sequence=sequence)
        left = pb.RolloutRequest.FromString(self.queued[rollout_id].SerializeToString())
        known = {(item.task_index, item.sample_index) for item in told}
        async for response in self.rollout(left):
            item = response.trajectory
            if (item.task_index, item.sample_index) not in known:
                told.append(item)
                yield pb.WatchRolloutResponse(trajectory=item, sequence=len(told))

    async def stop_rollout(self, request: pb.StopRolloutRequest, *, timeout_s: float = 600.0) -> pb.StopRolloutResponse:
        self.stopped.append(request.rollout_id)
        return pb.StopRolloutResponse(was_queued=True)

    async def episode(self, request: pb.RolloutRequest, task: int, sample: int) -> Trajectory:
        async with self.places:
            begun = asyncio.get_running_loop().time()
            try:
                return await self.played_out(request, task, sample)
            finally:
                self.busy_s += asyncio.get_running_loop().time() - begun

    async def played_out(self, request: pb.RolloutRequest, task: int, sample: int) -> Trajectory:
        version, uid = request.policy_version or self.version, request.tasks[task].id
        self.played.append((uid, sample, version))
        if (duration := self.play(uid, sample)) > 0:
            await pass_time(duration)
        item = trajectory(task, sample, version, seed=sample % 7)
        if not request.policy_version:
            # Without a pinned version new weights may arrive in the middle: the last token is of the newest.
            item.version_max = self.version
        if self.failing.get((task, sample), 0):
            self.failing[(task, sample)] -= 1
            item.stop_reason, item.error, item.culprit = STOP_REASON_FAILED, "retrieval: out of reach", "retrieval"
            item.error_code = self.error_code
        return item


class ScriptedPolicy:
    """A policy at the client's edge: serves what it was last asked to load, to the planner's next episodes too."""

    def __init__(self, planner: ScriptedPlanner) -> None:
        self.planner, self.version = planner, 0

    async def load_weights(self, request: LoadWeightsRequest, timeout_s: float) -> None:
        self.version = self.planner.version = request.policy_version

    async def get_model(self, request: GetModelRequest) -> GetModelResponse:
        if not self.version:
            raise NotFound("model", request.model)
        return GetModelResponse(model=Model(name=request.model, policy_version=self.version))


class ScriptedClients:
    """Only a planner, and a policy for those who publish."""

    def __init__(self, planner: ScriptedPlanner) -> None:
        self.planner: Any = planner
        self.policy: Any = ScriptedPolicy(planner)

    async def close(self) -> None:
        """Close nothing: there is no channel."""


def make_failure() -> DependencyFailed:
    return DependencyFailed("planner", "connection lost")
