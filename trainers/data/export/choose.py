"""Selection of recorded episodes: success for SFT, exact ids and log-probabilities for PPO."""

from __future__ import annotations

import math

from fathom.api.planner.v1.trajectory_pb2 import (
    FINDING_KIND_UNCHECKED,
    STOP_REASON_FINISHED,
    TOOL_STATUS_OK,
    Trajectory,
)
from fathom.core.errors import FathomError


class NotTrainable(FathomError):
    """An episode lacks something the algorithm needs; ``run_id`` and ``field`` in the metadata name it."""

    code, reason = "FAILED_PRECONDITION", "FAILED_PRECONDITION"

    def __init__(self, run_id: str, field: str, message: str) -> None:
        super().__init__(f"{run_id}: {message}", metadata={"run_id": run_id, "field": field})
        self.field = field


def successful(trajectory: Trajectory, least: float, *, is_run: bool = False) -> bool:
    """Return whether an episode finished with a correct answer.

    Rollouts are judged by their reward, users' runs by an answer that leaves nothing open and has no findings.
    """
    if trajectory.stop_reason != STOP_REASON_FINISHED or not trajectory.HasField("answer"):
        return False
    if not trajectory.answer.markdown.strip():
        return False
    return is_answered(trajectory) if is_run else trajectory.reward >= least


def is_answered(trajectory: Trajectory) -> bool:
    """Return whether a user's run answered its question, as far as its record tells.

    Users' runs have no references and hence no reward. Whoever learnt from those that found nothing would learn to
    refuse: an answer that asks back, leaves something open, cites what was not found, or follows tool calls that all
    found nothing is no success.
    """
    answer = trajectory.answer
    # Each is what the answer itself says of its gaps.
    # What no check decided is nothing that an answer says of itself.
    has_fault = any(finding.kind != FINDING_KIND_UNCHECKED for finding in answer.findings)
    if has_fault or answer.open or answer.HasField("clarification"):
        return False
    material = [item for step in trajectory.steps for item in step.material] + list(answer.material)
    # Sources may hold a gap beside what was found; it counts when the answer rests on it.
    absent = {item.number for item in material if item.HasField("missing")}
    if absent & set(answer.cited):
        return False
    # What a tool does not find is material, too: an item that says so.
    if material:
        return len(absent) < len(material)
    statuses = {result.status for step in trajectory.steps for result in step.tool_results}
    return not statuses or TOOL_STATUS_OK in statuses


def for_policy_gradient(trajectory: Trajectory, model: str) -> Trajectory:
    """Return the trajectory if PPO can use it: exact ids and finite log-probabilities of this model.

    Raises ``NotTrainable`` naming run and field.
    """
    if not trajectory.exact:
        raise NotTrainable(trajectory.run_id, "exact", "has no exact token ids and log-probabilities: not for PPO")
    for step in trajectory.steps:
        where, completion = f"steps[{step.index}].completion", step.completion
        if completion.model != model:
            raise NotTrainable(
                trajectory.run_id, f"{where}.model", f"was sampled by {completion.model!r}, not {model!r}"
            )
        if not completion.log_probs or len(completion.log_probs) != len(completion.sampled_token_ids):
            raise NotTrainable(
                trajectory.run_id, f"{where}.log_probs", "are not there for each sampled id: not for PPO"
            )
        if not all(math.isfinite(value) for value in completion.log_probs):
            raise NotTrainable(trajectory.run_id, f"{where}.log_probs", "are not all finite")
    return trajectory
