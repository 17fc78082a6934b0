"""Execution of the tool calls of a round: read-only calls run concurrently, the others after them in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from fathom.protocol.messages import ToolCall
from fathom.protocol.quoting import neutral
from services.planner.metrics import Metrics
from services.planner.model import ToolResult, ToolState
from services.planner.repeats import Repeats, key
from services.planner.tools.intents import intent_of
from services.planner.tools.registry import Ran, Registry

PARALLEL, MAX_CALLS = 4, 16


class Watcher(Protocol):
    """Observer of the start and end of calls, in an order that depends on the calls alone."""

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...


class Calls:
    """Executor of an episode's calls, round by round."""

    def __init__(
        self, run_id: str, tools: Registry, watcher: Watcher, metrics: Metrics, repeats: Repeats | None
    ) -> None:
        """Create the executor; with ``repeats`` None, repeated calls are allowed."""
        self._run_id, self._tools, self._watcher = run_id, tools, watcher
        self._metrics, self._repeats = metrics, repeats
        self._running: list[str] = []

    @property
    def waiting_for(self) -> str:
        """Return the tool of the earliest unfinished call; "" for none."""
        return self._running[0] if self._running else ""

    async def run(self, index: int, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Return the results in the order of the calls."""
        # Material is numbered in the order of the read-only calls, then of the others, however they overlap in time.
        reads = [place for place, call in enumerate(calls[:MAX_CALLS]) if self._tools.reads(call.name)]
        others = [place for place in range(len(calls)) if place not in reads]
        results: dict[int, ToolResult] = {}
        for place in reads:
            await self._starts(index, calls[place])
        async with self._beside(index, calls, reads) as running:
            for place in reads:
                ran = await running[place] if place in running else None
                results[place] = await self._end(index, calls[place], ran)
        for place in others:
            call = calls[place]
            await self._starts(index, call)
            if place >= MAX_CALLS:
                results[place] = await self._report(index, too_many(call))
                continue
            ran = None if self._instead(call) else await self._one(f"{self._run_id}-{index}-{place}", call)
            results[place] = await self._end(index, call, ran)
        return tuple(results[place] for place in range(len(calls)))

    @asynccontextmanager
    async def _beside(
        self, index: int, calls: Sequence[ToolCall], reads: Sequence[int]
    ) -> AsyncIterator[dict[int, asyncio.Task[Ran]]]:
        """Yield tasks of the read-only calls to execute, one for equal calls; all end with the block."""
        gate = asyncio.Semaphore(PARALLEL)

        async def gated(place: int) -> Ran:
            async with gate:
                return await self._one(f"{self._run_id}-{index}-{place}", calls[place])

        fresh = {key(calls[place]): place for place in reversed(reads)} if self._repeats is not None else {}
        running = {
            place: asyncio.create_task(gated(place), name=f"{calls[place].name} {place}")
            for place in reads
            if not self._instead(calls[place]) and fresh.get(key(calls[place]), place) == place
        }
        try:
            yield running
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    async def _one(self, call_id: str, call: ToolCall) -> Ran:
        self._running.append(call.name)
        ran = await self._tools.run(call_id, call)
        self._running.remove(call.name)
        return ran

    def _instead(self, call: ToolCall) -> tuple[str, ToolResult] | None:
        return None if self._repeats is None else self._repeats.instead(call, self._tools.reads(call.name))

    async def _starts(self, index: int, call: ToolCall) -> None:
        await self._watcher.tool_starts(index, call, self._tools.intent(call))

    async def _end(self, index: int, call: ToolCall, ran: Ran | None) -> ToolResult:
        """Return the result of an executed call, or the one that replaces a repeated call."""
        instead = None if ran is not None else self._instead(call)
        if instead is not None:
            action, result = instead
            self._metrics.repeats.labels(self._label(call), action).inc()
        else:
            # Without a run: an equal call of this round failed at its source, and this one tries for itself.
            ran = ran or await self._one(f"{self._run_id}-{index}-{call.id}", call)
            result = self._tools.settle(ran)
            self._metrics.call_seconds.labels(self._label(call)).observe(ran.seconds)
        if self._repeats is not None:
            self._repeats.note(index, result)
        return await self._report(index, result)

    async def _report(self, index: int, result: ToolResult) -> ToolResult:
        self._metrics.calls.labels(self._label(result.call), result.status.value).inc()
        await self._watcher.tool_done(index, result)
        return result

    def _label(self, call: ToolCall) -> str:
        """Return the tool's name as a metric label; unknown names share one label to bound their number."""
        return call.name if call.name in self._tools.names else "unknown"


def too_many(call: ToolCall) -> ToolResult:
    return refused(call, f"at most {MAX_CALLS} calls in one round: this one was not made")


def not_made(call: ToolCall) -> ToolResult:
    """Return the result of a call after ``finish``, which is not executed."""
    return refused(call, "`finish` came before this call, so it was not made")


def refused(call: ToolCall, error: str) -> ToolResult:
    content = json.dumps({"tool": call.name, "status": ToolState.INVALID.value, "error": error}, ensure_ascii=False)
    return ToolResult(call, intent_of(call), neutral(content), ToolState.INVALID)
