"""Fencing: only the planner that took a run over last may write to it.

A planner that is disconnected longer than its lease does not know that another one has the run. The order of the run's
event stream decides: a takeover stores a mark there, whose position is the planner's *epoch*. Further events are stored
only while the planner's own message is the last one of the stream, so that its first write after a takeover fails with
``LeaseLost``. Keys in the object store contain the epoch: nothing written by a newer planner can be overwritten, and
readers use what the newest one found or wrote (``record``).
"""

from __future__ import annotations

from fathom.core.errors import Conflict


# A type of its own: other conflicts may be resolved by reading again, but whoever meets this one must stop writing.
class LeaseLost(Conflict):
    """Another planner has taken the run over; the receiver must no longer write to it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken up by another planner", metadata={"run_id": run_id})
