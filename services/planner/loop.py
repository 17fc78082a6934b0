"""The episode's loop: sample, decide, call tools, record; the same lines for production and training."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from fathom.errors import FathomError
from fathom.protocol.messages import Completion, Message, Sampling, ToolCall, ToolSpec
from services.planner.model import Answer, Episode, Outcome, Step, Stop, Task, ToolResult
from services.planner.protocols import Decision, EpisodeProtocol
from services.planner.stage import Stage
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
    ) -> Completion: ...


class Observer(Protocol):
    """Sees the episode as it happens and keeps it; a step counts when ``step_done`` has returned."""

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    async def step_done(self, step: Step) -> None: ...


class Loop:
    """Runs one episode to its end. ``stop`` ends it early; what was collected stays."""

    def __init__(
        self, episode: Episode, protocol: EpisodeProtocol, policy: Policy, stage: Stage, observer: Observer
    ) -> None:
        self.episode = episode
        self._protocol, self._policy, self._stage, self._observer = protocol, policy, stage, observer
        self._stopped = asyncio.Event()
        self._waiting_for = ""

    def stop(self) -> None:
        """Asks the episode to end; the call in flight is cancelled."""
        self._stopped.set()

    async def run(self) -> Outcome:
        """Goes on from the steps that are there until the end; never raises ``FathomError``."""
        limits = self.episode.task.limits
        try:
            async with asyncio.timeout(max(0.0, limits.deadline - time.time())):
                return await self._until_stopped(self._rounds)
        except TimeoutError:
            culprit = self._waiting_for or "policy"
            return Outcome(Stop.BUDGET, None, f"the time for this run was spent, waiting for {culprit}", culprit)
        except FathomError as error:
            culprit = error.metadata.get("culprit", self._waiting_for)
            return Outcome(Stop.FAILED, None, f"{culprit}: {error.message}" if culprit else error.message, culprit)

    async def _until_stopped(self, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        running = asyncio.ensure_future(work())
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return await running
            return Outcome(Stop.STOPPED)
        finally:
            for pending in (running, stopped):
                pending.cancel()
            await asyncio.gather(running, stopped, return_exceptions=True)

    async def _rounds(self) -> Outcome:
        decision, pending = self._resume()
        while True:
            if decision is not None and decision.answer is not None:
                ended = await self._stage.ending.finish(decision.answer, self.episode)
                if isinstance(ended, Answer):
                    return Outcome(Stop.FINISHED, ended)
                pending = (ended,)
            index, limits = len(self.episode.steps), self.episode.task.limits
            spent = self.episode.usage.completion_tokens
            if index >= limits.max_rounds or spent >= limits.max_tokens:
                return Outcome(Stop.BUDGET, None, f"{index} rounds and {spent} tokens are spent")
            last = index == limits.max_rounds - 1
            nudge = self._protocol.nudge() if last and index > 0 else None
            decision, pending = await self._round(index, (*pending, *((nudge,) if nudge else ())), last)

    def _resume(self) -> tuple[Decision | None, tuple[Message, ...]]:
        """What the recorded steps leave to do: nothing yet, an answer, or messages for the next round."""
        if not self.episode.steps:
            return None, self.episode.opening
        step = self.episode.steps[-1]
        last = step.index == self.episode.task.limits.max_rounds - 1
        decision = self._protocol.decide(step.completion, self._corrected(), last)
        return decision, self._answers(decision, step.results)

    async def _round(
        self, index: int, new_messages: tuple[Message, ...], last: bool
    ) -> tuple[Decision, tuple[Message, ...]]:
        episode = self.episode
        self._waiting_for = "policy"
        tools = self._protocol.tools(self._stage.tools.specs)
        view = await self._stage.window.view(episode, new_messages, tools)
        if view.compaction is not None:
            await self._observer.compacted(index, view.compaction)
        completion = await self._policy.generate(
            f"{episode.task.run_id}-{index}",
            episode.task,
            view,
            tools,
            self._protocol.sampling(episode.task),
        )
        decision = self._protocol.decide(completion, self._corrected(), last)
        results = [await self._call(index, position, call) for position, call in enumerate(decision.calls)]
        step = Step(index, new_messages, completion, tuple(results), view.compaction, view.tokens)
        await self._observer.step_done(step)
        episode.append(step)
        return decision, self._answers(decision, step.results)

    async def _call(self, index: int, position: int, call: ToolCall) -> ToolResult:
        self._waiting_for = call.name
        await self._observer.tool_starts(index, call, self._stage.tools.intent(call))
        result = await self._stage.tools.call(f"{self.episode.task.run_id}-{index}-{position}", call)
        self._waiting_for = ""
        await self._observer.tool_done(index, result)
        return result

    def _answers(self, decision: Decision, results: Sequence[ToolResult]) -> tuple[Message, ...]:
        if decision.correction is not None:
            return (decision.correction,)
        return tuple(self._protocol.render(result) for result in results)

    def _corrected(self) -> bool:
        """True when the step before the present one already had no valid action."""
        return bool(self.episode.steps) and not self.episode.steps[-1].results
