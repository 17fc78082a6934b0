"""Observe what episodes and runs publish, for tests."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import Step, ToolResult


class RecordingObserver:
    """Observer that keeps steps and compactions, and a readable log of calls and compactions."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.steps: list[Step] = []
        self.compactions: list[tuple[int, Compaction]] = []

    async def on_sampled(self, step: Step) -> None: ...

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None:
        self.log.append(f"{call.name}: {intent}")

    async def on_tool_finished(self, index: int, result: ToolResult) -> None:
        self.log.append(f"{result.call.name} {result.status.value}")

    async def on_compacted(self, index: int, compaction: Compaction) -> None:
        self.log.append(f"compacted before {index}")
        self.compactions.append((index, compaction))

    async def on_step_finished(self, step: Step) -> None:
        self.steps.append(step)

    def on_drafted(self, index: int, text: str) -> None: ...

    def on_draft_dropped(self, index: int, why: str) -> None: ...


def list_logged(events: Iterable[pb.RunEvent]) -> list[pb.RunEvent]:
    """Return the events of the run's log, whose numbers begin at 1 and have no gap.

    A run that waits tells its place in the queue first, which is no event of the log and has the number 0: on a busy
    machine any run may wait.
    """
    return [event for event in events if event.sequence or not event.HasField("waiting")]
