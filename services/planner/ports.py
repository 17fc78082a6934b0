"""What an engine of episodes stands on: who samples, and who sees and keeps what happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fathom.protocol.messages import Completion, Sampling, ToolCall, ToolSpec
from services.planner.model import Step, Task, ToolResult
from services.planner.window.record import Compaction
from services.planner.window.view import View


class Policy(Protocol):
    """Samples a continuation; idempotent by ``request_id``; raises ``FathomError``."""

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        """``hear`` is given the text as it comes, where the engine tells it."""
        ...


class Observer(Protocol):
    """Sees the episode as it happens and keeps it; a step counts when ``step_done`` has returned."""

    async def sampled(self, step: Step) -> None:
        """The step as far as it has got, before its first call."""
        ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    async def step_done(self, step: Step) -> None: ...

    def drafted(self, index: int, text: str) -> None:
        """More of the answer that round ``index`` writes; "" when it has written it."""
        ...

    def dropped(self, index: int, why: str) -> None:
        """What was drafted, if anything, will not be the answer."""
        ...
