"""Execution of the tool calls of a round: read-only calls run concurrently, the others after them in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Protocol

from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.episode.loop_detector import RepeatDetector, make_call_key
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.episode import ToolResult, ToolStatus
from fathom.services.planner.tools.intents import describe_intent
from fathom.services.planner.tools.registry import ExecutedCall, Registry

# Four keep one run from filling the tools' queues; sixteen calls are more than any useful round has.
PARALLEL, MAX_CALLS = 4, 16


class CallObserver(Protocol):
    """Observer of the start and end of calls, in an order that depends on the calls alone."""

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def on_tool_finished(self, index: int, result: ToolResult) -> None: ...


class CallExecutor:
    """Executor of an episode's calls, round by round."""

    def __init__(
        self, run_id: str, tools: Registry, watcher: CallObserver, metrics: Metrics, repeats: RepeatDetector | None
    ) -> None:
        """Create the executor; with ``repeats`` None, repeated calls are allowed."""
        self._run_id, self._tools, self._watcher = run_id, tools, watcher
        self._metrics, self._repeats = metrics, repeats
        self._running: list[str] = []

    @property
    def waiting_for(self) -> str:
        """Return the tool of the earliest unfinished call; "" for none."""
        return self._running[0] if self._running else ""

    async def run(
        self, index: int, calls: Sequence[ToolCall], refused: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[ToolResult, ...]:
        """Return the results in the order of the calls; ``refused`` has the reason by id of calls not to make."""
        if not calls:
            return ()
        # Material is numbered in the order of the read-only calls, then of the others, however they overlap in time.
        reads = [
            place
            for place, call in enumerate(calls[:MAX_CALLS])
            if self._tools.reads(call.name) and call.id not in refused
        ]
        others = [place for place in range(len(calls)) if place not in reads]
        results: dict[int, ToolResult] = {}
        for place in reads:
            await self._announce(index, calls[place])
        async with self._start_reads(index, calls, reads) as running:
            for place in reads:
                ran = await running[place] if place in running else None
                results[place] = await self._finish(index, calls[place], ran)
        for place in others:
            call = calls[place]
            await self._announce(index, call)
            if call.id in refused:
                results[place] = await self._report(index, make_refusal(call, refused[call.id]))
                continue
            if place >= MAX_CALLS:
                results[place] = await self._report(index, refuse_excess(call))
                continue
            ran = None if self._find_replacement(call) else await self._run_one(f"{self._run_id}-{index}-{place}", call)
            results[place] = await self._finish(index, call, ran)
        return tuple(results[place] for place in range(len(calls)))

    @asynccontextmanager
    async def _start_reads(
        self, index: int, calls: Sequence[ToolCall], reads: Sequence[int]
    ) -> AsyncIterator[dict[int, asyncio.Task[ExecutedCall]]]:
        """Yield tasks of the read-only calls to execute, one for equal calls; all end with the block."""
        gate = asyncio.Semaphore(PARALLEL)

        async def run_gated(place: int) -> ExecutedCall:
            async with gate:
                return await self._run_one(f"{self._run_id}-{index}-{place}", calls[place])

        # Reversed, so that of equal calls the first one's place stays and the others take its result.
        fresh = {make_call_key(calls[place]): place for place in reversed(reads)} if self._repeats is not None else {}
        running = {
            place: asyncio.create_task(run_gated(place), name=f"{calls[place].name} {place}")
            for place in reads
            if not self._find_replacement(calls[place]) and fresh.get(make_call_key(calls[place]), place) == place
        }
        try:
            yield running
        finally:
            # On an early end, too: calls must not go on for an episode that is over.
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    async def _run_one(self, call_id: str, call: ToolCall) -> ExecutedCall:
        self._running.append(call.name)
        ran = await self._tools.run(call_id, call)
        self._running.remove(call.name)
        return ran

    def _find_replacement(self, call: ToolCall) -> tuple[str, ToolResult] | None:
        return None if self._repeats is None else self._repeats.find_replacement(call, self._tools.reads(call.name))

    async def _announce(self, index: int, call: ToolCall) -> None:
        await self._watcher.on_tool_started(index, call, self._tools.intent(call))

    async def _finish(self, index: int, call: ToolCall, ran: ExecutedCall | None) -> ToolResult:
        """Return the result of an executed call, or the one that replaces a repeated call."""
        instead = None if ran is not None else self._find_replacement(call)
        if instead is not None:
            action, result = instead
            self._metrics.repeats.labels(self._label(call), action).inc()
        else:
            # Without a run: an equal call of this round failed at its source, and this one tries for itself.
            ran = ran or await self._run_one(f"{self._run_id}-{index}-{call.id}", call)
            result = self._tools.settle(ran)
            self._metrics.call_seconds.labels(self._label(call)).observe(ran.seconds)
        if self._repeats is not None:
            self._repeats.add(index, result)
        return await self._report(index, result)

    async def _report(self, index: int, result: ToolResult) -> ToolResult:
        self._metrics.calls.labels(self._label(result.call), result.status.value).inc()
        await self._watcher.on_tool_finished(index, result)
        return result

    def _label(self, call: ToolCall) -> str:
        """Return the tool's name as a metric label; unknown names share one label to bound their number."""
        # A model can invent names without end, and each label is a time series.
        return call.name if call.name in self._tools.names else "unknown"


def refuse_excess(call: ToolCall) -> ToolResult:
    return make_refusal(call, f"at most {MAX_CALLS} calls in one round: this one was not made")


def refuse_after_finish(call: ToolCall) -> ToolResult:
    """Return the result of a call after ``finish``, which is not executed."""
    return make_refusal(call, "`finish` came before this call, so it was not made")


def make_refusal(call: ToolCall, error: str) -> ToolResult:
    content = json.dumps({"tool": call.name, "status": ToolStatus.INVALID.value, "error": error}, ensure_ascii=False)
    return ToolResult(call, describe_intent(call), neutral(content), ToolStatus.INVALID)
