"""Interfaces on which episode executors depend: sampling, and observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fathom.protocol.messages import Completion, Sampling, ToolCall, ToolSpec
from services.planner.model import Step, Task, ToolResult
from services.planner.window.record import Compaction
from services.planner.window.view import View


class Policy(Protocol):
    """Source of completions; idempotent by ``request_id``; raises ``FathomError``."""

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        """Return a completion; ``hear`` is called with its text as it streams, if the engine supports it."""
        ...


class Observer(Protocol):
    """Observer that publishes and stores an episode; a step counts once ``step_done`` has returned."""

    async def sampled(self, step: Step) -> None:
        """Handle the step after sampling, before its first call."""
        ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    async def step_done(self, step: Step) -> None: ...

    def drafted(self, index: int, text: str) -> None:
        """Handle further text of the answer in round ``index``; "" at its end."""
        ...

    def dropped(self, index: int, why: str) -> None:
        """Handle the withdrawal of the draft, which is not the answer."""
        ...
