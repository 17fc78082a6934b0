"""Policy of the planner for tests, without a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Sampling, ToolSpec, Usage
from fathom.services.planner.model.episode import Task
from fathom.services.planner.model.view import View


@dataclass(frozen=True)
class PolicyRequest:
    """One call of ``generate``; ``hear`` takes the text as it streams, if anybody listens."""

    request_id: str
    task: Task
    view: View
    tools: tuple[ToolSpec, ...]
    hear: Callable[[str], None] | None

    @property
    def index(self) -> int:
        """Return the round of the request, by its id "<run>-<round>"; 0 for a request outside of the rounds."""
        number = self.request_id.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0


class FakePolicy(ABC):
    """Policy that answers what ``write`` returns; token ids, log-probabilities and usage are made up from the round."""

    model = "fake"

    @abstractmethod
    async def write(self, request: PolicyRequest) -> str:
        """Return the text of the completion, tool calls included; may raise ``FathomError``."""

    def complete(self, request: PolicyRequest, text: str) -> Completion:
        """Return the completion with this text."""
        # Different in each round, so that a record shows which round a token came from.
        prompt, sampled = (100 + request.index,), (200 + request.index, 201 + request.index)
        calls = parse_tool_calls(text)[1]
        usage = Usage(10, 5, 0, 1)
        return Completion(prompt, sampled, (-0.5, -0.25), text, calls, FinishReason.STOP, 1, 1, usage, True, self.model)

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        request = PolicyRequest(request_id, task, view, tuple(tools), hear)
        return self.complete(request, await self.write(request))
