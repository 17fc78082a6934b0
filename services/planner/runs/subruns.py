"""Sub-runs: a sub-question is queued like any run, and its result arrives as events."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane, current_call
from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.domain.chat.proto import sampling_to_proto
from fathom.services.planner.model.episode import Task
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.queue import submit_run
from fathom.services.planner.runs.repository import Header, RunRepository, first_leg
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import MAX_DEPTH

LEAST_S = 3.0
"""Shortest time in seconds for which a sub-run is started."""
SHARE = 0.8
"""Share of the parent's remaining time that a sub-run gets; the parent needs the rest to use the answer."""


@dataclass(frozen=True)
class Allowance:
    """Delegation limits of one run: number of sub-runs, and rounds and tokens of each."""

    runs: int = 4
    rounds: int = 8
    tokens: int = 40_000


@dataclass
class SubRunClient:
    """Client that delegates sub-questions of one episode to other workers."""

    bus: Bus
    record: RunRepository
    task: Task
    allowance: Allowance
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_allowed(self) -> bool:
        """Return whether the run may delegate: by its depth, and not when it is recorded.

        A sub-run is played elsewhere, outside of the recording: a strict replay would make its calls.
        """
        return self.task.depth < MAX_DEPTH and self.allowance.runs > 0 and self.task.recording is None

    def make_run_id(self, call_id: str) -> str:
        """Return the id of the run that answers a call."""
        return make_child_id(self.task.run_id, call_id)

    async def ask(self, call_id: str, question: str) -> pb.RunFinished:
        """Start the sub-run of a call, or join an existing one, and wait for its end.

        Raises ``InvalidField`` when no further sub-run is allowed or no time is left.
        """
        run_id = make_child_id(self.task.run_id, call_id)
        header, is_new = await self._begin(run_id, question)
        leg = first_leg(header) if is_new else await self.record.get_leg(header)
        call = current_call()
        try:
            await submit_run(self.bus, header, call.lane if call else Lane.INTERACTIVE, leg)
        except BaseException:  # cancellation included: a run that is not queued would stay without an end
            if is_new:
                await asyncio.shield(self.record.discard(header))
            raise
        # Only its end is of interest here.
        async with aclosing(follow(self.bus, run_id, 0, leg.number, may_skip=True)) as events:
            async for event in events:
                if event.HasField("finished") and event.finished.leg >= leg.number:
                    return event.finished
        return pb.RunFinished(stop_reason=trajectory.STOP_REASON_FAILED, error="its events ended early")

    async def _begin(self, run_id: str, question: str) -> tuple[Header, bool]:
        async with self._turn:
            known = await self.record.list_children(self.task.run_id)
            # A repeated call joins its sub-run and does not count again.
            if run_id not in known and len(known) >= self.allowance.runs:
                raise InvalidField("delegate", f"at most {self.allowance.runs} sub-questions in one run")
            return await self.record.create(self._make_header(run_id, question))

    def _make_header(self, run_id: str, question: str) -> Header:
        task, call = self.task, current_call() or Call.new()
        left_s = (task.limits.deadline - time.monotonic()) * SHARE
        if left_s < LEAST_S:
            raise InvalidField("delegate", "no time is left for a sub-question; use what is known")
        request = pb.RunRequest(
            request_id=run_id,
            question=question,
            protocol=trajectory.PROTOCOL_RESEARCH,
            model=task.model,
            as_of=task.as_of,
            budget=pb.Budget(
                max_rounds=self.allowance.rounds, max_tokens=self.allowance.tokens, max_ms=int(left_s * 1000)
            ),
            sampling=sampling_to_proto(task.sampling),
            corpora=task.corpora,
            sources_off=task.sources_off,
        )
        return Header(
            run_id=run_id,
            question=question,
            conversation_id="",
            protocol=trajectory.Protocol.Name(request.protocol),
            model=task.model,
            start_time=time.time(),
            request=request.SerializeToString(deterministic=True).hex(),
            parent_run_id=task.run_id,
            depth=task.depth + 1,
            tenant=call.tenant,
            traceparent=call.traceparent,
        )


def make_child_id(parent_run_id: str, call_id: str) -> str:
    """Return the sub-run's id for a call, deterministic so that a repeated call joins it.

    It sorts next to its parent.
    """
    return f"{parent_run_id.rpartition('_')[0] or parent_run_id[:64]}_{sha256(call_id.encode())[:16]}"
