"""Who may write a run: the planner that took it up last.

A planner that is cut off longer than its lease does not know that another one has the run. The order of the run's
event stream decides: taking a run up stores a mark there, whose position is the planner's *epoch*. Every further event
is stored only while the planner's own message is the stream's last one, so that the first word after the cut-off
fails with ``TakenOver``. What lies in the object store carries the epoch in its key: nothing that a newer planner
has written can be overwritten, and readers take what the newest one found or wrote (``record``).
"""

from __future__ import annotations

from fathom.errors import Conflict


class TakenOver(Conflict):
    """Another planner has the run; whoever meets this writes nothing more of it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken up by another planner", metadata={"run_id": run_id})
