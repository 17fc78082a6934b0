"""Entry of the index for each run: enough to list it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from fathom.api.common.v1.common_pb2 import Usage
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb

MAX_ERROR_CHARS = 200


@dataclass(frozen=True)
class RunUsage:
    """Tokens that a run has used so far, and their cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Entry:
    """Changes of a run's entry in the index: the current leg, and why it ended (0 while it runs) with its use.

    ``end_time`` is in seconds since the epoch, 0 where nobody has noted it; ``error`` is cut.
    """

    leg: int
    stop_reason: int = 0
    usage: RunUsage | None = None
    end_time: float = 0.0
    lane: int = 0
    culprit: str = ""
    error: str = ""

    @classmethod
    def of(cls, ended: pb.Trajectory, end_time: float = 0.0) -> Entry:
        """Return the entry of a run that has ended."""
        usage = RunUsage(**{known.name: getattr(ended.usage, known.name) for known in fields(RunUsage)})
        error = ended.error[:MAX_ERROR_CHARS]
        return cls(ended.leg, ended.stop_reason, usage, end_time, ended.lane, ended.culprit, error)

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Entry:
        """Return a stored entry; one of an earlier version says less, one of a newer planner may say more."""
        known = {one.name: found[one.name] for one in fields(cls) if one.name in found}
        usage = found.get("usage")
        return cls(**{**known, "usage": usage and read_usage(usage)})


def read_usage(found: Mapping[str, Any]) -> RunUsage:
    """Return what an entry says that a run has used; a newer planner's may say more."""
    return RunUsage(**{known.name: found[known.name] for known in fields(RunUsage) if known.name in found})


def make_summary(
    run_id: str, question: str, parent_run_id: str, start_time: float, model: str, entry: Entry
) -> planner.RunSummary:
    summary = planner.RunSummary(run_id=run_id, question=question, parent_run_id=parent_run_id, leg=entry.leg)
    summary.model = model
    if entry.usage is not None:
        summary.usage.CopyFrom(Usage(**asdict(entry.usage)))
    summary.start_time.FromMicroseconds(int(start_time * 1e6))
    if entry.end_time:
        summary.end_time.FromMicroseconds(int(entry.end_time * 1e6))
    summary.lane, summary.culprit, summary.error = cast(Any, entry.lane), entry.culprit, entry.error
    # The stubs give enum values as plain ints.
    summary.stop_reason = cast(pb.StopReason, entry.stop_reason)
    return summary
