"""Interfaces on which episode executors depend: sampling, and observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fathom.domain.chat.messages import Completion, Sampling, ToolCall, ToolSpec
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import Step, Task, ToolResult
from fathom.services.planner.model.view import View


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
    """Observer that publishes and stores an episode; a step counts once ``on_step_finished`` has returned."""

    async def on_sampled(self, step: Step) -> None:
        """Handle the step after sampling, before its first call."""
        ...

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def on_tool_finished(self, index: int, result: ToolResult) -> None: ...

    async def on_compacted(self, index: int, compaction: Compaction) -> None: ...

    async def on_step_finished(self, step: Step) -> None: ...

    # Not awaited: a draft is a courtesy to the reader and must not slow the sampling down.
    def on_drafted(self, index: int, text: str) -> None:
        """Handle further text of the answer in round ``index``; "" at its end."""
        ...

    def on_draft_dropped(self, index: int, why: str) -> None:
        """Handle the withdrawal of the draft, which is not the answer."""
        ...
