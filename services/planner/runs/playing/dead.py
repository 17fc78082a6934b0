"""Ends of runs that were given up: their readers wait for one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import FathomError, NotFound
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.engine import Play
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.model.episode import Limits, Outcome, StopReason, Task, rebuild_episode
from fathom.services.planner.proto.episode import step_from_proto
from fathom.services.planner.runs.log.events import EventLog
from fathom.services.planner.runs.log.fold import load_history
from fathom.services.planner.runs.playing.ending import PlayedLeg
from fathom.services.planner.runs.playing.parking import PAUSES
from fathom.services.planner.runs.playing.publisher import publish_end
from fathom.services.planner.runs.playing.worker import Worker
from fathom.services.planner.runs.queue import Consumer, QueuedLeg
from fathom.services.planner.runs.repository import Lease
from fathom.services.planner.runs.routing import restore_route
from fathom.transport.bus.base import Delivery
from fathom.transport.bus.delivery import DEAD_REASON
from fathom.transport.bus.streams import DEAD_RUNS


@dataclass
class DeadRuns:
    """Consumer of the dead letters of runs, with the store and the bus of a worker."""

    worker: Worker
    _consumer: Consumer = field(default_factory=Consumer)

    async def work(self) -> None:
        """Write the ends of runs that were given up, until cancelled."""
        deliveries = self.worker.bus.consume(DEAD_RUNS)
        await self._consumer.consume(deliveries, 1, self._handle, self.worker.log)

    def stop_consuming(self) -> None:
        """Take no further dead letter."""
        self._consumer.stop_consuming()

    async def _handle(self, delivery: Delivery) -> None:
        queued = QueuedLeg.parse(delivery.payload)
        run_id = queued.run_id
        events = EventLog(self.worker.bus, run_id)
        try:
            await self._end(events, queued.number, delivery.headers.get(DEAD_REASON, "was given up"))
            await delivery.ack()
        except LeaseLost:  # somebody plays it after all, and ends it
            await delivery.ack()
        except FathomError as error:
            self.worker.log.warning("end of a run cannot be written yet", run_id=run_id, error=error.message)
            await delivery.nak(PAUSES.delay_s(delivery.attempt))
        finally:
            await events.close()

    async def _end(self, events: EventLog, number: int, why: str) -> None:
        """End a leg as failed with what was recorded, unless it has an end."""
        record, run_id, error = self.worker.record, events.run_id, f"planner: {why}"
        try:
            header = await record.get_header(run_id)
        except NotFound:  # refused while it was queued: only somebody who follows it knows it
            await events.acquire(1)
            failed = trajectory.Trajectory(run_id=run_id, error=error, culprit="planner", leg=number)
            failed.stop_reason = trajectory.STOP_REASON_FAILED
            await publish_end(events, failed, ObjectRef())
            return
        if await record.get_end(run_id, number) is not None:
            return
        fold = await events.acquire(1)
        ended = await record.find_end(run_id)
        before = None if ended is None else ended[0]
        header = restore_route(header, fold, before)
        history = await load_history(record, run_id, fold, before)
        await record.put_lease(run_id, Lease(events.epoch, number, len(history.steps)))
        task = Task(run_id, header.question, header.model, Sampling(), Limits(0, 0, 0.0))
        episode = rebuild_episode(task, (), [step_from_proto(step) for step in history.steps])
        leg = replace(await record.get_leg(header), number=number)
        outcome = Outcome(StopReason.FAILED, None, error, "planner")
        played = PlayedLeg(Play(episode, outcome), history.steps, history.open_step)
        await self.worker.ends.write(played, header, leg, Lane.INTERACTIVE, events, fold)
